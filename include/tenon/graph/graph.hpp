// Graph: nodes in topological order and a result.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/graph/node.hpp>
#include <tenon/graph/nodes.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// A network as a list of nodes that only ever refer to nodes before them, so that it has no cycles and its order is an
/// order of execution. Every node is checked when it is added. A plain value; compiling does not change it.
///
/// Order matters where ReplaceSliceNode writes: nodes after it see the new rows through every name of that memory.
class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = default;
  /// `other` is empty afterwards, without a result.
  Graph(Graph&& other) noexcept { swap(other); }
  Graph& operator=(Graph other) noexcept {
    swap(other);
    return *this;
  }
  ~Graph() = default;

  /// Adds a node whose `type` is inferred, except for the three named tensors. Throws ShapeError, DTypeError or ValueError
  /// that names the node and both types; the graph is then as it was.
  NodeId add(Node node);

  [[nodiscard]] std::size_t size() const noexcept { return nodes_.size(); }
  [[nodiscard]] bool empty() const noexcept { return nodes_.empty(); }
  [[nodiscard]] const Node& operator[](NodeId id) const { return nodes_[id]; }
  [[nodiscard]] std::span<const Node> nodes() const noexcept { return nodes_; }

  /// For each node the one whose memory it names, following first operands of views: itself where it is no view.
  [[nodiscard]] std::span<const NodeId> roots() const noexcept { return roots_; }

  /// Throws ValueError for an id that is no node.
  void set_result(NodeId id) {
    if (id >= nodes_.size())
      throw ValueError("graph: the result is node " + std::to_string(id) + ", which is not there");
    result_ = id;
    has_result_ = true;
  }
  [[nodiscard]] bool has_result() const noexcept { return has_result_; }
  /// Throws ValueError where none was set.
  [[nodiscard]] NodeId result() const {
    if (!has_result_) throw ValueError("graph: no result was set");
    return result_;
  }

  /// The tensor of that name, of whatever kind; nullptr where there is none.
  [[nodiscard]] const Node* find(std::string_view name) const {
    const auto found = names_.find(name);
    return found == names_.end() ? nullptr : &nodes_[found->second];
  }

  bool operator==(const Graph& other) const {
    return nodes_ == other.nodes_ && has_result_ == other.has_result_ && result_ == other.result_;
  }

 private:
  void swap(Graph& other) noexcept {
    nodes_.swap(other.nodes_);
    roots_.swap(other.roots_);
    names_.swap(other.names_);
    std::swap(result_, other.result_);
    std::swap(has_result_, other.has_result_);
  }

  std::vector<Node> nodes_;
  std::vector<NodeId> roots_;
  std::map<std::string, NodeId, std::less<>> names_;
  NodeId result_ = 0;
  bool has_result_ = false;
};

namespace detail {

/// Letters, digits and underscores, not beginning with a digit: what a script can spell.
inline bool is_tensor_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name) {
    if (!fits(c)) return false;
  }
  return true;
}

inline void check_numbers(const Node& node, const NodeRule& rule) {
  const std::size_t count = node.numbers.size();
  const bool fits = rule.numbers == NumbersForm::list           ? count >= 1
                    : rule.numbers == NumbersForm::two          ? count == 2
                    : rule.numbers == NumbersForm::last_operand ? count <= 1
                                                                : count == 0;
  if (!fits) throw ValueError(std::string(rule.name) + ": " + std::to_string(count) + " numbers do not fit it");
}

}  // namespace detail

inline NodeId Graph::add(Node node) {
  const NodeRule& rule = rule_of(node.kind);
  const std::string name(rule.name);
  detail::check_numbers(node, rule);
  const bool number_for_operand = rule.numbers == NumbersForm::last_operand && node.numbers.size() == 1;
  const int expected = rule.operands - (number_for_operand ? 1 : 0);
  const auto count = static_cast<int>(node.operands.size());
  if (rule.operands < 0 ? count < 1 : count != expected) {
    throw ValueError(name + ": " + std::to_string(count) + " operands, but it takes " +
                     (rule.operands < 0 ? "at least one" : std::to_string(expected)));
  }
  std::vector<const TensorType*> types;
  for (const NodeId operand : node.operands) {
    if (operand >= nodes_.size()) {
      throw ValueError(name + ": an operand is node " + std::to_string(operand) + ", which is not there yet");
    }
    types.push_back(&nodes_[operand].type);
  }
  if (node.kind == NodeKind::replace_slice) {
    const NodeId root = roots_[node.operands[0]];
    if (nodes_[root].kind == NodeKind::constant_tensor) {
      throw ValueError(name + ": the first operand is ConstantTensor " + tenon::detail::quoted_text(nodes_[root].name) +
                       ", or a part of it, and constants are not written");
    }
  }
  const bool named = is_named_tensor(node.kind);
  if (named) {
    if (!detail::is_tensor_name(node.name))
      throw ValueError(name + ": " + tenon::detail::quoted_text(node.name) + " is no name for a tensor");
    if (names_.contains(node.name))
      throw ValueError(name + ": there is a tensor " + tenon::detail::quoted_text(node.name) + " already");
    detail::check_type(name + " " + tenon::detail::quoted_text(node.name), node.type);
  } else if (!node.name.empty()) {
    throw ValueError(name + ": only tensors have a name");
  }
  if (!node.program.empty() && node.kind != NodeKind::pointwise && node.kind != NodeKind::matmul_pointwise) {
    throw ValueError(name + ": only fused nodes have a program");
  }
  node.type = rule.infer(node, types);
  if (!named) detail::check_type(name + ": the result", node.type);  // a broadcast or a product can be too large
  if (nodes_.size() > std::numeric_limits<NodeId>::max()) throw ValueError(name + ": a graph has at most 2^32 nodes");
  const auto id = static_cast<NodeId>(nodes_.size());
  // Room first: where memory is short, the graph stays as it is.
  if (nodes_.size() == nodes_.capacity()) nodes_.reserve(2 * nodes_.size() + 16);
  roots_.reserve(nodes_.capacity());
  if (named) names_.emplace(node.name, id);
  roots_.push_back(rule.is_view ? roots_[node.operands[0]] : id);
  nodes_.push_back(std::move(node));
  return id;
}

}  // namespace graph
TENON_NAMESPACE_END
