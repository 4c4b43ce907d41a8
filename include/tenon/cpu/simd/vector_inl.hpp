// The vocabulary of simd.hpp for one level: what the instruction set decides, then what follows from it.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

#if TENON_SIMD_WIDTH == 16
#include <tenon/cpu/simd/vector_avx512_inl.hpp>
#elif TENON_SIMD_WIDTH == 8
#include <tenon/cpu/simd/vector_avx2_inl.hpp>
#else
#include <tenon/cpu/simd/vector_portable_inl.hpp>
#endif

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

template <class T>
TENON_SIMD_INLINE Float rounded_to(Float v) {
  if constexpr (std::is_same_v<T, float>) {
    return v;
  } else if constexpr (std::is_same_v<T, bfloat16>) {
    return round_to_bfloat16(v);
  } else {
    static_assert(std::is_same_v<T, float16>, "vectors hold float, float16 and bfloat16");
    return round_to_float16(v);
  }
}

// exp(x) = 2^n exp(r) with n the integer next to x / ln 2, so that |r| <= ln 2 / 2, and Taylor's polynomial of degree 7,
// whose truncation error there is below 2^-27. ln 2 is split in two, the upper part short enough for n * ln2_high to be
// exact. Arguments outside the clamp give infinity or 0 like its ends; min and max let NaN pass.
TENON_SIMD_INLINE Float exp(Float x) {
  x = min(broadcast(90.0f), max(broadcast(-105.0f), x));
  const Float n = round_to_integer(mul(x, broadcast(1.44269504f)));
  const Float r = fma(n, broadcast(-1.42860682e-6f), fma(n, broadcast(-0x1.62e4p-1f), x));
  Float y = broadcast(1.0f / 5040.0f);
  y = fma(y, r, broadcast(1.0f / 720.0f));
  y = fma(y, r, broadcast(1.0f / 120.0f));
  y = fma(y, r, broadcast(1.0f / 24.0f));
  y = fma(y, r, broadcast(1.0f / 6.0f));
  y = fma(y, r, broadcast(0.5f));
  y = fma(mul(y, r), r, r);
  return scale_by_power_of_2(add(y, broadcast(1.0f)), n);
}

TENON_SIMD_INLINE Float silu(Float x) { return div(x, add(broadcast(1.0f), exp(neg(x)))); }

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
