// sliced_softmax on the CPU: three passes over a row, which stays in the cache between them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/sliced_softmax.hpp>
#include <tenon/runtime/parallel.hpp>

#define TENON_SIMD_BODY <tenon/cpu/sliced_softmax_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

inline void softmax_row_double(double* out, const double* in, std::int64_t n) {
  if (n == 0) return;
  const double largest = *std::max_element(in, in + n);
  double sum = 0.0;
  for (std::int64_t i = 0; i < n; ++i) sum += out[i] = std::exp(in[i] - largest);
  for (std::int64_t i = 0; i < n; ++i) out[i] /= sum;
}

}  // namespace detail

template <FloatElement T>
void sliced_softmax(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
                    View<const std::int64_t, 1, Cpu> prefix) {
  detail::check_sliced_softmax(out.sizes(), in.sizes(), prefix.sizes());
  detail::check_output("sliced_softmax", "out", out.layout());
  const std::int64_t n = prefix(0);
  detail::check_sliced_softmax_prefix(n, in.size(2));
  if (out.empty()) return;
  auto scope = ctx.workspace().scope();
  const auto from = detail::with_contiguous_rows<T, 3>(ctx, scope, in);
  const bool direct = detail::has_contiguous_rows(out);
  const auto result = direct ? out : detail::scratch_tensor<T, 3>(scope, out.sizes());
  const std::int64_t rows = out.size(1);
  const auto rest = static_cast<std::size_t>(out.size(2) - n) * sizeof(T);
  constexpr std::int64_t grain = 8192;  // elements that are worth a thread
  parallel_for(ctx, out.size(0) * rows, ceil_div(grain, out.size(2)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      T* to = result.ptr(i / rows, i % rows, 0);
      const T* row = from.ptr(i / rows, i % rows, 0);
      if constexpr (std::is_same_v<T, double>) {
        detail::softmax_row_double(to, row, n);
      } else {
        detail::visit_simd_level(ctx.simd_level(), [&](auto level) { softmax_row(level, to, row, n); });
      }
      if (to != row && rest > 0) std::memcpy(to + n, row + n, rest);
    }
  });
  if (!direct) rearrange<T, 3>(ctx, out, result);
}

TENON_NAMESPACE_END
