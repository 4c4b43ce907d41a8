// What the program knows of a model: it reads tokens one after the other, whatever the file, the device and the way.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "common/device.hpp"

namespace llama2 {

struct Options {
  std::filesystem::path model;  ///< a file of llama2.c, or a folder of Hugging Face
  std::int64_t steps = 256;     ///< positions; 0: as many as the model was trained on
  program::Device device;
  int threads = 0;
  bool eager = false;  ///< the decoder of tenon::Llama instead of the graph
  bool cudnn = false;
};

class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;

  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  /// Positions that there is room for.
  [[nodiscard]] virtual std::int64_t capacity() const = 0;
  /// Reads a token; the logits are valid until the next call.
  virtual std::span<const float> forward(std::int64_t id) = 0;
};

std::unique_ptr<Model> open_on_cpu(const Options& options);
std::unique_ptr<Model> open_on_cuda(const Options& options);

}  // namespace llama2
