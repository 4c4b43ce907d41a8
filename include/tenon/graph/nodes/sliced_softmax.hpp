// SlicedSoftmaxNode: softmax over the first `prefix` elements of each row, the rest copied. The prefix is a number, or an
// int64 tensor of size 1.
#pragma once

#include <string>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>
#include <tenon/ops/sliced_softmax.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_sliced_softmax(const Node& node, OperandTypes types) {
  constexpr const char* name = "SlicedSoftmaxNode";
  const TensorType& x = *types[0];
  expect_float(name, "the first operand", x);
  if (x.rank() > 3) throw_operand_shape(name, "the first operand", x, "not 1 to 3 dimensions");
  if (node.numbers.empty()) {
    expect_index(name, "the prefix", *types[1]);
  } else if (node.numbers[0] < 0 || node.numbers[0] > x.shape.back()) {
    throw ValueError(std::string(name) + ": the prefix is " + std::to_string(node.numbers[0]) +
                     ", not within 0 and the rows' length of an operand of shape " + shape_text(x.shape));
  }
  return x;
}

inline constexpr NodeRule sliced_softmax_rule{
    .name = "SlicedSoftmaxNode", .operands = 2, .numbers = NumbersForm::last_operand, .infer = infer_sliced_softmax};

template <DeviceTag Device>
void lower_sliced_softmax(Lowering<Device>& lowering, NodeId id) {
  const Node& node = lowering.graph()[id];
  const auto prefix = node.numbers.empty() ? lowering.index(node.operands[1]) : lowering.literal(id);
  visit_float(node.type.dtype, [&]<class T>(std::type_identity<T>) {
    lowering.add([out = lowering.template view<T, 3>(id), x = lowering.template view<const T, 3>(node.operands[0]),
                  prefix](Context<Device>& ctx) { sliced_softmax(ctx, out, x, prefix); });
  });
}

}  // namespace graph::detail
TENON_NAMESPACE_END
