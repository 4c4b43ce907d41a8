#include "chat/model.hpp"

#include <algorithm>
#include <random>
#include <system_error>
#include <tenon/io/checkpoint.hpp>
#include <tenon/io/model_config.hpp>

#include "chat/errors.hpp"
#include "common/program.hpp"

namespace chat {
namespace {

tenon::DType chosen_dtype(const Options& options, const ModelFolder& folder) {
  if (const auto named = program::named_dtype(options.dtype)) return *named;
  return tenon::checkpoint_dtype(folder.config, tenon::open_checkpoint(folder.path));
}

std::int64_t chosen_context(const Options& options, const ModelFolder& folder) {
  constexpr std::int64_t default_limit = 8192;
  const std::int64_t positions = folder.config.max_position_embeddings;
  if (!options.context) return std::min(positions, default_limit);
  if (*options.context > positions) {
    throw UsageError("--context " + std::to_string(*options.context) + " is more than the " +
                     std::to_string(positions) + " positions of the model '" + folder.name + "'");
  }
  return *options.context;
}

/// The name to show for a folder given as "models/x/", or ".".
std::string folder_name(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::weakly_canonical(path, error);
  const std::string name = (error ? path : full).filename().string();
  return name.empty() ? path.string() : name;
}

std::optional<tenon::ChatTemplate> find_template(const Options& options) {
  if (options.raw) return std::nullopt;
  try {
    return tenon::ChatTemplate::from_folder(options.model, options.chat_template);
  } catch (const tenon::ValueError& error) {
    throw UsageError(std::string("--chat-template: ") + error.what());
  }
}

}  // namespace

ModelFolder read_model_folder(const Options& options) {
  const std::filesystem::path& path = options.model;
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (error && error != std::errc::no_such_file_or_directory) {
    throw tenon::FileError("cannot open the model folder '" + path.string() + "': " + error.message());
  }
  if (!std::filesystem::exists(status)) throw tenon::FileError("there is no model folder '" + path.string() + "'");
  if (!std::filesystem::is_directory(status)) {
    throw tenon::FileError("'" + path.string() + "' is not a folder; a model is one, with config.json in it");
  }

  ModelFolder folder{.path = path,
                     .name = folder_name(path),
                     .config = tenon::read_model_config(path / "config.json"),
                     .tokenizer = tenon::Tokenizer::from_folder(path),
                     .defaults = {},
                     .chat_template = find_template(options)};
  folder.defaults = tenon::load_generation_defaults(path, folder.config, folder.tokenizer);
  return folder;
}

tenon::TextOptions text_options(const Options& options, const ModelFolder& folder) {
  tenon::TextOptions result = folder.defaults.text_options();
  tenon::SamplingOptions& sampling = result.sampling;
  sampling.temperature = options.temperature.value_or(sampling.temperature);
  sampling.top_k = options.top_k.value_or(sampling.top_k);
  sampling.top_p = options.top_p.value_or(sampling.top_p);
  sampling.min_p = options.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = options.repetition_penalty.value_or(sampling.repetition_penalty);
  // Who gives an option of sampling wants to sample, also where the model's files do not.
  const bool asked_to_sample = options.temperature || options.top_k || options.top_p || options.min_p;
  sampling.greedy = options.greedy || (sampling.greedy && !asked_to_sample);
  sampling.seed = options.seed ? *options.seed : std::random_device()();
  sampling.log_probabilities = false;

  result.stop_strings = options.stop;
  result.max_new_tokens = options.max_new_tokens.value_or(result.max_new_tokens);
  result.stream.starts_text = !options.raw;
  return result;
}

std::unique_ptr<Model> load_weights(const Options& options, const ModelFolder& folder,
                                    const tenon::LoadProgress& progress) {
  LoadRequest request{.folder = folder.path,
                      .dtype = chosen_dtype(options, folder),
                      .context = chosen_context(options, folder),
                      .loading = {.prefault = false, .progress = progress}};
#ifdef TENON_PROGRAM_CUDA
  if (options.device.is_cuda()) return load_on_cuda(options.device.ordinal, request);
#endif
  request.loading.prefault = static_cast<bool>(progress);
  return load_on_cpu(options.threads, request);
}

}  // namespace chat
