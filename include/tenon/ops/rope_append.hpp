// rope_append: rotates queries and keys of new tokens, and puts keys and values where a cache keeps them.
#pragma once

#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_rope_append(const Sizes<3>& q_out, const Sizes<3>& k_out, const Sizes<3>& v_out, const Sizes<3>& q,
                              const Sizes<3>& k, const Sizes<3>& v, const Sizes<2>& cos, const Sizes<2>& sin) {
  check_shape("rope_append", "k", k, Sizes<3>{q[0], k[1], q[2]}, "(tokens of q, kv heads, last size of q)");
  check_shape("rope_append", "v", v, Sizes<3>{q[0], v[1], v[2]}, "(tokens of q, kv heads, dv)");
  check_shape("rope_append", "v_out", v_out, v, "as v");
  check_rope(q_out, q, cos, sin);
  check_rope(k_out, k, cos, sin);
}
}  // namespace detail

/// q_out = rope(q), k_out = rope(k), v_out = v: q (tokens, heads, d), k (tokens, kv heads, d), v (tokens, kv heads, dv),
/// with the table of rope_table; every output has the shape of its input. The same values as `rope` and `rearrange`. Any
/// strides; q_out may be q itself; outputs must not overlap anything else. Throws as those two.
template <FloatElement T>
void rope_append(Context<Cpu>& ctx, View<T, 3, Cpu> q_out, std::type_identity_t<View<T, 3, Cpu>> k_out,
                 std::type_identity_t<View<T, 3, Cpu>> v_out, std::type_identity_t<View<const T, 3, Cpu>> q,
                 std::type_identity_t<View<const T, 3, Cpu>> k, std::type_identity_t<View<const T, 3, Cpu>> v,
                 View<const float, 2, Cpu> cos, View<const float, 2, Cpu> sin);
template <FloatElement T>
void rope_append(Context<Cuda>& ctx, View<T, 3, Cuda> q_out, std::type_identity_t<View<T, 3, Cuda>> k_out,
                 std::type_identity_t<View<T, 3, Cuda>> v_out, std::type_identity_t<View<const T, 3, Cuda>> q,
                 std::type_identity_t<View<const T, 3, Cuda>> k, std::type_identity_t<View<const T, 3, Cuda>> v,
                 View<const float, 2, Cuda> cos, View<const float, 2, Cuda> sin);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/rope_append.hpp>
#endif
