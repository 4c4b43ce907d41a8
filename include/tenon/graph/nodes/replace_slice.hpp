// ReplaceSliceNode: writes r into x[begin:end] in place and gives x. begin and end are known at evaluation only.
#pragma once

#include <algorithm>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>
#include <tenon/ops/replace_slice.hpp>

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

template <DeviceTag Device>
void lower_replace_slice(Lowering<Device>& lowering, NodeId id) {
  const Node& node = lowering.graph()[id];
  visit_type(node.type.dtype, [&]<class T>(std::type_identity<T>) {
    // Rows are the first dimension, which leading ones would hide.
    const auto rows_first = [&](NodeId operand) {
      const auto& place = lowering.place(operand);
      const Shape& shape = lowering.graph()[operand].type.shape;
      Sizes<4> sizes{1, 1, 1, 1};
      Sizes<4> strides{0, 0, 0, 0};
      std::copy(shape.begin(), shape.end(), sizes.begin());
      std::copy(place.strides.begin(), place.strides.end(), strides.begin());
      return Layout<4>(sizes, strides);
    };
    const View<T, 4, Device> x(reinterpret_cast<T*>(lowering.data(node.operands[0])), rows_first(node.operands[0]));
    const View<const T, 4, Device> rows(reinterpret_cast<const T*>(lowering.data(node.operands[1])),
                                        rows_first(node.operands[1]));
    lowering.add([x, rows, begin = lowering.index(node.operands[2]), end = lowering.index(node.operands[3])](
                     Context<Device>& ctx) { replace_slice(ctx, x, rows, begin, end); });
  });
}

}  // namespace graph::detail
TENON_NAMESPACE_END
