// MatMulNode: [m, n] · [n, k], [n] · [n, k], or [b, m, n] · [b, n, k].
#pragma once

#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>
#include <tenon/ops/matmul.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_product(std::string_view name, const TensorType& a, const TensorType& b) {
  expect_float(name, "the first operand", a);
  expect_same_dtype(name, a, b, "the second operand");
  if (a.rank() > 3) throw_operand_shape(name, "the first operand", a, "not 1 to 3 dimensions");
  const std::size_t rank = a.rank() == 1 ? 2 : a.rank();
  const bool fits = b.rank() == rank && b.shape[rank - 2] == a.shape.back() && (rank < 3 || b.shape[0] == a.shape[0]);
  if (!fits) {
    throw_operand_shape(name, "the second operand", b,
                        "which does not fit the first one's " + shape_text(a.shape) +
                            ": [m, n] times [n, k], [n] times [n, k], or [b, m, n] times [b, n, k]");
  }
  TensorType result = a;
  result.shape.back() = b.shape.back();
  return result;
}

inline TensorType infer_matmul(const Node&, OperandTypes types) {
  return infer_product("MatMulNode", *types[0], *types[1]);
}

inline constexpr NodeRule matmul_rule{.name = "MatMulNode", .operands = 2, .infer = infer_matmul};

/// Matrices of a product as a batch.
template <class T, DeviceTag Device>
struct Product {
  View<T, 3, Device> out;
  View<const T, 3, Device> a;
  View<const T, 3, Device> b;

  Product(const Lowering<Device>& lowering, NodeId id)
      : out(lowering.template view<T, 3>(id)),
        a(lowering.template view<const T, 3>(lowering.graph()[id].operands[0])),
        b(lowering.template view<const T, 3>(lowering.graph()[id].operands[1])) {}
};

template <DeviceTag Device>
void lower_matmul(Lowering<Device>& lowering, NodeId id) {
  visit_float(lowering.graph()[id].type.dtype, [&]<class T>(std::type_identity<T>) {
    lowering.add([p = Product<T, Device>(lowering, id)](Context<Device>& ctx) { matmul(ctx, p.out, p.a, p.b); });
  });
}

}  // namespace graph::detail
TENON_NAMESPACE_END
