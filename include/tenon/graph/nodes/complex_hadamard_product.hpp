// ComplexHadamardProductNode: products of complex numbers; the last dimension of both operands is 2, (re, im).
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_complex_hadamard_product(const Node&, OperandTypes types) {
  constexpr const char* name = "ComplexHadamardProductNode";
  expect_float(name, "the first operand", *types[0]);
  for (const TensorType* type : types) {
    if (type->shape.back() != 2) {
      throw_operand_shape(name, type == types[0] ? "the first operand" : "the second operand", *type,
                          "and its last dimension must be 2, real and imaginary part");
    }
  }
  return infer_broadcast(name, *types[0], *types[1]);
}

inline constexpr NodeRule complex_hadamard_product_rule{
    .name = "ComplexHadamardProductNode", .operands = 2, .is_pointwise = true, .infer = infer_complex_hadamard_product};

}  // namespace graph::detail
TENON_NAMESPACE_END
