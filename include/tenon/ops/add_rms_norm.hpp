// add_rms_norm: a residual sum and the norm of it in one pass.
#pragma once

#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_add_rms_norm(const Sizes<2>& sum, const Sizes<2>& out, const Sizes<2>& a, const Sizes<2>& b,
                               const Sizes<1>& weight, double eps) {
  check_shape("add_rms_norm", "sum", sum, a, "as a");
  check_shape("add_rms_norm", "b", b, a, "as a");
  check_rms_norm(out, a, weight, eps);
}
}  // namespace detail

/// sum = a + b, out = rms_norm(sum): all (rows, dim) but weight (dim). The same values, rounded at the same points, as
/// `add` followed by `rms_norm`. Any strides; `sum` may be `a` or `b` itself, `out` may be `b`, and `sum` and `out` must
/// not overlap. Throws as those two.
template <FloatElement T>
void add_rms_norm(Context<Cpu>& ctx, View<T, 2, Cpu> sum, std::type_identity_t<View<T, 2, Cpu>> out,
                  std::type_identity_t<View<const T, 2, Cpu>> a, std::type_identity_t<View<const T, 2, Cpu>> b,
                  std::type_identity_t<View<const T, 1, Cpu>> weight, double eps);
template <FloatElement T>
void add_rms_norm(Context<Cuda>& ctx, View<T, 2, Cuda> sum, std::type_identity_t<View<T, 2, Cuda>> out,
                  std::type_identity_t<View<const T, 2, Cuda>> a, std::type_identity_t<View<const T, 2, Cuda>> b,
                  std::type_identity_t<View<const T, 1, Cuda>> weight, double eps);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/add_rms_norm.hpp>
#endif
