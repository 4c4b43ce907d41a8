// Makes one MatMulPointwiseNode of a MatMulNode and the point-wise node that uses it: bias, activation, residual.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/passes/uses.hpp>
#include <tenon/graph/rewrite.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {
namespace detail {

/// The operand that is a product used by `id` alone, of its shape and computed last, and that may be computed there.
inline std::optional<std::size_t> fused_product(const Graph& graph, const MemoryWrites& writes,
                                                const std::vector<int>& uses, NodeId id) {
  std::optional<std::size_t> best;
  const Node& node = graph[id];
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const NodeId operand = node.operands[i];
    const Node& product = graph[operand];
    if (product.kind != NodeKind::matmul || uses[operand] != 1 || product.type != node.type) continue;
    if (writes.between(product.operands[0], operand, id) || writes.between(product.operands[1], operand, id)) continue;
    if (!best || operand > node.operands[*best]) best = i;
  }
  return best;
}

}  // namespace detail

/// The product is rounded before the program runs on it, so that values keep their bits.
[[nodiscard]] inline Graph fuse_matmul(const Graph& graph) {
  const MemoryWrites writes(graph);
  const std::vector<int> uses = detail::count_uses(graph);
  std::vector<std::optional<std::size_t>> product(graph.size());
  std::vector<bool> absorbed(graph.size(), false);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (!detail::real_program(graph[id])) continue;
    product[id] = detail::fused_product(graph, writes, uses, id);
    if (product[id]) absorbed[graph[id].operands[*product[id]]] = true;
  }
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (absorbed[id]) continue;
    if (!product[id]) {
      rewriter.keep(id);
      continue;
    }
    const Node& old = graph[id];
    Node node{.kind = NodeKind::matmul_pointwise, .program = *detail::real_program(old)};
    for (const NodeId operand : graph[old.operands[*product[id]]].operands) node.operands.push_back(rewriter[operand]);
    std::vector<std::uint8_t> places(old.operands.size(), 0);
    for (std::size_t i = 0; i < old.operands.size(); ++i) {
      if (i == *product[id]) continue;
      places[i] = static_cast<std::uint8_t>(node.operands.size() - 1);
      node.operands.push_back(rewriter[old.operands[i]]);
    }
    for (PointwiseStep& step : node.program) {
      if (step.code == PointwiseCode::load) step.operand = places[step.operand];
    }
    rewriter.map(id, rewriter.add(std::move(node)));
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
