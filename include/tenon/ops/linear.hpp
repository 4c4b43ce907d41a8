// linear: Y = X Wᵀ + b.
#pragma once

#include <optional>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/weight.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_linear(const Sizes<2>& out, const Sizes<2>& in, const Sizes<2>& weight, const Sizes<1>* bias) {
  check_shape("linear", "weight", weight, Sizes<2>{out[1], in[1]}, "(columns of out, columns of in)");
  check_shape("linear", "out", out, Sizes<2>{in[0], weight[0]}, "(rows of in, rows of weight)");
  if (bias != nullptr) check_shape("linear", "bias", *bias, Sizes<1>{weight[0]}, "(rows of weight)");
}
}  // namespace detail

/// out = in · weightᵀ + bias: out (m, n), in (m, k), weight (n, k) as PyTorch's nn.Linear keeps it, bias (n) or
/// std::nullopt. Products are summed in float (double for double), the bias joins that sum, and it is rounded once.
/// The order of summation depends on m unless the context is batch-invariant. k = 0 gives the bias, or zeros.
/// Weight and bias may be float16 or bfloat16 where T is float: they widen exactly. Any strides; `out` must not
/// overlap an input. Throws ShapeError.
template <FloatElement T, WeightFor<T> W>
void linear(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const T, 2, Cpu>> in,
            View<W, 2, Cpu> weight,
            std::type_identity_t<std::optional<View<const std::remove_const_t<W>, 1, Cpu>>> bias = std::nullopt);
template <FloatElement T, WeightFor<T> W>
void linear(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const T, 2, Cuda>> in,
            View<W, 2, Cuda> weight,
            std::type_identity_t<std::optional<View<const std::remove_const_t<W>, 1, Cuda>>> bias = std::nullopt);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/linear.hpp>
#endif
