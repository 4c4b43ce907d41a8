// A model folder, loaded: everything that the chat needs from it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tenon/core/dtype.hpp>
#include <tenon/generate/generate_text.hpp>
#include <tenon/generate/generation_defaults.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/config.hpp>
#include <tenon/text/chat_template.hpp>
#include <tenon/text/tokenizer.hpp>

#include "chat/options.hpp"

namespace chat {

/// A model with one sequence, whatever its type computes in: the rest of the program is compiled once.
class Model {
 public:
  virtual ~Model() = default;

  virtual tenon::DType dtype() const = 0;
  /// What computes: "8 threads", or the name of a GPU.
  virtual const std::string& processor() const = 0;
  /// Tokens that fit in the sequence.
  virtual std::int64_t context() const = 0;
  /// tenon::generate_text on the sequence: what it shares with the last prompt and answer is not read again. With
  /// `go_on`, a long prompt is read in pieces, and it is asked before each whether to go on; if not, the result is
  /// cancelled and empty. Without, the prompt is read in one pass.
  virtual tenon::TextResult generate(const tenon::Tokenizer& tokenizer, std::span<const std::int64_t> prompt,
                                     const tenon::TextOptions& options, const tenon::TextCallback& on_text,
                                     const std::function<bool()>& go_on) = 0;
};

/// Everything in a model folder but the weights. Reading it is quick, so that mistakes show before the weights load.
struct ModelFolder {
  std::filesystem::path path;
  std::string name;  ///< the folder's own name
  tenon::ModelConfig config;
  tenon::Tokenizer tokenizer;
  tenon::GenerationDefaults defaults;
  std::optional<tenon::ChatTemplate> chat_template;  ///< empty with --raw
};

/// Reads the folder that the options name. Throws tenon::Error that names the file and the field, and UsageError for a
/// --chat-template that is unknown.
ModelFolder read_model_folder(const Options& options);

/// How to generate: the command line before the model's own defaults before the program's.
tenon::TextOptions text_options(const Options& options, const ModelFolder& folder);

/// Loads the weights for the device that the options name: on the CPU mapped, and read when they are first used or,
/// where `progress` is given, at once; on a GPU copied there. Throws tenon::Error, and UsageError for a --context that
/// the model does not have.
std::unique_ptr<Model> load_weights(const Options& options, const ModelFolder& folder,
                                    const tenon::LoadProgress& progress);

/// What the loaders of the devices are asked for.
struct LoadRequest {
  std::filesystem::path folder;
  tenon::DType dtype = tenon::DType::float32;
  std::int64_t context = 0;
  tenon::LoadOptions loading;
};
std::unique_ptr<Model> load_on_cpu(int threads, const LoadRequest& request);
/// Only in builds with CUDA.
std::unique_ptr<Model> load_on_cuda(int ordinal, const LoadRequest& request);

}  // namespace chat
