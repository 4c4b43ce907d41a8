// SiLUNode: x / (1 + exp(-x)), element by element.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_silu(const Node&, OperandTypes types) {
  expect_float("SiLUNode", "the operand", *types[0]);
  return *types[0];
}

inline constexpr NodeRule silu_rule{.name = "SiLUNode", .operands = 1, .is_pointwise = true, .infer = infer_silu};

}  // namespace graph::detail
TENON_NAMESPACE_END
