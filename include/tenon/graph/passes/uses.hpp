// How often nodes are used.
#pragma once

#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

/// Operand places that name each node; being the result counts as one.
[[nodiscard]] inline std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.size(), 0);
  for (const Node& node : graph.nodes()) {
    for (const NodeId operand : node.operands) ++uses[operand];
  }
  ++uses[graph.result()];
  return uses;
}

}  // namespace graph::detail
TENON_NAMESPACE_END
