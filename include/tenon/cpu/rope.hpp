// rope on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/runtime/parallel.hpp>

#define TENON_SIMD_BODY <tenon/cpu/rope_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

inline void rope_row_double(double* out, const double* in, const float* cos, const float* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; ++i) {
    const double x = in[i];
    const double y = in[half + i];
    out[i] = x * static_cast<double>(cos[i]) - y * static_cast<double>(sin[i]);
    out[half + i] = y * static_cast<double>(cos[i]) + x * static_cast<double>(sin[i]);
  }
}

}  // namespace detail

inline void rope_table(Context<Cpu>& ctx, View<float, 2, Cpu> cos, View<float, 2, Cpu> sin,
                       View<const std::int64_t, 1, Cpu> pos_ids, double theta) {
  detail::check_rope_table(cos.sizes(), sin.sizes(), pos_ids.sizes(), theta);
  detail::check_output("rope_table", "cos", cos.layout());
  detail::check_output("rope_table", "sin", sin.layout());
  if (cos.empty()) return;
  const std::int64_t half = cos.size(1);
  auto scope = ctx.workspace().scope();
  auto* frequencies = scope.allocate<float>(half);
  for (std::int64_t i = 0; i < half; ++i) {
    // The roundings of PyTorch's float32: exponent, power and reciprocal are floats, and so is the angle below.
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
    frequencies[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  constexpr std::int64_t grain = 512;  // angles that are worth a thread
  parallel_for(ctx, pos_ids.size(0), ceil_div(grain, half), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(pos_ids(t)) * frequencies[i];
        cos(t, i) = static_cast<float>(std::cos(static_cast<double>(angle)));
        sin(t, i) = static_cast<float>(std::sin(static_cast<double>(angle)));
      }
    }
  });
}

template <FloatElement T>
void rope(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
          View<const float, 2, Cpu> cos, View<const float, 2, Cpu> sin) {
  detail::check_rope(out.sizes(), in.sizes(), cos.sizes(), sin.sizes());
  detail::check_output("rope", "out", out.layout());
  if (out.empty()) return;
  auto scope = ctx.workspace().scope();
  const auto x = detail::with_contiguous_rows<T, 3>(ctx, scope, in);
  const auto c = detail::with_contiguous_rows<float, 2>(ctx, scope, cos);
  const auto s = detail::with_contiguous_rows<float, 2>(ctx, scope, sin);
  const bool direct = detail::has_contiguous_rows(out);
  const auto result = direct ? out : detail::scratch_tensor<T, 3>(scope, out.sizes());
  const std::int64_t heads = in.size(1);
  const std::int64_t half = in.size(2) / 2;
  constexpr std::int64_t grain = 16384;  // elements that are worth a thread
  parallel_for(ctx, in.size(0), ceil_div(grain, heads * in.size(2)), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        if constexpr (std::is_same_v<T, double>) {
          detail::rope_row_double(result.ptr(t, h, 0), x.ptr(t, h, 0), c.ptr(t, 0), s.ptr(t, 0), half);
        } else {
          detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
            rope_row(level, result.ptr(t, h, 0), x.ptr(t, h, 0), c.ptr(t, 0), s.ptr(t, 0), half);
          });
        }
      }
    }
  });
  if (!direct) rearrange<T, 3>(ctx, out, result);
}

template <FloatElement T>
void rope(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
          View<const std::int64_t, 1, Cpu> pos_ids, double theta) {
  detail::check_shape("rope", "pos_ids", pos_ids.sizes(), Sizes<1>{in.size(0)}, "(tokens of in)");
  auto scope = ctx.workspace().scope();
  const Sizes<2> sizes{in.size(0), in.size(2) / 2};
  const auto cos = detail::scratch_tensor<float, 2>(scope, sizes);
  const auto sin = detail::scratch_tensor<float, 2>(scope, sizes);
  detail::check_rope(out.sizes(), in.sizes(), cos.sizes(), sin.sizes());
  detail::check_output("rope", "out", out.layout());
  rope_table(ctx, cos, sin, pos_ids, theta);
  rope<T>(ctx, out, in, cos, sin);
}

TENON_NAMESPACE_END
