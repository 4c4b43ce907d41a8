// The passes in the order in which compiling runs them.
#pragma once

#include <functional>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/passes/common_subexpressions.hpp>
#include <tenon/graph/passes/dead_nodes.hpp>
#include <tenon/graph/passes/matmul_fusion.hpp>
#include <tenon/graph/passes/pointwise_fusion.hpp>
#include <tenon/graph/passes/views.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Which passes run. Results have the same bits whatever is on, since fusion rounds where the nodes round; of a NaN the
/// sign and payload may differ.
struct PassOptions {
  bool dead_nodes = true;
  bool common_subexpressions = true;
  bool views = true;
  bool pointwise_fusion = true;
  bool matmul_fusion = true;

  /// None of them.
  static constexpr PassOptions none() { return {false, false, false, false, false}; }
};

/// Called with the name of each pass that ran, and the graph after it.
using PassObserver = std::function<void(std::string_view pass, const Graph& graph)>;

/// The graph after all passes that are on. Copies are made explicit in any case.
[[nodiscard]] inline Graph run_passes(const Graph& source, const PassOptions& options = {},
                                      const PassObserver& observer = {}) {
  Graph graph = with_explicit_copies(source);
  if (observer) observer("explicit copies", graph);
  const auto run = [&](bool on, std::string_view name, Graph (*pass)(const Graph&)) {
    if (!on) return;
    graph = pass(graph);
    if (observer) observer(name, graph);
  };
  run(options.dead_nodes, "dead nodes", remove_dead_nodes);
  run(options.views, "views", fold_views);
  run(options.common_subexpressions, "common subexpressions", join_common_subexpressions);
  run(options.dead_nodes, "dead nodes", remove_dead_nodes);
  run(options.pointwise_fusion, "point-wise fusion", fuse_pointwise);
  run(options.matmul_fusion, "matmul fusion", fuse_matmul);
  return graph;
}

}  // namespace graph
TENON_NAMESPACE_END
