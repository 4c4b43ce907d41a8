// Removes nodes that the result does not need.
#pragma once

#include <span>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/rewrite.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Inputs and constants stay, because callers give them; so does what writes into a buffer, because the next evaluation
/// may read it, and what writes into memory that is needed.
[[nodiscard]] inline Graph remove_dead_nodes(const Graph& graph) {
  const std::span<const NodeId> roots = graph.roots();
  std::vector<std::vector<NodeId>> writes(graph.size());
  std::vector<bool> live(graph.size(), false);
  std::vector<NodeId> open;
  const auto need = [&](NodeId id) {
    if (live[id]) return;
    live[id] = true;
    open.push_back(id);
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    const NodeKind kind = graph[id].kind;
    if (kind == NodeKind::replace_slice) writes[roots[id]].push_back(id);
    const bool persistent = kind == NodeKind::replace_slice && graph[roots[id]].kind == NodeKind::buffer_tensor;
    if (kind == NodeKind::input_tensor || kind == NodeKind::constant_tensor || persistent) need(id);
  }
  need(graph.result());
  while (!open.empty()) {
    const NodeId id = open.back();
    open.pop_back();
    for (const NodeId operand : graph[id].operands) need(operand);
    if (roots[id] == id) {
      for (const NodeId write : writes[id]) need(write);
    }
  }
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (live[id]) rewriter.keep(id);
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
