// self_attention: causal attention with grouped key and value heads.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/format.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_self_attention(const Sizes<3>& out, const Sizes<3>& q, const Sizes<3>& k, const Sizes<3>& v,
                                 double scale, std::int64_t window) {
  check_shape("self_attention", "k", k, Sizes<3>{k[0], k[1], q[2]}, "(kv tokens, kv heads, last size of q)");
  check_shape("self_attention", "v", v, Sizes<3>{k[0], k[1], v[2]}, "(kv tokens and kv heads of k, dv)");
  check_shape("self_attention", "out", out, Sizes<3>{q[0], q[1], v[2]}, "(tokens and heads of q, last size of v)");
  if (q[1] != 0 && (k[1] == 0 || q[1] % k[1] != 0)) {
    throw ShapeError("self_attention: q has shape " + shape_string(q) + " and k " + shape_string(k) +
                     ": the heads of q are not a multiple of the heads of k");
  }
  if (window < 0) throw ValueError("self_attention: window is " + std::to_string(window) + ", not 0 (none) or more");
  if (!std::isfinite(scale)) throw ValueError("self_attention: scale is " + detail::number_text(scale));
}
}  // namespace detail

/// out = softmax(scale · q kᵀ + mask) v for each head: q (tokens, heads, d), k (kv tokens, kv heads, d),
/// v (kv tokens, kv heads, dv), out (tokens, heads, dv). heads is a multiple of kv heads, and query head h reads kv head
/// h / (heads / kv heads). The mask is causal and aligned to the bottom right: query t sees the first
/// kv tokens - tokens + t + 1 keys, with a window of W > 0 the last W of these; a query that sees none gives zeros. Scores,
/// softmax and sums are float (double for double); the result is rounded once. NaN and infinity in a key or value reach the
/// queries that see it, and no others. On the CPU a query's result is bitwise the same alone, among others, and with any
/// number of threads. Any strides; `out` must not overlap an input. Throws ShapeError, and ValueError for a scale that is
/// not finite or a negative window.
template <FloatElement T>
void self_attention(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> q,
                    std::type_identity_t<View<const T, 3, Cpu>> k, std::type_identity_t<View<const T, 3, Cpu>> v,
                    double scale, std::int64_t window = 0);
template <FloatElement T>
void self_attention(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> q,
                    std::type_identity_t<View<const T, 3, Cuda>> k, std::type_identity_t<View<const T, 3, Cuda>> v,
                    double scale, std::int64_t window = 0);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/self_attention.hpp>
#endif
