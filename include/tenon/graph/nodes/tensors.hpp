// InputTensor, ConstantTensor, BufferTensor: memory that has a name.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_named_tensor(const Node& node, OperandTypes) { return node.type; }

/// Given at every evaluation, by name.
inline constexpr NodeRule input_tensor_rule{.name = "InputTensor", .infer = infer_named_tensor};
/// Given at compilation, by name.
inline constexpr NodeRule constant_tensor_rule{.name = "ConstantTensor", .infer = infer_named_tensor};
/// Allocated at compilation, zero at first, and kept between evaluations.
inline constexpr NodeRule buffer_tensor_rule{.name = "BufferTensor", .infer = infer_named_tensor};

}  // namespace graph::detail
TENON_NAMESPACE_END
