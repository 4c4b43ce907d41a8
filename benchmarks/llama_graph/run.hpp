// Compiling and decoding LLaMA 2 as a graph, on random weights, for both devices.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <tenon/graph/executable.hpp>
#include <tenon/models/llama_graph.hpp>
#include <tenon/runtime/context.hpp>

#include <common/device.hpp>
#include <timing.hpp>

namespace llama_graph {

/// What the command line says.
struct Options {
  std::string shape = "stories260K";
  program::Device device;
  std::int64_t capacity = 256;  ///< positions of the caches
  std::int64_t tokens = 0;      ///< to decode; 0: all that fit
  int repeat = 5;
  int threads = 1;
  bool cudnn = false;
  bool unfused = false;  ///< without fusion passes
};

/// A shape of llama2.c or of LLaMA 2, with vocabulary, norms and RoPE as there.
inline tenon::ModelConfig shape_config(const std::string& name) {
  struct Shape {
    const char* name;
    std::int64_t dim, hidden, layers, heads, kv_heads, vocabulary, positions;
  };
  constexpr Shape shapes[] = {{"stories260K", 64, 172, 5, 8, 4, 512, 512},
                              {"stories15M", 288, 768, 6, 6, 6, 32000, 256},
                              {"stories110M", 768, 2048, 12, 12, 12, 32000, 1024},
                              {"7b", 4096, 11008, 32, 32, 32, 32000, 4096},
                              {"13b", 5120, 13824, 40, 40, 40, 32000, 4096}};
  for (const Shape& shape : shapes) {
    if (shape.name != name) continue;
    tenon::ModelConfig config;
    config.model_type = "llama";
    config.vocab_size = shape.vocabulary;
    config.hidden_size = shape.dim;
    config.intermediate_size = shape.hidden;
    config.num_hidden_layers = shape.layers;
    config.num_attention_heads = shape.heads;
    config.num_key_value_heads = shape.kv_heads;
    config.head_dim = shape.dim / shape.heads;
    config.max_position_embeddings = shape.positions;
    config.rms_norm_eps = 1e-5;
    config.rope_theta = 10000.0;
    return config;
  }
  throw tenon::ValueError("'" + name + "' is no shape; there are stories260K, stories15M, stories110M, 7b and 13b");
}

/// Calls `fill(shape, deviation)` for each constant of the graph but attention_scale, to make a tensor of it.
inline tenon::graph::TensorMap random_constants(
    const tenon::graph::Graph& graph,
    const std::function<tenon::AnyTensor(const tenon::graph::Shape&, float deviation)>& fill) {
  tenon::graph::TensorMap constants;
  for (const tenon::graph::Node& node : graph.nodes()) {
    if (node.kind != tenon::graph::NodeKind::constant_tensor || node.name == "attention_scale") continue;
    const auto columns = static_cast<float>(node.type.shape.back());
    constants.emplace(node.name, fill(node.type.shape, node.type.rank() == 1 ? 1.0f : 1.0f / std::sqrt(columns)));
  }
  return constants;
}

inline tenon::graph::PassOptions passes(const Options& options) {
  tenon::graph::PassOptions result;
  if (options.unfused) result.pointwise_fusion = result.matmul_fusion = false;
  return result;
}

/// Compiles, decodes, and prints. `read_rate` measures bytes per second of plain reading.
template <tenon::DeviceTag Device>
void measure(tenon::Context<Device>& ctx, const Options& options, const tenon::ModelConfig& config,
             tenon::graph::TensorMap constants, const tenon::AnyTensor& embedding,
             const tenon::graph::CompileOptions<Device>& compile_options, const std::function<double()>& read_rate) {
  double weight_bytes = 0.0;
  for (const auto& entry : constants) weight_bytes += static_cast<double>(entry.second.nbytes());
  const auto start = std::chrono::steady_clock::now();
  tenon::LlamaGraphDecoder<Device> decoder(ctx, config, options.capacity, tenon::RotaryPairs::neighbours, embedding,
                                           std::move(constants), tenon::DType::float32, compile_options);
  const double compile_seconds = timing::seconds_since(start);
  const auto& executable = decoder.executable();
  const auto& plan = executable.plan();
  std::printf("compile   %.3f s: %zu nodes after all passes, %zu steps\n", compile_seconds, executable.graph().size(),
              executable.steps());
  std::printf("memory    %zu bytes, %zu of them kept; %.3f times the lower bound\n", plan.bytes, plan.persistent_bytes,
              static_cast<double>(plan.bytes) / static_cast<double>(plan.lower_bound));

  const std::int64_t tokens = options.tokens == 0 ? options.capacity : std::min(options.tokens, options.capacity);
  std::vector<double> seconds;
  std::vector<double> rates;
  for (int round = 0; round <= options.repeat; ++round) {  // the first is a warm-up
    decoder.reset(ctx);
    const double rate = read_rate();
    std::int64_t id = 1;
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < tokens; ++i) {
      const auto logits = decoder.forward(ctx, id);
      id = std::max_element(logits.begin(), logits.end()) - logits.begin();
    }
    if (round == 0) continue;
    seconds.push_back(timing::seconds_since(begin) / static_cast<double>(tokens));
    rates.push_back(rate);
  }
  const double each = timing::median(seconds);
  const double rate = timing::median(rates);
  std::printf("decode    %.1f tokens/s (%.4f ms a token), %.1f GB/s of weights, %.1f %% of the read bandwidth\n",
              1 / each, 1e3 * each, weight_bytes / each / 1e9, 100 * weight_bytes / each / rate);
  std::printf("limits    reading %.1f GB/s\n", rate / 1e9);
}

void run_on_cpu(const Options& options);
void run_on_cuda(const Options& options);

}  // namespace llama_graph
