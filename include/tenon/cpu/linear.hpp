// linear on the CPU: which of the three products serves a call.
//
//   gemv.hpp        few rows, and batch-invariant mode: limited by reading the weights
//   gemm.hpp        many rows: limited by arithmetic
//   eigen_gemm.hpp  many rows without vector instructions, and double
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/cpu/eigen_gemm.hpp>
#include <tenon/cpu/gemm.hpp>
#include <tenon/cpu/gemv.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/linear.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Up to this many rows dot products are at least as fast as packing and blocking (measured with AVX2 and AVX-512, where
/// they meet at 12 to 24 rows). In double the dot products have no vector kernel.
template <class T>
inline constexpr std::int64_t gemv_max_rows = std::same_as<T, double> ? 4 : 12;

template <class T, class W>
void linear_dispatch(Context<Cpu>& ctx, View<T, 2, Cpu> out, View<const T, 2, Cpu> in, View<const W, 2, Cpu> weight,
                     std::optional<View<const W, 1, Cpu>> bias) {
  const bool few = ctx.batch_invariant() || in.size(0) <= gemv_max_rows<T> || in.size(1) == 0;
  if constexpr (std::same_as<T, double>) {
    if (few) {
      linear_dot(ctx, out, in, weight, bias);
    } else {
      linear_eigen(ctx, out, in, weight, bias);
    }
  } else {
    visit_simd_level(ctx.simd_level(), [&](auto level) {
      if (few) {
        linear_gemv(level, ctx, out, in, weight, bias);
      } else if constexpr (decltype(level)::value == SimdLevel::portable) {
        linear_eigen(ctx, out, in, weight, bias);
      } else {
        linear_gemm(level, ctx, out, in, weight, bias);
      }
    });
  }
}

}  // namespace detail

template <FloatElement T, WeightFor<T> W>
void linear(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const T, 2, Cpu>> in,
            View<W, 2, Cpu> weight,
            std::type_identity_t<std::optional<View<const std::remove_const_t<W>, 1, Cpu>>> bias) {
  const Sizes<1> bias_sizes = bias ? bias->sizes() : Sizes<1>{};
  detail::check_linear(out.sizes(), in.sizes(), weight.sizes(), bias ? &bias_sizes : nullptr);
  detail::check_output("linear", "out", out.layout());
  if (out.empty()) return;
  using Weight = std::remove_const_t<W>;
  detail::linear_dispatch<T, Weight>(ctx, out, in, View<const Weight, 2, Cpu>(weight), bias);
}

TENON_NAMESPACE_END
