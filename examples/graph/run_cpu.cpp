// Graphs on the CPU.
#include <string>

#include <tenon/runtime/context.hpp>

#include "graph/run.hpp"

namespace graph_program {

void run_on_cpu(const Options& options, const tenon::graph::Graph& graph) {
  tenon::Context<tenon::Cpu> ctx(options.threads);
  const std::string level(tenon::simd_level_name(ctx.simd_level()));
  run<tenon::Cpu>(ctx, std::to_string(ctx.threads()) + " threads, " + level, options, graph, {}, [] {});
}

}  // namespace graph_program
