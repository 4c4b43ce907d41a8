// Lowering: turns nodes into calls of operators on memory that has been planned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// One call of an operator on memory that stays where it is.
template <DeviceTag Device>
using Step = std::function<void(Context<Device>&)>;

/// Views of the memory of nodes, and the list of steps. Used while compiling, by one thread.
template <DeviceTag Device>
class Lowering {
 public:
  /// Whether a node has a number that is to lie in the device's memory.
  static bool has_literal(const Node& node) {
    return rule_of(node.kind).numbers == NumbersForm::last_operand && !node.numbers.empty();
  }

  /// `memory`: for each node that owns memory where it begins. `literals`: memory for the prefixes that are numbers, in
  /// the order of their nodes.
  Lowering(const Graph& graph, std::vector<std::byte*> memory, const std::int64_t* literals)
      : graph_(graph), places_(memory_places(graph)), memory_(std::move(memory)), literals_(graph.size(), nullptr) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      if (has_literal(graph[id])) literals_[id] = literals++;
    }
  }

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const Place& place(NodeId id) const { return places_[id]; }

  /// The first element of a node.
  [[nodiscard]] std::byte* data(NodeId id) const {
    const Place& place = places_[id];
    return memory_[place.root] + place.offset * static_cast<std::int64_t>(dtype_size(graph_[id].type.dtype));
  }

  /// The node with leading dimensions of size 1 in front of its own.
  template <class T, std::size_t Rank>
  [[nodiscard]] View<T, Rank, Device> view(NodeId id) const {
    return broadcast<T, Rank>(id, graph_[id].type.shape);
  }
  /// The same repeated to `shape`, which it is broadcast to.
  template <class T, std::size_t Rank>
  [[nodiscard]] View<T, Rank, Device> broadcast(NodeId id, const Shape& shape) const {
    const Shape& own = graph_[id].type.shape;
    Sizes<Rank> sizes{};
    Sizes<Rank> strides{};
    std::fill(sizes.begin(), sizes.end(), 1);
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const std::size_t at = Rank - shape.size() + i;
      sizes[at] = shape[i];
      strides[at] = own[i] == shape[i] ? places_[id].strides[i] : 0;
    }
    // Strides of dimensions of size 1 mean nothing; what kernels expect of them is what a contiguous tensor has.
    std::int64_t contiguous = 1;
    for (std::size_t at = Rank; at-- > 0;) {
      if (sizes[at] == 1) strides[at] = contiguous;
      contiguous = std::max<std::int64_t>(contiguous, sizes[at] * strides[at]);
    }
    return View<T, Rank, Device>(reinterpret_cast<T*>(data(id)), Layout<Rank>(sizes, strides));
  }
  /// An int64 node of size 1.
  [[nodiscard]] View<const std::int64_t, 1, Device> index(NodeId id) const {
    return {reinterpret_cast<const std::int64_t*>(data(id)), Layout<1>(Sizes<1>{1})};
  }
  /// The number that such a node has instead of its last operand.
  [[nodiscard]] View<const std::int64_t, 1, Device> literal(NodeId id) const {
    return {literals_[id], Layout<1>(Sizes<1>{1})};
  }

  void add(Step<Device> step) { steps_.push_back(std::move(step)); }
  [[nodiscard]] std::vector<Step<Device>> take_steps() { return std::move(steps_); }

 private:
  const Graph& graph_;
  std::vector<Place> places_;
  std::vector<std::byte*> memory_;
  std::vector<const std::int64_t*> literals_;  // by node
  std::vector<Step<Device>> steps_;
};

}  // namespace graph
TENON_NAMESPACE_END
