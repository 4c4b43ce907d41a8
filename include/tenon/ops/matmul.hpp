// matmul: products of matrices, with an optional point-wise program on the result.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/pointwise.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

/// What follows a product: operand 0 of the program is the product, rounded to T, and operand i + 1 is operands[i], of
/// the shape of the result and any strides, 0 where it is broadcast. No complex products.
template <class T, DeviceTag Device>
struct MatmulEpilogue {
  const PointwiseProgram* program = nullptr;  ///< null: the product as it is
  std::span<const View<const T, 3, Device>> operands;
};

namespace detail {
template <class T, DeviceTag Device>
void check_matmul(const View<T, 3, Device>& out, const View<const T, 3, Device>& a, const View<const T, 3, Device>& b,
                  const MatmulEpilogue<T, Device>& epilogue) {
  check_shape("matmul", "b", b.sizes(), Sizes<3>{a.size(0), a.size(2), b.size(2)}, "(batch, columns of a, any)");
  check_shape("matmul", "out", out.sizes(), Sizes<3>{a.size(0), a.size(1), b.size(2)},
              "(batch, rows of a, columns of b)");
  check_output("matmul", "out", out.layout());
  if (epilogue.program == nullptr) return;
  if (epilogue.program->is_complex()) throw ValueError("matmul: a product of complex numbers in its epilogue");
  if (static_cast<int>(epilogue.operands.size()) + 1 < epilogue.program->operands()) {
    throw ValueError("matmul: the epilogue takes " + std::to_string(epilogue.program->operands() - 1) +
                     " operands, but there are " + std::to_string(epilogue.operands.size()));
  }
  for (const auto& operand : epilogue.operands) {
    check_shape("matmul", "an operand of the epilogue", operand.sizes(), out.sizes(), "as out");
  }
}
}  // namespace detail

/// out[i] = epilogue(a[i] · b[i]): a (batch, m, n), b (batch, n, k), out (batch, m, k). Sums are formed in float (double
/// for double) and rounded to T once, before the epilogue, whose steps round as those of pointwise do. Any strides, 0
/// included: a stride of 0 in the first dimension is one matrix for the whole batch. `out` overlaps no argument except
/// an operand of the epilogue that is `out` itself. n may be 0: the product is 0. Throws ShapeError, ValueError.
template <FloatElement T>
void matmul(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> a,
            std::type_identity_t<View<const T, 3, Cpu>> b, const MatmulEpilogue<T, Cpu>& epilogue = {});
template <FloatElement T>
void matmul(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> a,
            std::type_identity_t<View<const T, 3, Cuda>> b, const MatmulEpilogue<T, Cuda>& epilogue = {});

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/matmul.hpp>
#endif
