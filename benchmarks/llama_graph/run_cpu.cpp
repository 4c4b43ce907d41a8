// The benchmark on the CPU.
#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include <tenon/tensor/create.hpp>

#include <limits.hpp>
#include <llama_graph/run.hpp>

namespace llama_graph {

namespace {

/// Random numbers in a pattern of 65521, a prime.
tenon::AnyTensor random_tensor(const tenon::graph::Shape& shape, float deviation) {
  tenon::Context<tenon::Cpu> host(1);
  tenon::AnyTensor tensor = tenon::AnyTensor::empty(host, tenon::DType::float32, shape);
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> pattern(65521);
  std::generate(pattern.begin(), pattern.end(), [&] { return normal(random); });
  auto* data = reinterpret_cast<float*>(const_cast<std::byte*>(tensor.data()));
  for (std::int64_t i = 0; i < tensor.numel(); ++i) data[i] = pattern[static_cast<std::size_t>(i) % pattern.size()];
  return tensor;
}

}  // namespace

void run_on_cpu(const Options& options) {
  tenon::Context<tenon::Cpu> ctx(options.threads);
  const tenon::ModelConfig config = shape_config(options.shape);
  const auto graph = tenon::llama_graph(config, options.capacity, tenon::RotaryPairs::neighbours);
  tenon::graph::CompileOptions<tenon::Cpu> compile_options;
  compile_options.passes = passes(options);
  limits::ReadBandwidth bandwidth(ctx);
  measure(ctx, options, config, random_constants(graph, random_tensor),
          random_tensor({config.vocab_size, config.hidden_size}, 1.0f), compile_options,
          [&] { return bandwidth.measure(); });
}

}  // namespace llama_graph
