// PointwiseNode and MatMulPointwiseNode: what fusion makes of several nodes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/nodes/matmul.hpp>
#include <tenon/graph/rule.hpp>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline void check_program(std::string_view name, const Node& node, const TensorType& result, std::size_t operands) {
  const PointwiseProgram program(node.program);
  if (static_cast<std::size_t>(program.operands()) != operands) {
    throw ValueError(std::string(name) + ": the program takes " + std::to_string(program.operands()) +
                     " operands, but there are " + std::to_string(operands));
  }
  for (std::size_t i = 0; i < operands; ++i) {
    const PointwiseStep load{PointwiseCode::load, static_cast<std::uint8_t>(i)};
    if (std::find(node.program.begin(), node.program.end(), load) == node.program.end()) {
      throw ValueError(std::string(name) + ": the program does not load its operand " + std::to_string(i));
    }
  }
  for (const PointwiseStep& step : node.program) {
    if (step.code == PointwiseCode::silu || step.code == PointwiseCode::complex_hadamard_product) {
      expect_float(name, "the result", result);
    }
  }
}

/// The shape to which every operand is broadcast.
inline TensorType infer_pointwise(const Node& node, OperandTypes types) {
  constexpr const char* name = "PointwiseNode";
  TensorType result = *types[0];
  for (const TensorType* type : types) {
    expect_same_dtype(name, result, *type, "an operand");
    if (type->rank() != result.rank()) {
      throw_operand_shape(name, "an operand", *type, "which does not fit the first one's " + shape_text(result.shape));
    }
    for (std::size_t i = 0; i < result.rank(); ++i) result.shape[i] = std::max(result.shape[i], type->shape[i]);
  }
  for (const TensorType* type : types) infer_broadcast(name, result, *type);
  check_program(name, node, result, types.size());
  if (PointwiseProgram(node.program).is_complex() && result.shape.back() != 2) {
    throw_operand_shape(name, "the result", result, "and the last dimension of complex numbers must be 2");
  }
  return result;
}

inline TensorType infer_matmul_pointwise(const Node& node, OperandTypes types) {
  constexpr const char* name = "MatMulPointwiseNode";
  if (types.size() < 2) throw ValueError(std::string(name) + ": there are no two operands to multiply");
  TensorType result = infer_product(name, *types[0], *types[1]);
  for (const TensorType* type : types.subspan(2)) infer_broadcast(name, result, *type);
  check_program(name, node, result, types.size() - 1);
  if (PointwiseProgram(node.program).is_complex()) {
    throw ValueError(std::string(name) + ": a product of complex numbers after one of matrices");
  }
  return result;
}

inline constexpr NodeRule pointwise_rule{.name = "PointwiseNode", .operands = -1, .infer = infer_pointwise};
inline constexpr NodeRule matmul_pointwise_rule{
    .name = "MatMulPointwiseNode", .operands = -1, .infer = infer_matmul_pointwise};

/// `program` on the operands of a node, broadcast to its shape.
template <DeviceTag Device>
void lower_program(Lowering<Device>& lowering, NodeId id, const PointwiseProgram& program) {
  const Node& node = lowering.graph()[id];
  visit_type(node.type.dtype, [&]<class T>(std::type_identity<T>) {
    std::vector<PointwiseView<const T, Device>> operands;
    for (const NodeId operand : node.operands) {
      operands.push_back(lowering.template broadcast<const T, pointwise_rank>(operand, node.type.shape));
    }
    lowering.add([out = lowering.template view<T, pointwise_rank>(id), operands = std::move(operands),
                  program](Context<Device>& ctx) { pointwise(ctx, out, operands, program); });
  });
}

/// A point-wise node of its own, or a fused one.
template <DeviceTag Device>
void lower_pointwise(Lowering<Device>& lowering, NodeId id) {
  lower_program(lowering, id, PointwiseProgram(program_of(lowering.graph()[id])));
}

template <DeviceTag Device>
void lower_matmul_pointwise(Lowering<Device>& lowering, NodeId id) {
  const Node& node = lowering.graph()[id];
  visit_float(node.type.dtype, [&]<class T>(std::type_identity<T>) {
    std::vector<View<const T, 3, Device>> operands;
    for (std::size_t i = 2; i < node.operands.size(); ++i) {
      operands.push_back(lowering.template broadcast<const T, 3>(node.operands[i], node.type.shape));
    }
    lowering.add([p = Product<T, Device>(lowering, id), operands = std::move(operands),
                  program = PointwiseProgram(node.program)](Context<Device>& ctx) {
      matmul(ctx, p.out, p.a, p.b, MatmulEpilogue<T, Device>{&program, operands});
    });
  });
}

}  // namespace graph::detail
TENON_NAMESPACE_END
