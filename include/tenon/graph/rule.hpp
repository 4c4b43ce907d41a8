// NodeRule: what the compiler knows about a kind of node. Each kind has a file in graph/nodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/node.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Memory and steps of a graph that is being compiled, see graph/lowering.hpp.
template <DeviceTag Device>
class Lowering;

/// Types of the operands of a node that is being added.
using OperandTypes = std::span<const TensorType* const>;

/// What follows the operands in a script.
enum class NumbersForm : std::uint8_t {
  none,
  list,         ///< `[2, 3]`: a shape or an order
  two,          ///< `begin, end`
  last_operand  ///< one number in the place of the last operand, or that operand
};

/// The step that a point-wise kind is; load for others.
[[nodiscard]] constexpr PointwiseCode code_of(NodeKind kind) {
  switch (kind) {
    case NodeKind::sum: return PointwiseCode::sum;
    case NodeKind::hadamard_product: return PointwiseCode::hadamard_product;
    case NodeKind::complex_hadamard_product: return PointwiseCode::complex_hadamard_product;
    case NodeKind::relu: return PointwiseCode::relu;
    case NodeKind::silu: return PointwiseCode::silu;
    default: return PointwiseCode::load;
  }
}

namespace detail {

/// The program on its operands that a point-wise node is, fused or not.
[[nodiscard]] inline std::vector<PointwiseStep> program_of(const Node& node) {
  if (node.kind == NodeKind::pointwise) return node.program;
  std::vector<PointwiseStep> program;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    program.push_back({PointwiseCode::load, static_cast<std::uint8_t>(i)});
  }
  program.push_back({code_of(node.kind), 0});
  return program;
}

}  // namespace detail

struct NodeRule {
  std::string_view name;  ///< as scripts spell it
  int operands = 0;       ///< -1: at least one
  NumbersForm numbers = NumbersForm::none;
  bool is_view = false;       ///< the result is the first operand's memory, or a part of it
  bool is_pointwise = false;  ///< what fusion joins
  /// The type of the result. Throws ShapeError, DTypeError or ValueError that names the node, the operand, and both types.
  TensorType (*infer)(const Node& node, OperandTypes types) = nullptr;
};

namespace detail {

[[noreturn]] inline void throw_operand_shape(std::string_view node, std::string_view operand, const TensorType& type,
                                             const std::string& why) {
  throw ShapeError(std::string(node) + ": " + std::string(operand) + " has shape " + shape_text(type.shape) + ", " +
                   why);
}

inline void expect_same_dtype(std::string_view node, const TensorType& a, const TensorType& b,
                              std::string_view b_name) {
  if (a.dtype == b.dtype) return;
  throw DTypeError(std::string(node) + ": " + std::string(b_name) + " is " + type_text(b) +
                   ", but the first operand is " + type_text(a));
}

inline void expect_float(std::string_view node, std::string_view operand, const TensorType& type) {
  if (type.dtype != DType::int64) return;
  throw DTypeError(std::string(node) + ": " + std::string(operand) + " is " + type_text(type) +
                   ", and it needs a floating-point type");
}

inline void expect_index(std::string_view node, std::string_view operand, const TensorType& type) {
  if (type.dtype != DType::int64 || type.numel() != 1) {
    throw DTypeError(std::string(node) + ": " + std::string(operand) + " is " + type_text(type) +
                     ", and it needs an int64 tensor of size 1");
  }
}

/// The result of an element-wise operation of two operands: b is broadcast to a.
inline TensorType infer_broadcast(std::string_view node, const TensorType& a, const TensorType& b) {
  expect_same_dtype(node, a, b, "the second operand");
  bool fits = a.rank() == b.rank();
  for (std::size_t i = 0; fits && i < a.rank(); ++i) fits = b.shape[i] == a.shape[i] || b.shape[i] == 1;
  if (!fits) {
    throw_operand_shape(node, "the second operand", b,
                        "which is not broadcast to the first one's " + shape_text(a.shape) +
                            ": as many dimensions, each of them equal or 1");
  }
  return a;
}

}  // namespace detail
}  // namespace graph
TENON_NAMESPACE_END
