// Valid graphs made from a seed, and elements for their tensors.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>

#include "graph/reference.hpp"

namespace graph_test {

/// What the int64 elements of a named tensor are.
struct Wholes {
  std::int64_t low = -3;
  std::int64_t high = 3;
};

/// Elements of a named tensor; floating-point ones are between -1 and 1, some of them zero, and exact in the dtype.
inline Elements random_elements(const TensorType& type, const Wholes& wholes, std::mt19937& random) {
  Elements result(static_cast<std::size_t>(type.numel()));
  std::uniform_real_distribution<double> real(-1.0, 1.0);
  std::uniform_int_distribution<std::int64_t> whole(wholes.low, wholes.high);
  for (Element& element : result) {
    if (type.dtype == DType::int64) {
      element.whole = whole(random);
      continue;
    }
    const double value = random() % 16 == 0 ? 0.0 : real(random);
    if (type.dtype == DType::float16) {
      element.value = tenon::reference::rounded<tenon::float16>(value);
    } else if (type.dtype == DType::bfloat16) {
      element.value = tenon::reference::rounded<tenon::bfloat16>(value);
    } else {
      element.value = tenon::reference::rounded<float>(value);
    }
  }
  return result;
}

/// Writes a graph node by node. For each it keeps a bound of the elements' size, so that none grows without limit, and
/// places and prefixes are tensors whose range is known.
class RandomGraph {
 public:
  explicit RandomGraph(std::uint32_t seed) : random_(seed) {
    dtype_ = one_in(3) ? (one_in(2) ? DType::float16 : DType::bfloat16) : DType::float32;
    largest_ = one_in(8) ? 40 : 7;
    const std::int64_t count = between(1, one_in(4) ? 40 : 16);
    for (std::int64_t i = between(1, 3); i > 0; --i) tensor(random_shape(), some_dtype());
    for (std::int64_t i = 0; i < count; ++i) step();
    graph_.set_result(one_in(4) ? some_node() : static_cast<NodeId>(graph_.size() - 1));
  }

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// Elements for all tensors of a kind. `seed` is that of the evaluation.
  [[nodiscard]] ElementMap elements(NodeKind kind, std::uint32_t seed) const {
    std::mt19937 random(seed);
    ElementMap result;
    for (const Node& node : graph_.nodes()) {
      if (node.kind != kind) continue;
      const auto wholes = wholes_.find(node.name);
      result[node.name] = random_elements(node.type, wholes == wholes_.end() ? Wholes{} : wholes->second, random);
    }
    return result;
  }

 private:
  static constexpr double float_limit = 64;
  static constexpr double whole_limit = 1e12;
  static constexpr double buffer_limit = 8;

  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  bool one_in(std::int64_t n) { return between(1, n) == 1; }
  NodeId some_node() {
    const auto size = static_cast<std::int64_t>(graph_.size());
    if (one_in(3)) return static_cast<NodeId>(size - 1);
    return static_cast<NodeId>(one_in(2) ? between(std::max<std::int64_t>(0, size - 5), size - 1)
                                         : between(0, size - 1));
  }
  Shape random_shape() {
    Shape shape;
    for (std::int64_t i = between(1, 3); i > 0; --i) shape.push_back(between(1, 7));
    if (one_in(2)) shape.back() = between(1, largest_);
    if (one_in(6)) shape.back() = 2;
    return shape;
  }
  DType some_dtype() { return one_in(6) ? DType::int64 : one_in(12) ? DType::float32 : dtype_; }
  [[nodiscard]] const TensorType& type(NodeId id) const { return graph_[id].type; }
  [[nodiscard]] bool is_whole(NodeId id) const { return type(id).dtype == DType::int64; }
  [[nodiscard]] NodeId root(NodeId id) const {
    while (tenon::graph::rule_of(graph_[id].kind).is_view) id = graph_[id].operands[0];
    return id;
  }

  NodeId add(Node node, double bound) {
    const NodeId id = graph_.add(std::move(node));
    bounds_.push_back(bound);
    fixed_.push_back(false);
    return id;
  }
  NodeId named(NodeKind kind, TensorType type, double bound, const Wholes& wholes = {}) {
    Node node{.kind = kind, .type = std::move(type), .name = "t" + std::to_string(graph_.size())};
    wholes_[node.name] = wholes;
    return add(std::move(node), bound);
  }
  NodeId tensor(Shape shape, DType dtype) {
    const bool whole = dtype == DType::int64;
    const std::int64_t kind = between(0, 3);
    if (kind == 0) return named(NodeKind::buffer_tensor, {dtype, std::move(shape)}, whole ? 100 : buffer_limit);
    return named(kind == 1 ? NodeKind::constant_tensor : NodeKind::input_tensor, {dtype, std::move(shape)},
                 whole ? 3 : 1);
  }

  /// A node that is there, of a type that `fits`; they are tried from a random one on.
  template <class Fits>
  std::optional<NodeId> find(Fits&& fits) {
    const auto size = static_cast<NodeId>(graph_.size());
    const NodeId start = some_node();
    for (NodeId i = 0; i < size; ++i) {
      const NodeId id = (start + i) % size;
      if (fits(type(id))) return id;
    }
    return std::nullopt;
  }

  /// What may stand beside `a` in a broadcast, or nothing but a.
  NodeId partner(NodeId a) {
    const TensorType wanted = type(a);
    const auto fits = [&](const TensorType& type) {
      bool good = type.dtype == wanted.dtype && type.rank() == wanted.rank();
      for (std::size_t i = 0; good && i < wanted.rank(); ++i) {
        good = type.shape[i] == wanted.shape[i] || type.shape[i] == 1;
      }
      return good;
    };
    if (!one_in(3)) {
      if (const auto found = find(fits)) return *found;
    }
    Shape shape = wanted.shape;
    for (std::int64_t& size : shape) {
      if (one_in(4)) size = 1;
    }
    return tensor(std::move(shape), wanted.dtype);
  }

  [[nodiscard]] bool small(double bound, NodeId like) const {
    return bound <= (is_whole(like) ? whole_limit : float_limit);
  }

  /// An int64 node of size 1 whose element is always within low and high.
  NodeId index(std::int64_t low, std::int64_t high) {
    const auto keep = [&](NodeId id, std::int64_t from, std::int64_t to) {
      fixed_[root(id)] = true;
      indices_.push_back({id, {from, to}});
      return id;
    };
    const auto one = [&](NodeKind kind, std::int64_t from, std::int64_t to) {
      const Shape shape(static_cast<std::size_t>(one_in(4) ? between(1, 3) : 1), 1);
      return named(kind, {DType::int64, shape}, static_cast<double>(std::max(std::abs(from), std::abs(to))),
                   {from, to});
    };
    for (std::size_t i = indices_.size(); i-- > 0 && one_in(2);) {
      const auto& [id, range] = indices_[i];
      if (range.low >= low && range.high <= high) return id;
    }
    switch (between(0, 5)) {
      case 0: return keep(one(NodeKind::input_tensor, low, high), low, high);
      case 1: return keep(one(NodeKind::constant_tensor, low, high), low, high);
      case 2: {  // a sum
        const std::int64_t free = between(0, high - low);
        const NodeId a = keep(one(NodeKind::input_tensor, 0, free), 0, free);
        return add_whole(a, low, high - free, low, high);
      }
      case 3: {  // one of several
        const NodeId all = named(NodeKind::input_tensor, {DType::int64, {4}}, static_cast<double>(high), {low, high});
        const std::int64_t at = between(0, 3);
        return keep(add({.kind = NodeKind::slice, .operands = {all}, .numbers = {at, at + 1}}, bounds_[all]), low,
                    high);
      }
      case 4: {  // of another rank
        const NodeId x = keep(one(NodeKind::input_tensor, low, high), low, high);
        return keep(add({.kind = NodeKind::reshape, .operands = {x}, .numbers = {1, 1}}, bounds_[x]), low, high);
      }
      default: {  // what is below zero becomes zero
        if (low > 0) return keep(one(NodeKind::input_tensor, low, high), low, high);
        const NodeId x = keep(one(NodeKind::input_tensor, -2, high), -2, high);
        return keep(add({.kind = NodeKind::relu, .operands = {x}}, bounds_[x]), 0, high);
      }
    }
  }
  /// An index plus a constant within from and to.
  NodeId add_whole(NodeId a, std::int64_t from, std::int64_t to, std::int64_t low, std::int64_t high) {
    const NodeId b = named(NodeKind::constant_tensor, type(a), static_cast<double>(to), {from, to});
    fixed_[b] = true;
    const NodeId sum = add({.kind = NodeKind::sum, .operands = {a, b}}, bounds_[a] + bounds_[b]);
    fixed_[sum] = true;
    indices_.push_back({sum, {low, high}});
    return sum;
  }

  void step() {
    const NodeId x = some_node();
    const double bound = bounds_[x];
    switch (between(0, 19)) {
      case 0: tensor(random_shape(), some_dtype()); break;
      case 1:
      case 2:
      case 3: {
        const NodeId b = partner(x);
        if (!small(bound + bounds_[b], x)) break;
        const NodeId sum = add({.kind = NodeKind::sum, .operands = {x, b}}, bound + bounds_[b]);
        if (!one_in(8)) break;
        write(b);  // what was read is written before the sum is used, and read once more
        add({.kind = NodeKind::relu, .operands = {sum}}, bounds_[sum]);
        if (one_in(2)) add({.kind = NodeKind::sum, .operands = {x, b}}, bounds_[sum]);
        break;
      }
      case 4:
      case 5: {
        const NodeId b = partner(x);
        if (small(bound * bounds_[b], x)) {
          add({.kind = NodeKind::hadamard_product, .operands = {x, b}}, bound * bounds_[b]);
        }
        break;
      }
      case 6: add({.kind = NodeKind::relu, .operands = {x}}, bound); break;
      case 7:
        if (!is_whole(x)) add({.kind = NodeKind::silu, .operands = {x}}, bound);
        break;
      case 8:
      case 9: matmul(x); break;
      case 10: {
        const std::int64_t begin = between(0, type(x).shape[0] - 1);
        add({.kind = NodeKind::slice, .operands = {x}, .numbers = {begin, between(begin + 1, type(x).shape[0])}},
            bound);
        break;
      }
      case 11: reshape(x); break;
      case 12: {
        std::vector<std::int64_t> order(type(x).rank());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
        std::shuffle(order.begin(), order.end(), random_);
        add({.kind = NodeKind::permute, .operands = {x}, .numbers = std::move(order)}, bound);
        break;
      }
      case 13:
      case 14: replace_slice(x); break;
      case 15: complex_product(x); break;
      case 16: rms_norm(x); break;
      case 17: softmax(x); break;
      case 18: {  // the same once more
        const Node& node = graph_[x];
        if (node.name.empty()) {
          const bool fixed = fixed_[root(x)];
          fixed_[root(add(Node(node), bound))] = fixed;
        }
        break;
      }
      default: program(x); break;
    }
  }

  void matmul(NodeId a) {
    const TensorType& left = type(a);
    if (is_whole(a) || left.rank() > 3) return;
    TensorType right{left.dtype, {left.shape.back(), between(1, largest_)}};
    if (left.rank() == 3) right.shape.insert(right.shape.begin(), left.shape[0]);
    std::optional<NodeId> b;
    if (!one_in(3)) {
      b = find([&](TensorType type) {
        if (type.rank() == right.rank()) type.shape.back() = right.shape.back();
        return type == right;
      });
    }
    if (!b) b = tensor(right.shape, right.dtype);
    const double bound = bounds_[a] * bounds_[*b] * static_cast<double>(type(a).shape.back());
    if (!small(bound, a)) return;
    const NodeId product = add({.kind = NodeKind::matmul, .operands = {a, *b}}, bound);
    if (one_in(3)) return;
    if (one_in(4)) write(one_in(2) ? a : *b);  // between a product and what might be fused with it
    const NodeId bias = partner(product);
    if (!small(bound + bounds_[bias], a)) return;
    if (one_in(8) && bias != product) {
      using enum tenon::PointwiseCode;
      add({.kind = NodeKind::matmul_pointwise,
           .operands = {a, *b, bias},
           .program = {{load, 1}, {load, 0}, {relu, 0}, {sum, 0}}},
          bound + bounds_[bias]);
      return;
    }
    const NodeId sum = add({.kind = NodeKind::sum, .operands = {product, bias}}, bound + bounds_[bias]);
    if (one_in(2)) add({.kind = one_in(2) ? NodeKind::relu : NodeKind::silu, .operands = {sum}}, bounds_[sum]);
  }

  NodeId reshape(NodeId x) {
    std::int64_t rest = type(x).numel();
    Shape shape;
    for (std::int64_t rank = between(1, one_in(10) ? 4 : 3); rank > 1; --rank) {
      std::int64_t divisor = between(1, std::min<std::int64_t>(rest, 12));
      while (rest % divisor != 0) --divisor;
      shape.push_back(divisor);
      rest /= divisor;
    }
    shape.insert(shape.begin() + between(0, static_cast<std::int64_t>(shape.size())), rest);
    return add({.kind = NodeKind::reshape, .operands = {x}, .numbers = shape}, bounds_[x]);
  }

  void replace_slice(NodeId x) {
    if (!one_in(3)) {
      const auto buffer = find([](const TensorType&) { return true; });
      for (NodeId id = 0; id < graph_.size() && graph_[root(x)].kind != NodeKind::buffer_tensor; ++id) {
        x = (*buffer + id) % static_cast<NodeId>(graph_.size());
      }
    }
    write(x);
  }

  /// Whether a reshape of a buffer lies between, which is a copy and may not be written.
  [[nodiscard]] bool is_copy_of_buffer(NodeId x) const {
    if (graph_[root(x)].kind != NodeKind::buffer_tensor) return false;
    tenon::graph::Graph views = graph_;
    views.set_result(x);
    views = with_explicit_copies(views);
    return views[memory_places(views)[views.result()].root].kind != NodeKind::buffer_tensor;
  }

  void write(NodeId x) {
    if (graph_[root(x)].kind == NodeKind::constant_tensor || fixed_[root(x)] || is_copy_of_buffer(x)) return;
    const TensorType whole = type(x);
    const double limit = bounds_[root(x)];
    auto rows = find([&](TensorType type) {
      const std::int64_t count = type.shape[0];
      if (count <= whole.shape[0]) type.shape[0] = whole.shape[0];
      return type == whole && count <= whole.shape[0];
    });
    if (!rows || one_in(4)) {
      Shape shape = whole.shape;
      shape[0] = between(1, shape[0]);
      rows = tensor(std::move(shape), whole.dtype);
    }
    if (bounds_[*rows] > limit) return;
    const std::int64_t count = type(*rows).shape[0];
    const std::int64_t last = whole.shape[0] - count;
    const NodeId begin = index(0, last);
    const NodeId end = add_whole(begin, count, count, count, last + count);
    add({.kind = NodeKind::replace_slice, .operands = {x, *rows, begin, end}}, limit);
  }

  void complex_product(NodeId x) {
    if (is_whole(x)) return;
    if (type(x).shape.back() != 2) {
      const std::int64_t count = type(x).numel();
      if (count % 2 != 0) return;
      const Shape shape = one_in(2) ? Shape{count / 2, 2} : Shape{1, count / 2, 2};
      x = add({.kind = NodeKind::reshape, .operands = {x}, .numbers = shape}, bounds_[x]);
    }
    NodeId b = partner(x);
    if (type(b).shape.back() != 2) b = tensor(type(x).shape, type(x).dtype);
    const double bound = 2 * bounds_[x] * bounds_[b];
    if (small(bound, x)) add({.kind = NodeKind::complex_hadamard_product, .operands = {x, b}}, bound);
  }

  void rms_norm(NodeId x) {
    if (is_whole(x)) return;
    if (type(x).rank() != 1) {
      x = add({.kind = NodeKind::reshape, .operands = {x}, .numbers = {type(x).numel()}}, bounds_[x]);
    }
    const TensorType wanted = type(x);
    auto weight = find([&](const TensorType& type) { return type == wanted; });
    if (one_in(2)) weight = tensor(wanted.shape, wanted.dtype);
    const double bound = std::sqrt(static_cast<double>(wanted.numel())) * bounds_[*weight];
    if (small(bound, x)) add({.kind = NodeKind::rms_norm, .operands = {x, *weight}}, bound);
  }

  void softmax(NodeId x) {
    if (is_whole(x) || type(x).rank() > 3) return;
    const double bound = std::max(1.01, bounds_[x]);
    const std::int64_t columns = type(x).shape.back();
    if (one_in(2)) {
      add({.kind = NodeKind::sliced_softmax, .operands = {x}, .numbers = {between(0, columns)}}, bound);
    } else {
      const NodeId prefix = index(0, columns);
      add({.kind = NodeKind::sliced_softmax, .operands = {x, prefix}}, bound);
    }
  }

  /// What fusion makes may stand in a graph from the beginning.
  void program(NodeId x) {
    using enum tenon::PointwiseCode;
    if (is_whole(x) || bounds_[x] > 1) return;
    const NodeId b = partner(x);
    if (bounds_[b] > 1) return;
    add({.kind = NodeKind::pointwise,
         .operands = {x, b},
         .program = {{load, 1}, {silu, 0}, {load, 0}, {sum, 0}, {load, 1}, {hadamard_product, 0}, {relu, 0}}},
        2);
  }

  std::mt19937 random_;
  DType dtype_ = DType::float32;
  std::int64_t largest_ = 7;
  Graph graph_;
  std::vector<double> bounds_;
  std::vector<bool> fixed_;  ///< memory that other nodes take places and prefixes from: not written
  std::vector<std::pair<NodeId, Wholes>> indices_;
  std::map<std::string, Wholes> wholes_;
};

}  // namespace graph_test
