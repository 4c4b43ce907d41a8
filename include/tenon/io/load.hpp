// load_model: a Hugging Face folder (config.json, *.safetensors) as a model.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/io/checkpoint.hpp>
#include <tenon/io/model_config.hpp>
#include <tenon/models/decoder.hpp>

TENON_NAMESPACE_BEGIN

/// How to load.
struct LoadOptions {
  /// Read every page of the weights now instead of when it is first used, so that the first answer is not slowed by the
  /// disk. Costs the time of reading the files. A model on a GPU is read at once anyway.
  bool prefault = false;
  LoadProgress progress;
};

/// The dtype in which a folder's weights are kept: config.json's, or else that of the embedding.
inline DType checkpoint_dtype(const ModelConfig& config, const Checkpoint& checkpoint) {
  if (config.dtype) return *config.dtype;
  return checkpoint.tensor("model.embed_tokens.weight").dtype();
}

namespace detail {

/// Reads one byte of every page, so that the kernel maps it.
inline void touch_pages(const AnyTensor& tensor, std::int64_t done, std::int64_t total, const LoadProgress& progress) {
  constexpr std::int64_t page = 4096;
  constexpr std::int64_t report_every = std::int64_t{64} << 20;
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  const volatile std::byte* data = tensor.data();
  for (std::int64_t i = 0; i < bytes; i += page) {
    static_cast<void>(data[i]);
    if (progress && i % report_every == 0) progress(done + i, total);
  }
}

/// The configuration of a folder, whose model_type must be the one given.
inline ModelConfig read_config_of(const std::filesystem::path& folder, std::string_view model_type) {
  ModelConfig config = read_model_config(folder / "config.json");
  if (config.model_type == model_type) return config;
  throw FormatError(quoted(folder / "config.json") + ": field 'model_type' is '" + config.model_type + "', expected '" +
                    std::string(model_type) + "'");
}

/// What `body` returns. Errors that it throws about weights or configuration name the folder, too.
template <class Body>
auto naming(const std::filesystem::path& folder, Body&& body) {
  const auto named = [&](const Error& error) { return quoted(folder) + ": " + error.what(); };
  try {
    return body();
  } catch (const FormatError& error) {
    throw FormatError(named(error));
  } catch (const DTypeError& error) {
    throw DTypeError(named(error));
  } catch (const ShapeError& error) {
    throw ShapeError(named(error));
  } catch (const ValueError& error) {
    throw ValueError(named(error));
  }
}

}  // namespace detail

/// All weights of a checkpoint by name, mapped, not copied.
inline WeightMap read_weights(const Checkpoint& checkpoint, const LoadOptions& options = {}) {
  WeightMap weights;
  for (const std::string& name : checkpoint.names()) weights.emplace(name, checkpoint.tensor(name));
  const auto total = static_cast<std::int64_t>(checkpoint.total_bytes());
  std::int64_t done = 0;
  if (options.prefault) {
    for (const auto& entry : weights) {
      detail::touch_pages(entry.second, done, total, options.progress);
      done += static_cast<std::int64_t>(entry.second.nbytes());
    }
  }
  if (options.progress) options.progress(total, total);
  return weights;
}

/// Loads `Model` (Qwen2<T, Device>, Llama<T, Device>) from a folder. Weights are mapped and used in place where their
/// dtype allows it: as it is, or 16 bits wide in a model that computes in float. Others are converted once.
///
/// Throws FileError for what is missing or unreadable, and FormatError or DTypeError that names the file and the field
/// or tensor; nothing is left behind.
template <class Model>
[[nodiscard]] Model load_model(Context<typename Model::device_type>& ctx, const std::filesystem::path& folder,
                               const LoadOptions& options = {}) {
  ModelConfig config = detail::read_config_of(folder, Model::model_type);
  const Checkpoint checkpoint = open_checkpoint(folder);
  return detail::naming(folder, [&] {
    if constexpr (std::same_as<typename Model::device_type, Cpu>) {
      return Model(ctx, std::move(config), read_weights(checkpoint, options));
    } else {
      return Model(ctx, std::move(config), read_weights(checkpoint), options.progress);  // copying reads every page
    }
  });
}

TENON_NAMESPACE_END
