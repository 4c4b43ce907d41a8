// Makes one PointwiseNode of a chain or tree of point-wise nodes.
#pragma once

#include <algorithm>
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

/// A tree of point-wise nodes as a program.
struct Expression {
  std::vector<PointwiseStep> steps;
  std::vector<NodeId> leaves;  ///< old nodes that are loaded, each once
  std::vector<NodeId> reads;   ///< the first old node that reads each leaf
  int depth = 0;
  int nodes = 0;

  static Expression leaf(NodeId id, NodeId reader) { return {{{PointwiseCode::load, 0}}, {id}, {reader}, 1, 0}; }
};

/// Both on the stack, then `step`; nothing where that exceeds what a program holds.
inline std::optional<Expression> join(const Expression& a, const Expression& b, PointwiseStep step) {
  // Whichever needs the deeper stack goes first, which changes no bit of sums and products of real numbers.
  if (b.depth > a.depth && step.code != PointwiseCode::complex_hadamard_product) return join(b, a, step);
  Expression result = a;
  result.depth = std::max(a.depth, b.depth + 1);
  result.nodes = a.nodes + b.nodes + 1;
  std::vector<std::uint8_t> places;
  for (std::size_t i = 0; i < b.leaves.size(); ++i) {
    const auto found = std::find(result.leaves.begin(), result.leaves.end(), b.leaves[i]);
    const auto at = static_cast<std::size_t>(found - result.leaves.begin());
    if (found == result.leaves.end()) {
      result.leaves.push_back(b.leaves[i]);
      result.reads.push_back(b.reads[i]);
    } else {
      result.reads[at] = std::min(result.reads[at], b.reads[i]);
    }
    places.push_back(static_cast<std::uint8_t>(at));
  }
  for (PointwiseStep next : b.steps) {
    if (next.code == PointwiseCode::load) next.operand = places[next.operand];
    result.steps.push_back(next);
  }
  result.steps.push_back(step);
  if (result.depth > PointwiseProgram::max_depth || result.leaves.size() > PointwiseProgram::max_operands ||
      result.steps.size() > PointwiseProgram::max_steps) {
    return std::nullopt;
  }
  return result;
}

/// Builds the expressions of a graph's point-wise nodes.
class PointwiseFusion {
 public:
  explicit PointwiseFusion(const Graph& graph)
      : graph_(graph), writes_(graph), uses_(count_uses(graph)), expressions_(graph.size()), absorbed_(graph.size()) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (rule_of(graph[id].kind).is_pointwise || graph[id].kind == NodeKind::pointwise) expressions_[id] = build(id);
    }
  }

  /// Whether the node is part of the one that uses it.
  [[nodiscard]] bool absorbed(NodeId id) const { return absorbed_[id]; }
  /// Nothing for nodes that are not point-wise.
  [[nodiscard]] const std::optional<Expression>& expression(NodeId id) const { return expressions_[id]; }

 private:
  /// The operand as it would be inside of `user`, or nothing where it has to be in memory.
  [[nodiscard]] const Expression* inside(NodeId operand, NodeId user) const {
    const auto& expression = expressions_[operand];
    if (!expression || uses_[operand] != 1 || graph_[operand].type != graph_[user].type) return nullptr;
    for (std::size_t i = 0; i < expression->leaves.size(); ++i) {
      if (writes_.between(expression->leaves[i], expression->reads[i], user)) return nullptr;
    }
    return &*expression;
  }

  std::optional<Expression> build(NodeId id) {
    const Node& node = graph_[id];
    if (node.kind == NodeKind::pointwise) return build_fused(id);
    const PointwiseStep step{code_of(node.kind), 0};
    const NodeId x = node.operands[0];
    const Expression* a = inside(x, id);
    if (node.operands.size() == 1) {
      Expression result = a != nullptr ? *a : Expression::leaf(x, id);
      if (result.steps.size() < PointwiseProgram::max_steps) {
        absorbed_[x] = a != nullptr;
      } else {
        result = Expression::leaf(x, id);
      }
      result.steps.push_back(step);
      ++result.nodes;
      return result;
    }
    const NodeId y = node.operands[1];
    const Expression* b = x == y ? nullptr : inside(y, id);
    const Expression x_leaf = Expression::leaf(x, id);
    const Expression y_leaf = Expression::leaf(y, id);
    // Both operands inside, or the one that saves more, or none: which always fits.
    const bool a_saves_more = a != nullptr && (b == nullptr || a->nodes >= b->nodes);
    const std::pair<bool, bool> choices[] = {
        {a != nullptr, b != nullptr}, {a_saves_more, !a_saves_more && b != nullptr}, {false, false}};
    for (const auto& [take_a, take_b] : choices) {
      auto result = join(take_a ? *a : x_leaf, take_b ? *b : y_leaf, step);
      if (!result) continue;
      if (take_a) absorbed_[x] = true;
      if (take_b) absorbed_[y] = true;
      return result;
    }
    return std::nullopt;
  }

  /// A program that is there already, for example a copy: its operands stay in memory.
  [[nodiscard]] std::optional<Expression> build_fused(NodeId id) const {
    const Node& node = graph_[id];
    Expression result{node.program, node.operands, std::vector<NodeId>(node.operands.size(), id), 0, 1};
    result.depth = PointwiseProgram(node.program).depth();
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      for (std::size_t k = 0; k < i; ++k) {
        if (node.operands[i] == node.operands[k]) return std::nullopt;  // leaves are named once
      }
    }
    return result;
  }

  const Graph& graph_;
  MemoryWrites writes_;
  std::vector<int> uses_;
  std::vector<std::optional<Expression>> expressions_;
  std::vector<bool> absorbed_;
};

}  // namespace detail

/// Sum, HadamardProduct, ReLU, SiLU and ComplexHadamardProduct that are used once, by another one of the same shape,
/// become part of it: one loop or kernel without a temporary. The values keep their bits. The graph is one that
/// with_explicit_copies made.
[[nodiscard]] inline Graph fuse_pointwise(const Graph& graph) {
  const detail::PointwiseFusion fusion(graph);
  Rewriter rewriter(graph);
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (fusion.absorbed(id)) continue;
    const auto& expression = fusion.expression(id);
    if (!expression || expression->nodes < 2) {
      rewriter.keep(id);
      continue;
    }
    Node node{.kind = NodeKind::pointwise, .program = expression->steps};
    for (const NodeId leaf : expression->leaves) node.operands.push_back(rewriter[leaf]);
    rewriter.map(id, rewriter.add(std::move(node)));
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
