// Opening a model on a device; open_cpu.cpp and open_cuda.cpp instantiate it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <tenon/graph/executable.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/io/llama2c_graph.hpp>
#include <tenon/io/load.hpp>
#include <tenon/io/load_llama_graph.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/llama_graph.hpp>
#include <tenon/tensor/create.hpp>

#include "llama2/model.hpp"

namespace llama2 {

/// What a model is read from: a file, or else a folder.
struct Source {
  std::filesystem::path path;
  std::optional<tenon::Llama2cCheckpoint> file;
  tenon::ModelConfig config;

  explicit Source(std::filesystem::path from) : path(std::move(from)) {
    if (!std::filesystem::is_directory(path)) file.emplace(path);
    config = file ? file->config() : tenon::read_model_config(path / "config.json");
  }
};

inline std::int64_t positions(const tenon::ModelConfig& config, std::int64_t steps) {
  return steps == 0 ? config.max_position_embeddings : std::min(steps, config.max_position_embeddings);
}

template <tenon::DeviceTag Device>
class GraphModel final : public Model {
 public:
  GraphModel(std::unique_ptr<tenon::Context<Device>> ctx, const Source& source, std::int64_t steps,
             const tenon::graph::CompileOptions<Device>& options)
      : ctx_(std::move(ctx)), decoder_(open(*ctx_, source, positions(source.config, steps), options)) {}

  [[nodiscard]] std::int64_t vocab_size() const override { return decoder_.config().vocab_size; }
  [[nodiscard]] std::int64_t capacity() const override { return decoder_.capacity(); }
  std::span<const float> forward(std::int64_t id) override { return decoder_.forward(*ctx_, id); }

 private:
  static tenon::LlamaGraphDecoder<Device> open(tenon::Context<Device>& ctx, const Source& source, std::int64_t capacity,
                                               const tenon::graph::CompileOptions<Device>& options) {
    if (source.file) return tenon::load_llama2c_graph(ctx, *source.file, capacity, options);
    return tenon::load_llama_graph(ctx, source.path, capacity, tenon::DType::float32, options);
  }

  std::unique_ptr<tenon::Context<Device>> ctx_;
  tenon::LlamaGraphDecoder<Device> decoder_;
};

template <tenon::DeviceTag Device>
class EagerModel final : public Model {
 public:
  EagerModel(std::unique_ptr<tenon::Context<Device>> ctx, const Source& source, std::int64_t steps)
      : ctx_(std::move(ctx)),
        model_(open(*ctx_, source)),
        cache_(model_.make_cache(*ctx_, positions(source.config, steps))),
        device_logits_(tenon::empty<float>(*ctx_, {1, source.config.vocab_size})),
        logits_(device_logits_.select(0, 0).cpu(*ctx_)) {}

  [[nodiscard]] std::int64_t vocab_size() const override { return model_.config().vocab_size; }
  [[nodiscard]] std::int64_t capacity() const override { return cache_.capacity(); }
  std::span<const float> forward(std::int64_t id) override {
    model_.forward(*ctx_, cache_, std::span<const std::int64_t>(&id, 1), device_logits_);
    logits_ = device_logits_.select(0, 0).cpu(*ctx_);
    return {logits_.data(), static_cast<std::size_t>(logits_.numel())};
  }

 private:
  static tenon::Llama<float, Device> open(tenon::Context<Device>& ctx, const Source& source) {
    if (!source.file) return tenon::load_model<tenon::Llama<float, Device>>(ctx, source.path);
    return {ctx, source.config, tenon::read_llama2c_weights(*source.file)};
  }

  std::unique_ptr<tenon::Context<Device>> ctx_;
  tenon::Llama<float, Device> model_;
  typename tenon::Llama<float, Device>::Cache cache_;
  tenon::Tensor<float, 2, Device> device_logits_;
  tenon::Tensor<float, 1> logits_;
};

template <tenon::DeviceTag Device>
std::unique_ptr<Model> open_model(std::unique_ptr<tenon::Context<Device>> ctx, const Options& options,
                                  const tenon::graph::CompileOptions<Device>& compile_options = {}) {
  const Source source(options.model);
  if (options.eager) return std::make_unique<EagerModel<Device>>(std::move(ctx), source, options.steps);
  return std::make_unique<GraphModel<Device>>(std::move(ctx), source, options.steps, compile_options);
}

}  // namespace llama2
