// sliced_softmax: softmax over the first elements of each row, the rest copied.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_sliced_softmax(const Sizes<3>& out, const Sizes<3>& in, const Sizes<1>& prefix) {
  check_shape("sliced_softmax", "out", out, in, "as in");
  check_shape("sliced_softmax", "prefix", prefix, Sizes<1>{1});
}
/// For prefixes that the host can see.
inline void check_sliced_softmax_prefix(std::int64_t prefix, std::int64_t columns) {
  if (prefix < 0 || prefix > columns) {
    throw ValueError("sliced_softmax: prefix is " + std::to_string(prefix) + ", not within 0 and the " +
                     std::to_string(columns) + " columns");
  }
}
}  // namespace detail

/// Over the first prefix[0] elements of each row: out[i] = exp(in[i] - max) / Σ exp(in[j] - max), formed in float (double
/// for double) and rounded to T once; the other elements are copied. A row whose first elements are all -infinity, or have
/// a NaN or +infinity among them, gives NaN there. in and out (batch, m, n), any strides; `out` may be `in` itself. `prefix`
/// lies where the tensors lie, so that a captured graph reads it anew at every launch. On the CPU a prefix outside 0 … n
/// throws ValueError; on a GPU nothing can be thrown from there: it is taken as 0 or n.
template <FloatElement T>
void sliced_softmax(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
                    View<const std::int64_t, 1, Cpu> prefix);
template <FloatElement T>
void sliced_softmax(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
                    View<const std::int64_t, 1, Cuda> prefix);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/sliced_softmax.hpp>
#endif
