// swiglu on the CPU.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/cpu/elementwise.hpp>
#include <tenon/ops/swiglu.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T, std::size_t Rank>
void swiglu(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> gate,
            std::type_identity_t<View<const T, Rank, Cpu>> up) {
  detail::check_swiglu(out.sizes(), gate.sizes(), up.sizes());
  detail::check_output("swiglu", "out", out.layout());
  constexpr std::int64_t grain = 8192;  // elements that are worth a thread: an exponential and a division each
  detail::for_each_stretch<T, Rank>(ctx, out, gate, up, grain, [&](T* to, const T* x, const T* y, std::int64_t n) {
    if constexpr (std::is_same_v<T, double>) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = x[i] / (1.0 + std::exp(-x[i])) * y[i];
    } else {
      detail::visit_simd_level(ctx.simd_level(), [&](auto level) { swiglu_row(level, to, x, y, n); });
    }
  });
}

TENON_NAMESPACE_END
