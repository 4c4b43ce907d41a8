// Graphs on a GPU.
#include <cstdio>
#include <memory>
#include <string>

#include <tenon/cuda.hpp>
#ifdef TENON_PROGRAM_CUDNN
#include <tenon/graph/cudnn.hpp>
#endif

#include "graph/run.hpp"

namespace graph_program {

void run_on_cuda(const Options& options, const tenon::graph::Graph& graph) {
  tenon::Context<tenon::Cuda> ctx(options.device.ordinal);
  const std::string processor = ctx.properties().name + " (cuda:" + std::to_string(ctx.ordinal()) + ")";
  tenon::graph::CompileOptions<tenon::Cuda> compile_options;
#ifdef TENON_PROGRAM_CUDNN
  if (options.cudnn) {
    const auto backend = std::make_shared<tenon::graph::CudnnBackend>(ctx);
    compile_options.backend = backend;
    run<tenon::Cuda>(ctx, processor, options, graph, compile_options, [&] {
      const auto& statistics = backend->statistics();
      std::printf("# cuDNN: %zu subgraphs, %zu plans compiled, %zu found, %zu refused, %zu bytes of workspace\n\n",
                  statistics.subgraphs, statistics.plans, statistics.hits, statistics.fallbacks,
                  statistics.largest_workspace);
    });
    return;
  }
#endif
  run<tenon::Cuda>(ctx, processor, options, graph, compile_options, [] {});
}

}  // namespace graph_program
