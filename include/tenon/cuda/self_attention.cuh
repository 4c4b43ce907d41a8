// self_attention on CUDA: the choice of kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <type_traits>

#include <tenon/cuda/attention_plain.cuh>
#include <tenon/cuda/attention_prefill.cuh>
#include <tenon/cuda/attention_split.cuh>
#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/self_attention.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Up to so many queries of a head, the keys are split over the card.
inline constexpr std::int64_t few_queries = 16;

template <class T>
AttentionStrides attention_strides(const View<T, 3, Cuda>& x) {
  return {x.stride(0), x.stride(1), x.stride(2)};
}
/// Whether rows are contiguous and lie at multiples of 16 bytes.
template <class T>
bool has_aligned_rows(const View<T, 3, Cuda>& x) {
  constexpr auto pack = static_cast<std::int64_t>(16 / sizeof(T));
  return x.stride(2) == 1 && keeps_packs(x.size(0), x.stride(0), pack) && keeps_packs(x.size(1), x.stride(1), pack) &&
         is_aligned(x.data(), 16);
}

}  // namespace detail

template <FloatElement T>
void self_attention(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> q,
                    std::type_identity_t<View<const T, 3, Cuda>> k, std::type_identity_t<View<const T, 3, Cuda>> v,
                    double scale, std::int64_t window) {
  detail::check_self_attention(out.sizes(), q.sizes(), k.sizes(), v.sizes(), scale, window);
  detail::check_output("self_attention", "out", out.layout());
  detail::check_devices(ctx, "self_attention", out.data(), q.data(), k.data(), v.data());
  if (out.empty()) return;
  using K = detail::kernel_t<T>;
  detail::AttentionArguments<K> a;
  a.out = detail::kernel_pointer(out.data());
  a.q = detail::kernel_pointer(q.data());
  a.k = detail::kernel_pointer(k.data());
  a.v = detail::kernel_pointer(v.data());
  a.out_strides = detail::attention_strides(out);
  a.q_strides = detail::attention_strides(q);
  a.k_strides = detail::attention_strides(k);
  a.v_strides = detail::attention_strides(v);
  a.tokens = q.size(0);
  a.kv_tokens = k.size(0);
  a.heads = q.size(1);
  a.group = q.size(1) / k.size(1);
  a.d = q.size(2);
  a.dv = v.size(2);
  a.window = window == 0 ? a.tokens + a.kv_tokens : std::min(window, a.tokens + a.kv_tokens);
  a.scale = static_cast<detail::compute_t<K>>(scale * std::numbers::log2e);

  const bool aligned = detail::has_aligned_rows(out) && detail::has_aligned_rows(q) && detail::has_aligned_rows(k) &&
                       detail::has_aligned_rows(v);
  if (a.tokens <= detail::few_queries && detail::launch_attention_split(ctx, a, aligned)) return;
  if constexpr (sizeof(T) == 2) {
    if (aligned && detail::launch_attention_prefill(ctx, a)) return;
  }
  detail::launch_attention_plain(ctx, a);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
