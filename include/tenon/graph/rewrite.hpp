// Rewriter: how passes make a new graph out of an old one, node by node.
#pragma once

#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Walk the old graph in order; for each node either `keep` it, or `map` it to a node of the new graph that gives the
/// same values, or do neither where nothing uses it any more.
class Rewriter {
 public:
  explicit Rewriter(const Graph& old) : old_(old), ids_(old.size(), 0) {}

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// The node of the new graph that stands for an old one.
  [[nodiscard]] NodeId operator[](NodeId old) const { return ids_[old]; }

  /// A node of the old graph with operands of the new one.
  [[nodiscard]] Node mapped(const Node& node) const {
    Node result = node;
    for (NodeId& operand : result.operands) operand = ids_[operand];
    return result;
  }

  NodeId add(Node node) { return graph_.add(std::move(node)); }
  void map(NodeId old, NodeId id) { ids_[old] = id; }
  void keep(NodeId old) { map(old, add(mapped(old_[old]))); }

  /// The new graph, whose result stands for the old one's.
  [[nodiscard]] Graph finish() && {
    graph_.set_result(ids_[old_.result()]);
    return std::move(graph_);
  }

 private:
  const Graph& old_;
  std::vector<NodeId> ids_;
  Graph graph_;
};

}  // namespace graph
TENON_NAMESPACE_END
