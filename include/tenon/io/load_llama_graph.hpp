// load_llama_graph: a Hugging Face folder (config.json, *.safetensors) as a graph decoder. For llama2.c's files,
// io/llama2c_graph.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/checkpoint.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/llama_graph.hpp>

TENON_NAMESPACE_BEGIN

/// The decoder of a LLaMA folder for `capacity` positions, 0 for all that the model was trained on; fewer are faster, see
/// llama_graph. Weights are mapped, not copied, where they have `dtype` and the device can read them there.
///
/// Throws FileError for what is missing or unreadable; FormatError or DTypeError that names the file and the field or tensor;
/// ValueError for a configuration that llama_graph cannot say, which Llama<T, Device> may; and what compiling throws.
template <DeviceTag Device>
[[nodiscard]] LlamaGraphDecoder<Device> load_llama_graph(Context<Device>& ctx, const std::filesystem::path& folder,
                                                         std::int64_t capacity = 0, DType dtype = DType::float32,
                                                         const graph::CompileOptions<Device>& options = {}) {
  ModelConfig config = detail::read_config_of(folder, Llama<float, Device>::model_type);
  const WeightMap weights = read_weights(open_checkpoint(folder));
  return detail::naming(folder, [&] {
    graph::TensorMap constants = llama_graph_constants(config, weights, dtype);
    if (capacity == 0) capacity = config.max_position_embeddings;
    return LlamaGraphDecoder<Device>(ctx, std::move(config), capacity, RotaryPairs::halves,
                                     weights.at("model.embed_tokens.weight"), std::move(constants), dtype, options);
  });
}

TENON_NAMESPACE_END
