// SumNode: a + b, element by element; b is broadcast to a.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_sum(const Node&, OperandTypes types) {
  return infer_broadcast("SumNode", *types[0], *types[1]);
}

inline constexpr NodeRule sum_rule{.name = "SumNode", .operands = 2, .is_pointwise = true, .infer = infer_sum};

}  // namespace graph::detail
TENON_NAMESPACE_END
