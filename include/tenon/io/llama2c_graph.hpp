// llama2.c's checkpoints for LlamaGraphDecoder.
#pragma once

#include <cstdint>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/models/llama_graph.hpp>

TENON_NAMESPACE_BEGIN

/// The constants of llama_graph, with RotaryPairs::neighbours: mapped, not copied, where the file has float32; dequantised
/// where it has int8. Throws what reading the checkpoint throws.
[[nodiscard]] inline graph::TensorMap llama2c_graph_constants(const Llama2cCheckpoint& checkpoint) {
  graph::TensorMap constants;
  for (const char* name : {"rms_att_weight", "wq", "wk", "wv", "wo", "rms_ffn_weight", "w1", "w2", "w3"}) {
    const AnyTensor layers = checkpoint.dequantized(name);
    for (std::int64_t i = 0; i < checkpoint.config().num_hidden_layers; ++i) {
      constants.emplace(std::string(name) + "_" + std::to_string(i), layers.select(0, i));
    }
  }
  constants.emplace("rms_final_weight", checkpoint.dequantized("rms_final_weight"));
  constants.emplace("wcls", checkpoint.dequantized("wcls"));
  return constants;
}

/// The decoder of a checkpoint for `capacity` positions, 0 for all that the model was trained on; fewer are faster, see
/// llama_graph.
template <DeviceTag Device>
[[nodiscard]] LlamaGraphDecoder<Device> load_llama2c_graph(Context<Device>& ctx, const Llama2cCheckpoint& checkpoint,
                                                           std::int64_t capacity = 0,
                                                           const graph::CompileOptions<Device>& options = {}) {
  const ModelConfig& config = checkpoint.config();
  return LlamaGraphDecoder<Device>(ctx, config, capacity == 0 ? config.max_position_embeddings : capacity,
                                   RotaryPairs::neighbours, checkpoint.dequantized("token_embedding_table"),
                                   llama2c_graph_constants(checkpoint), DType::float32, options);
}

TENON_NAMESPACE_END
