// rms_norm on the CPU: two passes over a row, which stays in the cache between them.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/runtime/parallel.hpp>

#define TENON_SIMD_BODY <tenon/cpu/rms_norm_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

inline void rms_norm_row_double(double* out, const double* in, const double* weight, std::int64_t n, double eps) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += in[i] * in[i];
  const double norm = std::sqrt(sum / static_cast<double>(n) + eps);
  for (std::int64_t i = 0; i < n; ++i) out[i] = in[i] / norm * weight[i];
}

}  // namespace detail

template <FloatElement T>
void rms_norm(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const T, 2, Cpu>> in,
              std::type_identity_t<View<const T, 1, Cpu>> weight, double eps) {
  detail::check_rms_norm(out.sizes(), in.sizes(), weight.sizes(), eps);
  detail::check_output("rms_norm", "out", out.layout());
  if (out.empty()) return;
  auto scope = ctx.workspace().scope();
  const auto rows = detail::with_contiguous_rows<T, 2>(ctx, scope, in);
  const auto factors = detail::with_contiguous_rows<T, 1>(ctx, scope, weight);
  const bool direct = detail::has_contiguous_rows(out);
  const auto result = direct ? out : detail::scratch_tensor<T, 2>(scope, out.sizes());
  const std::int64_t dim = in.size(1);
  constexpr std::int64_t grain = 16384;  // elements that are worth a thread
  parallel_for(ctx, in.size(0), ceil_div(grain, dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      if constexpr (std::is_same_v<T, double>) {
        detail::rms_norm_row_double(result.ptr(i, 0), rows.ptr(i, 0), factors.data(), dim, eps);
      } else {
        detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
          rms_norm_row(level, result.ptr(i, 0), rows.ptr(i, 0), factors.data(), dim, static_cast<float>(eps));
        });
      }
    }
  });
  if (!direct) rearrange<T, 2>(ctx, out, result);
}

TENON_NAMESPACE_END
