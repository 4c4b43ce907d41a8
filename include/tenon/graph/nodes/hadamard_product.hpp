// HadamardProductNode: a * b, element by element; b is broadcast to a.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_hadamard_product(const Node&, OperandTypes types) {
  return infer_broadcast("HadamardProductNode", *types[0], *types[1]);
}

inline constexpr NodeRule hadamard_product_rule{
    .name = "HadamardProductNode", .operands = 2, .is_pointwise = true, .infer = infer_hadamard_product};

}  // namespace graph::detail
TENON_NAMESPACE_END
