// Vectors of float for CPU kernels: one vocabulary, three instruction sets, all of them compiled in.
//
// Namespaces tenon::detail::simd_portable, simd_avx2 and simd_avx512 hold the same names:
//
//   Level                              tag of the namespace; Level::value is its SimdLevel
//   Float, width                       a vector and how many floats it holds (std::int64_t)
//   zero() broadcast(x)
//   load(p) load(p, count)             p: float, bfloat16 or float16, any alignment; the first `count` (0 … width)
//   store(p, v) store(p, v, count)     elements, the others read as 0 and are not written. Narrowing rounds to nearest
//                                      even and keeps NaN
//   stream(p, v)                       the same for float and a p aligned to the vector, past the caches where that is
//                                      possible; what other threads are to see needs stream_fence() after it
//   add sub mul div sqrt               IEEE operations, lane by lane
//   fma(a, b, c)                       a * b + c, rounded once (portable: twice, unless the target has FMA)
//   min(a, b) max(a, b)                b where either is NaN
//   neg(a)
//   any_nan(a)                         bool
//   sum(v) max_element(v)              of all lanes, in a fixed order
//   rounded_to<T>(v)                   v rounded to T (float16, bfloat16; float: unchanged), as float
//   exp(v)                             within 2 ulp; exp(-inf) = 0, exp(inf) = inf, NaN stays NaN
//   silu(v)                            v / (1 + exp(-v)), NaN for -inf as that formula says
//   transpose(rows)                    Float (&rows)[width], a square block
//   sum_each(rows)                     the sums of the lanes of rows[0], rows[1], …; changes rows
//   mul_complex(a, b)                  neighbouring lanes are the real and the imaginary part of a number
//
// Kernels take the Level as their first parameter and are found by it:
//
//   visit_simd_level(ctx.simd_level(), [&](auto level) { swiglu_row(level, out, gate, up, n); });
//
// See foreach_level.hpp for how a kernel is compiled for every level.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <tenon/core/config.hpp>
#include <tenon/core/float16.hpp>
#include <tenon/runtime/simd_level.hpp>

#define TENON_SIMD_BODY <tenon/cpu/simd/vector_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Calls `visitor(level)` with the Level tag of the namespace that holds the kernels for `level`.
template <class Visitor>
decltype(auto) visit_simd_level(SimdLevel level, Visitor&& visitor) {
#if defined(__x86_64__)
  if (level == SimdLevel::avx512) return visitor(simd_avx512::Level{});
  if (level == SimdLevel::avx2) return visitor(simd_avx2::Level{});
#else
  static_cast<void>(level);
#endif
  return visitor(simd_portable::Level{});
}

}  // namespace detail
TENON_NAMESPACE_END
