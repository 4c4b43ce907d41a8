// ReplaceSliceNode: writes r into x[begin:end] in place and gives x. begin and end are known at evaluation only.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_replace_slice(const Node&, OperandTypes types) {
  constexpr const char* name = "ReplaceSliceNode";
  const TensorType& x = *types[0];
  const TensorType& rows = *types[1];
  expect_same_dtype(name, x, rows, "the second operand");
  bool fits = rows.rank() == x.rank() && rows.shape[0] <= x.shape[0];
  for (std::size_t i = 1; fits && i < x.rank(); ++i) fits = rows.shape[i] == x.shape[i];
  if (!fits) {
    throw_operand_shape(name, "the second operand", rows,
                        "which is no slice of the first one's " + shape_text(x.shape));
  }
  expect_index(name, "begin", *types[2]);
  expect_index(name, "end", *types[3]);
  return x;
}

inline constexpr NodeRule replace_slice_rule{
    .name = "ReplaceSliceNode", .operands = 4, .is_view = true, .infer = infer_replace_slice};

}  // namespace graph::detail
TENON_NAMESPACE_END
