// Folds views: a view of a view becomes one view, and one that changes nothing becomes its operand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/rewrite.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Of constants too: what is left names their memory directly. The graph is one that with_explicit_copies made.
[[nodiscard]] inline Graph fold_views(const Graph& graph) {
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    Node node = rewriter.mapped(graph[id]);
    if (node.kind != NodeKind::slice && node.kind != NodeKind::reshape && node.kind != NodeKind::permute) {
      rewriter.keep(id);
      continue;
    }
    const Node& x = rewriter.graph()[node.operands[0]];
    if (x.kind == node.kind) {
      if (node.kind == NodeKind::slice) {
        node.numbers[0] += x.numbers[0];
        node.numbers[1] += x.numbers[0];
      } else if (node.kind == NodeKind::permute) {
        for (std::int64_t& dim : node.numbers) dim = x.numbers[static_cast<std::size_t>(dim)];
      }
      node.operands[0] = x.operands[0];
    }
    const TensorType& from = rewriter.graph()[node.operands[0]].type;
    bool changes = from.shape != node.type.shape;
    if (node.kind == NodeKind::permute) {
      changes = false;
      for (std::size_t i = 0; i < node.numbers.size(); ++i) {
        changes = changes || node.numbers[i] != static_cast<std::int64_t>(i);
      }
    }
    rewriter.map(id, changes ? rewriter.add(std::move(node)) : node.operands[0]);
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
