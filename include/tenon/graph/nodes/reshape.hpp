// ReshapeNode: the same elements in row-major order under another shape, as NumPy's reshape: a view where strides allow it,
// else a copy that is made where the node stands.
#pragma once

#include <string>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_reshape(const Node& node, OperandTypes types) {
  TensorType result{types[0]->dtype, node.numbers};
  check_type("ReshapeNode", result);
  if (result.numel() != types[0]->numel()) {
    throw_operand_shape(
        "ReshapeNode", "the operand", *types[0],
        "whose " + std::to_string(types[0]->numel()) + " elements do not fill " + shape_text(result.shape));
  }
  return result;
}

inline constexpr NodeRule reshape_rule{
    .name = "ReshapeNode", .operands = 1, .numbers = NumbersForm::list, .is_view = true, .infer = infer_reshape};

}  // namespace graph::detail
TENON_NAMESPACE_END
