// add_rms_norm on CUDA: one kernel, which keeps the sum in registers for the norm.
#pragma once

#include <type_traits>

#include <tenon/cuda/rms_norm.cuh>
#include <tenon/ops/add_rms_norm.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN

template <FloatElement T>
void add_rms_norm(Context<Cuda>& ctx, View<T, 2, Cuda> sum, std::type_identity_t<View<T, 2, Cuda>> out,
                  std::type_identity_t<View<const T, 2, Cuda>> a, std::type_identity_t<View<const T, 2, Cuda>> b,
                  std::type_identity_t<View<const T, 1, Cuda>> weight, double eps) {
  detail::check_add_rms_norm(sum.sizes(), out.sizes(), a.sizes(), b.sizes(), weight.sizes(), eps);
  detail::check_output("add_rms_norm", "sum", sum.layout());
  detail::check_output("add_rms_norm", "out", out.layout());
  detail::check_devices(ctx, "add_rms_norm", sum.data(), out.data(), a.data(), b.data(), weight.data());
  if (out.empty()) return;
  auto r = detail::norm_rows<T>(out, a, weight);
  r.sum = detail::kernel_pointer(sum.data());
  r.b = detail::kernel_pointer(b.data());
  r.sum_row = sum.stride(0);
  r.sum_column = sum.stride(1);
  r.b_row = b.stride(0);
  r.b_column = b.stride(1);
  detail::launch_norm<true>(ctx, "add_rms_norm", r, eps);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
