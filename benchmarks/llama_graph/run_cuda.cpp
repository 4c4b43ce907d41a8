// The benchmark on a GPU.
#include <memory>

#include <tenon/cuda.hpp>
#ifdef TENON_PROGRAM_CUDNN
#include <tenon/graph/cudnn.hpp>
#endif

#include <cuda_limits.hpp>
#include <llama_graph/run.hpp>

namespace llama_graph {

void run_on_cuda(const Options& options) {
  tenon::Context<tenon::Cuda> ctx(options.device.ordinal);
  const tenon::ModelConfig config = shape_config(options.shape);
  const auto graph = tenon::llama_graph(config, options.capacity, tenon::RotaryPairs::neighbours);
  tenon::graph::CompileOptions<tenon::Cuda> compile_options;
  compile_options.passes = passes(options);
#ifdef TENON_PROGRAM_CUDNN
  std::shared_ptr<tenon::graph::CudnnBackend> cudnn;
  if (options.cudnn) compile_options.backend = cudnn = std::make_shared<tenon::graph::CudnnBackend>(ctx);
#endif
  const auto fill = [&](const tenon::graph::Shape& shape, float) -> tenon::AnyTensor {
    if (shape.size() == 1) return limits::random_on_device<float, 1>(ctx, {shape[0]});
    return limits::random_on_device<float, 2>(ctx, {shape[0], shape[1]});
  };
  const tenon::AnyTensor embedding =
      limits::random_on_device<float, 2>(ctx, {config.vocab_size, config.hidden_size}).cpu(ctx);
  limits::DeviceBandwidth bandwidth(ctx);
  measure(ctx, options, config, random_constants(graph, fill), embedding, compile_options,
          [&] { return bandwidth.read(); });
#ifdef TENON_PROGRAM_CUDNN
  if (cudnn) {
    const auto statistics = cudnn->statistics();
    std::printf("cudnn     %zu subgraphs, %zu plans, %zu hits, %zu fallbacks, %zu bytes of workspace\n",
                statistics.subgraphs, statistics.plans, statistics.hits, statistics.fallbacks,
                statistics.largest_workspace);
  }
#endif
}

}  // namespace llama_graph
