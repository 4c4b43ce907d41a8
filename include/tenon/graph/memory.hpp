// Where the elements of nodes lie: views name a part of another node's memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/format.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/rewrite.hpp>
#include <tenon/tensor/shape.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Elements of a node, counted from the first element of the node that owns the memory.
struct Place {
  NodeId root = 0;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;
};

/// For each root the nodes that write into it, in order: what reads that memory must not be moved across one of them.
class MemoryWrites {
 public:
  explicit MemoryWrites(const Graph& graph)
      : roots_(graph.roots().begin(), graph.roots().end()), writes_(graph.size()) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (graph[id].kind == NodeKind::replace_slice) writes_[roots_[id]].push_back(id);
    }
  }

  [[nodiscard]] NodeId root(NodeId id) const { return roots_[id]; }
  [[nodiscard]] bool any(NodeId id) const { return !writes_[roots_[id]].empty(); }
  /// Whether something writes the memory of `id` after node `first` and before node `last`.
  [[nodiscard]] bool between(NodeId id, NodeId first, NodeId last) const {
    const std::vector<NodeId>& writes = writes_[roots_[id]];
    const auto next = std::upper_bound(writes.begin(), writes.end(), first);
    return next != writes.end() && *next < last;
  }

 private:
  std::vector<NodeId> roots_;
  std::vector<std::vector<NodeId>> writes_;
};

namespace detail {

/// The place of a view of elements at `from`, of shape `shape`; false for a reshape that needs a copy.
inline bool place_view(const Node& node, const Shape& shape, const Place& from, Place& place) {
  place = from;
  switch (node.kind) {
    case NodeKind::slice: place.offset += node.numbers[0] * from.strides[0]; return true;
    case NodeKind::permute:
      for (std::size_t i = 0; i < node.numbers.size(); ++i) {
        place.strides[i] = from.strides[static_cast<std::size_t>(node.numbers[i])];
      }
      return true;
    case NodeKind::reshape:
      place.strides.assign(node.type.rank(), 0);
      return tenon::detail::try_view_strides(shape, from.strides, node.type.shape, place.strides);
    default: return true;  // replace_slice: x itself
  }
}

inline Place own_place(NodeId id, const TensorType& type) {
  Place place{id, 0, std::vector<std::int64_t>(type.rank())};
  tenon::detail::row_major_strides(type.shape, place.strides);
  return place;
}

}  // namespace detail

/// Places of all nodes of a graph that with_explicit_copies made. Memory that a node owns is row-major.
[[nodiscard]] inline std::vector<Place> memory_places(const Graph& graph) {
  std::vector<Place> places;
  places.reserve(graph.size());
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    Place place = detail::own_place(id, node.type);
    if (rule_of(node.kind).is_view) {
      const NodeId x = node.operands[0];
      if (!detail::place_view(node, graph[x].type.shape, places[x], place)) {
        throw ValueError("graph: ReshapeNode $" + std::to_string(id + 1) + " needs a copy that was not made");
      }
    }
    places.push_back(std::move(place));
  }
  return places;
}

/// The same graph with a copy (a PointwiseNode that loads) in front of every reshape that strides do not allow, of rows and
/// places of a write into the memory that they are part of, and behind a result that is a constant or a part of one. Then
/// every view is one. Throws ValueError for a write into such a copy of a buffer: the buffer would not see it.
[[nodiscard]] inline Graph with_explicit_copies(const Graph& graph) {
  Rewriter rewriter(graph);
  std::vector<Place> places;         // of the new nodes
  std::map<NodeId, NodeId> sources;  // copies for reshapes, and the memory that they were made of
  const auto add = [&](Node node) {
    const NodeId id = rewriter.add(std::move(node));
    const Node& added = rewriter.graph()[id];
    Place place = detail::own_place(id, added.type);
    bool fits = true;
    if (rule_of(added.kind).is_view) {
      const NodeId x = added.operands[0];
      fits = detail::place_view(added, rewriter.graph()[x].type.shape, places[x], place);
    }
    places.push_back(std::move(place));
    return std::pair{id, fits};
  };
  const auto copy_of = [&](NodeId id) {
    return add(Node{.kind = NodeKind::pointwise, .operands = {id}, .program = {PointwiseStep{}}}).first;
  };
  for (NodeId old = 0; old < graph.size(); ++old) {
    Node node = rewriter.mapped(graph[old]);
    if (node.kind == NodeKind::reshape) {
      const NodeId x = node.operands[0];
      Place place;
      if (!detail::place_view(node, rewriter.graph()[x].type.shape, places[x], place)) {
        const auto known = sources.find(places[x].root);
        const NodeId source = known == sources.end() ? places[x].root : known->second;
        node.operands[0] = copy_of(x);
        sources.emplace(node.operands[0], source);
      }
    }
    if (node.kind == NodeKind::replace_slice) {
      const auto copy = sources.find(places[node.operands[0]].root);
      if (copy != sources.end() && rewriter.graph()[copy->second].kind == NodeKind::buffer_tensor) {
        throw ValueError("graph: $" + std::to_string(old + 1) + " = ReplaceSliceNode: the first operand is a copy of " +
                         tenon::detail::quoted_text(rewriter.graph()[copy->second].name) +
                         ", because a ReshapeNode of it is no view, and the buffer would not see the write");
      }
    }
    for (std::size_t i = 1; node.kind == NodeKind::replace_slice && i < node.operands.size(); ++i) {
      if (places[node.operands[i]].root == places[node.operands[0]].root) node.operands[i] = copy_of(node.operands[i]);
    }
    rewriter.map(old, add(std::move(node)).first);
  }
  // A result that is a constant is memory of the caller, which nobody is to write through the result.
  const NodeId result = rewriter[graph.result()];
  if (rewriter.graph()[places[result].root].kind == NodeKind::constant_tensor) {
    rewriter.map(graph.result(), copy_of(result));
  }
  return std::move(rewriter).finish();
}

}  // namespace graph
TENON_NAMESPACE_END
