// rope_append on CUDA: one kernel.
#pragma once

#include <type_traits>

#include <tenon/cuda/rope.cuh>
#include <tenon/ops/rope_append.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN

template <FloatElement T>
void rope_append(Context<Cuda>& ctx, View<T, 3, Cuda> q_out, std::type_identity_t<View<T, 3, Cuda>> k_out,
                 std::type_identity_t<View<T, 3, Cuda>> v_out, std::type_identity_t<View<const T, 3, Cuda>> q,
                 std::type_identity_t<View<const T, 3, Cuda>> k, std::type_identity_t<View<const T, 3, Cuda>> v,
                 View<const float, 2, Cuda> cos, View<const float, 2, Cuda> sin) {
  detail::check_rope_append(q_out.sizes(), k_out.sizes(), v_out.sizes(), q.sizes(), k.sizes(), v.sizes(), cos.sizes(),
                            sin.sizes());
  detail::check_output("rope_append", "q_out", q_out.layout());
  detail::check_output("rope_append", "k_out", k_out.layout());
  detail::check_output("rope_append", "v_out", v_out.layout());
  detail::check_devices(ctx, "rope_append", q_out.data(), k_out.data(), v_out.data(), q.data(), k.data(), v.data(),
                        cos.data(), sin.data());
  detail::launch_rope(ctx, "rope_append", q.size(0), detail::heads_of<T>(q_out, q, q.size(2) / 2),
                      detail::heads_of<T>(k_out, k, k.size(2) / 2), detail::heads_of<T>(v_out, v, v.size(2)), cos, sin);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
