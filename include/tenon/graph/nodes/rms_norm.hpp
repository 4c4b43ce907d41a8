// RmsNormNode: x · w / sqrt(mean(x²) + 1e-5), x and w of shape [n].
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>
#include <tenon/ops/rms_norm.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// The epsilon of RmsNormNode, which is that of llama2.c.
inline constexpr double rms_norm_epsilon = 1e-5;

namespace detail {

inline TensorType infer_rms_norm(const Node&, OperandTypes types) {
  constexpr const char* name = "RmsNormNode";
  const TensorType& x = *types[0];
  const TensorType& weight = *types[1];
  expect_float(name, "the first operand", x);
  expect_same_dtype(name, x, weight, "the second operand");
  if (x.rank() != 1) throw_operand_shape(name, "the first operand", x, "not one dimension");
  if (weight.shape != x.shape) {
    throw_operand_shape(name, "the second operand", weight, "not the first one's " + shape_text(x.shape));
  }
  return x;
}

inline constexpr NodeRule rms_norm_rule{.name = "RmsNormNode", .operands = 2, .infer = infer_rms_norm};

template <DeviceTag Device>
void lower_rms_norm(Lowering<Device>& lowering, NodeId id) {
  const Node& node = lowering.graph()[id];
  visit_float(node.type.dtype, [&]<class T>(std::type_identity<T>) {
    lowering.add([out = lowering.template view<T, 2>(id), x = lowering.template view<const T, 2>(node.operands[0]),
                  weight = lowering.template view<const T, 1>(node.operands[1])](Context<Device>& ctx) {
      rms_norm(ctx, out, x, weight, rms_norm_epsilon);
    });
  });
}

}  // namespace detail
}  // namespace graph
TENON_NAMESPACE_END
