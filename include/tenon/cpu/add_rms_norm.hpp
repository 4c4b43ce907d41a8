// add_rms_norm on the CPU: the sum, and the norm of it.
#pragma once

#include <type_traits>

#include <tenon/ops/add.hpp>
#include <tenon/ops/add_rms_norm.hpp>
#include <tenon/ops/rms_norm.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T>
void add_rms_norm(Context<Cpu>& ctx, View<T, 2, Cpu> sum, std::type_identity_t<View<T, 2, Cpu>> out,
                  std::type_identity_t<View<const T, 2, Cpu>> a, std::type_identity_t<View<const T, 2, Cpu>> b,
                  std::type_identity_t<View<const T, 1, Cpu>> weight, double eps) {
  // Everything is checked before the sum is written.
  detail::check_add_rms_norm(sum.sizes(), out.sizes(), a.sizes(), b.sizes(), weight.sizes(), eps);
  detail::check_output("add_rms_norm", "sum", sum.layout());
  detail::check_output("add_rms_norm", "out", out.layout());
  add<T, 2>(ctx, sum, a, b);
  rms_norm<T>(ctx, out, sum, weight, eps);
}

TENON_NAMESPACE_END
