// rope_append on the CPU: two rotations and a copy.
#pragma once

#include <type_traits>

#include <tenon/ops/rearrange.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/rope_append.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T>
void rope_append(Context<Cpu>& ctx, View<T, 3, Cpu> q_out, std::type_identity_t<View<T, 3, Cpu>> k_out,
                 std::type_identity_t<View<T, 3, Cpu>> v_out, std::type_identity_t<View<const T, 3, Cpu>> q,
                 std::type_identity_t<View<const T, 3, Cpu>> k, std::type_identity_t<View<const T, 3, Cpu>> v,
                 View<const float, 2, Cpu> cos, View<const float, 2, Cpu> sin) {
  // Everything is checked before anything is written.
  detail::check_rope_append(q_out.sizes(), k_out.sizes(), v_out.sizes(), q.sizes(), k.sizes(), v.sizes(), cos.sizes(),
                            sin.sizes());
  detail::check_output("rope_append", "q_out", q_out.layout());
  detail::check_output("rope_append", "k_out", k_out.layout());
  detail::check_output("rope_append", "v_out", v_out.layout());
  rope<T>(ctx, q_out, q, cos, sin);
  rope<T>(ctx, k_out, k, cos, sin);
  rearrange<T, 3>(ctx, v_out, v);
}

TENON_NAMESPACE_END
