// add on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/cpu/elementwise.hpp>
#include <tenon/ops/add.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T, std::size_t Rank>
void add(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> a,
         std::type_identity_t<View<const T, Rank, Cpu>> b) {
  detail::check_add(out.sizes(), a.sizes(), b.sizes());
  detail::check_output("add", "out", out.layout());
  constexpr std::int64_t grain = 32768;  // elements that are worth a thread
  detail::for_each_stretch<T, Rank>(ctx, out, a, b, grain, [&](T* to, const T* x, const T* y, std::int64_t n) {
    if constexpr (std::is_same_v<T, double>) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] + y[i];
    } else {
      detail::visit_simd_level(ctx.simd_level(), [&](auto level) { add_row(level, to, x, y, n); });
    }
  });
}

TENON_NAMESPACE_END
