// rms_norm: root-mean-square normalisation of rows.
#pragma once

#include <cmath>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/format.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_rms_norm(const Sizes<2>& out, const Sizes<2>& in, const Sizes<1>& weight, double eps) {
  check_shape("rms_norm", "out", out, in, "as in");
  check_shape("rms_norm", "weight", weight, Sizes<1>{in[1]}, "(columns of in)");
  if (!(eps >= 0.0) || std::isinf(eps)) {
    throw ValueError("rms_norm: eps is " + detail::number_text(eps) + ", not a finite number of at least 0");
  }
}
}  // namespace detail

/// out[i] = weight * (in[i] / sqrt(mean(in[i]²) + eps)): out and in (rows, dim), weight (dim). Zhang and Sennrich 2019.
/// The mean and the quotient are formed in float (double for double), the quotient is rounded to T, and then multiplied
/// by the weight and rounded again, as Hugging Face's models do. Any strides; `out` may be `in` itself.
/// Throws ShapeError, and ValueError for a negative or infinite eps.
template <FloatElement T>
void rms_norm(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const T, 2, Cpu>> in,
              std::type_identity_t<View<const T, 1, Cpu>> weight, double eps);
template <FloatElement T>
void rms_norm(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const T, 2, Cuda>> in,
              std::type_identity_t<View<const T, 1, Cuda>> weight, double eps);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/rms_norm.hpp>
#endif
