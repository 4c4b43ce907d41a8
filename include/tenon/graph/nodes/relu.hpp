// ReLUNode: max(0, x), element by element; NaN stays NaN.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_relu(const Node&, OperandTypes types) { return *types[0]; }

inline constexpr NodeRule relu_rule{.name = "ReLUNode", .operands = 1, .is_pointwise = true, .infer = infer_relu};

}  // namespace graph::detail
TENON_NAMESPACE_END
