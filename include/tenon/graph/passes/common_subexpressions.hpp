// Computes the same thing once.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/rewrite.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Nodes of one kind with the same operands and numbers become one, unless their memory, or what they read, is written
/// in between. The graph is one that with_explicit_copies made.
[[nodiscard]] inline Graph join_common_subexpressions(const Graph& graph) {
  using Key = std::tuple<NodeKind, std::vector<NodeId>, std::vector<std::int64_t>, std::vector<int>>;
  const MemoryWrites writes(graph);
  Rewriter rewriter(graph);
  std::map<Key, NodeId> known;  // to the latest old node that was kept
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node node = rewriter.mapped(graph[id]);
    const NodeRule& rule = rule_of(node.kind);
    if (is_named_tensor(node.kind) || node.kind == NodeKind::replace_slice || (!rule.is_view && writes.any(id))) {
      rewriter.keep(id);
      continue;
    }
    std::vector<int> program;
    for (const PointwiseStep& step : node.program) {
      program.push_back(static_cast<int>(step.code));
      program.push_back(step.operand);
    }
    const auto [found, is_new] = known.try_emplace(Key(node.kind, node.operands, node.numbers, std::move(program)), id);
    bool same = !is_new;
    for (const NodeId operand : graph[id].operands) {
      // A view shares what is written later; everything else holds what was there.
      same = same && (rule.is_view || !writes.between(operand, found->second, id));
    }
    if (same) {
      rewriter.map(id, rewriter[found->second]);
    } else {
      found->second = id;
      rewriter.keep(id);
    }
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
