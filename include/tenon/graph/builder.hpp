// Builder, Value: graphs written as C++ expressions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/graph.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

class Builder;

/// A node of a builder, as an operand of further ones. A handle to copy; the builder must live on. Operators and members
/// add a node and throw what Graph::add throws, and ValueError where the operands are of two builders.
class Value {
 public:
  [[nodiscard]] TensorType type() const;
  [[nodiscard]] NodeId id() const noexcept { return id_; }
  [[nodiscard]] Builder& builder() const noexcept { return *builder_; }

  /// Rows begin … end - 1 of the first dimension.
  [[nodiscard]] Value slice(std::int64_t begin, std::int64_t end) const;
  /// A view where the strides of this allow it, else a copy made here, as NumPy's reshape: later writes do not reach a copy.
  [[nodiscard]] Value reshape(Shape shape) const;
  /// Dimension i of the result is dimension order[i] of this.
  [[nodiscard]] Value permute(std::vector<std::int64_t> order) const;
  /// Writes `rows` over rows begin … end - 1 of this, in place, and gives this back. `begin` and `end` are int64 tensors
  /// of size 1. What is to come after the write must use the result, or be added after it.
  Value replace_slice(Value rows, Value begin, Value end) const;

 private:
  friend class Builder;
  Value(Builder* builder, NodeId id) : builder_(builder), id_(id) {}

  Builder* builder_;
  NodeId id_;
};

/// Collects the nodes of one graph.
///
///     Builder b;
///     const Value x = b.input("x", DType::float32, {128, 784});
///     const Value w = b.constant("w", DType::float32, {784, 10});
///     const Graph g = b.finish(relu(matmul(x, w)));
class Builder {
 public:
  Builder() = default;
  Builder(const Builder&) = delete;
  Builder& operator=(const Builder&) = delete;

  /// A tensor given at every evaluation.
  Value input(std::string name, DType dtype, Shape shape) {
    return tensor(NodeKind::input_tensor, std::move(name), dtype, std::move(shape));
  }
  /// A tensor given at compilation.
  Value constant(std::string name, DType dtype, Shape shape) {
    return tensor(NodeKind::constant_tensor, std::move(name), dtype, std::move(shape));
  }
  /// A tensor that keeps its content between evaluations.
  Value buffer(std::string name, DType dtype, Shape shape) {
    return tensor(NodeKind::buffer_tensor, std::move(name), dtype, std::move(shape));
  }

  /// A node of any kind, with operands of this builder and nothing else but `numbers`.
  Value apply(NodeKind kind, const std::vector<Value>& operands, std::vector<std::int64_t> numbers = {}) {
    Node node;
    node.kind = kind;
    for (const Value& operand : operands) {
      check_own(rule_of(kind).name, operand);
      node.operands.push_back(operand.id_);
    }
    node.numbers = std::move(numbers);
    return {this, graph_.add(std::move(node))};
  }

  /// What was added so far.
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }

  /// The graph with its result, which is a copy: the builder and its values can go on.
  [[nodiscard]] Graph finish(Value result) const {
    check_own("result", result);
    Graph graph = graph_;
    graph.set_result(result.id_);
    return graph;
  }

 private:
  Value tensor(NodeKind kind, std::string name, DType dtype, Shape shape) {
    Node node;
    node.kind = kind;
    node.name = std::move(name);
    node.type = {dtype, std::move(shape)};
    return {this, graph_.add(std::move(node))};
  }
  void check_own(std::string_view what, const Value& value) const {
    if (value.builder_ == this) return;
    throw ValueError(std::string(what) + ": node " + std::to_string(value.id_) + ", " + type_text(value.type()) +
                     ", is of another builder");
  }

  Graph graph_;
};

inline TensorType Value::type() const { return builder_->graph()[id_].type; }

inline Value Value::slice(std::int64_t begin, std::int64_t end) const {
  return builder_->apply(NodeKind::slice, {*this}, {begin, end});
}
inline Value Value::reshape(Shape shape) const { return builder_->apply(NodeKind::reshape, {*this}, std::move(shape)); }
inline Value Value::permute(std::vector<std::int64_t> order) const {
  return builder_->apply(NodeKind::permute, {*this}, std::move(order));
}
inline Value Value::replace_slice(Value rows, Value begin, Value end) const {
  return builder_->apply(NodeKind::replace_slice, {*this, rows, begin, end});
}

/// Element-wise; b is broadcast to a.
[[nodiscard]] inline Value operator+(Value a, Value b) { return a.builder().apply(NodeKind::sum, {a, b}); }
[[nodiscard]] inline Value operator*(Value a, Value b) { return a.builder().apply(NodeKind::hadamard_product, {a, b}); }
/// Element-wise products of complex numbers; the last dimension is (re, im), and b is broadcast to a.
[[nodiscard]] inline Value complex_multiply(Value a, Value b) {
  return a.builder().apply(NodeKind::complex_hadamard_product, {a, b});
}

/// [m, n] by [n, k], [n] by [n, k], or [b, m, n] by [b, n, k].
[[nodiscard]] inline Value matmul(Value a, Value b) { return a.builder().apply(NodeKind::matmul, {a, b}); }
[[nodiscard]] inline Value relu(Value x) { return x.builder().apply(NodeKind::relu, {x}); }
[[nodiscard]] inline Value silu(Value x) { return x.builder().apply(NodeKind::silu, {x}); }
/// x * weight / sqrt(mean(x^2) + rms_norm_epsilon), both of shape [n].
[[nodiscard]] inline Value rms_norm(Value x, Value weight) {
  return x.builder().apply(NodeKind::rms_norm, {x, weight});
}
/// Softmax over the first `prefix` elements of each row; the others stay.
[[nodiscard]] inline Value sliced_softmax(Value x, std::int64_t prefix) {
  return x.builder().apply(NodeKind::sliced_softmax, {x}, {prefix});
}
/// The same with a prefix known at evaluation, an int64 tensor of size 1.
[[nodiscard]] inline Value sliced_softmax(Value x, Value prefix) {
  return x.builder().apply(NodeKind::sliced_softmax, {x, prefix});
}

/// Softmax over whole rows.
[[nodiscard]] inline Value softmax(Value x) { return sliced_softmax(x, x.type().shape.back()); }

}  // namespace graph
TENON_NAMESPACE_END
