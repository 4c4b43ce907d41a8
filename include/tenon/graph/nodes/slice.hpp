// SliceNode: rows begin … end - 1 of the first dimension, without a copy.
#pragma once

#include <string>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_slice(const Node& node, OperandTypes types) {
  TensorType result = *types[0];
  const std::int64_t begin = node.numbers[0];
  const std::int64_t end = node.numbers[1];
  if (begin < 0 || begin >= end || end > result.shape[0]) {
    throw ValueError("SliceNode: [" + std::to_string(begin) + ", " + std::to_string(end) +
                     ") names no rows of an operand of shape " + shape_text(result.shape));
  }
  result.shape[0] = end - begin;
  return result;
}

inline constexpr NodeRule slice_rule{
    .name = "SliceNode", .operands = 1, .numbers = NumbersForm::two, .is_view = true, .infer = infer_slice};

}  // namespace graph::detail
TENON_NAMESPACE_END
