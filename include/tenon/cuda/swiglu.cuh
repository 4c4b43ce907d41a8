// swiglu on CUDA.
#pragma once

#include <cmath>
#include <cstddef>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/swiglu.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// x / (1 + exp(-x)), not rounded. NaN for -infinity, as that formula says.
__device__ __forceinline__ float silu(float x) {
  // The reciprocal, in a fraction of a division's instructions, is good to one unit in the last place, and x / (1 + exp(-x))
  // to about four. Below -87.3 it is subnormal, and below -88.7, where exp overflows, zero.
  float reciprocal = 0;
  asm("rcp.approx.f32 %0, %1;" : "=f"(reciprocal) : "f"(1.0f + expf(-x)));
  return x * reciprocal;
}
__device__ __forceinline__ double silu(double x) { return x / (1.0 + exp(-x)); }

struct SwigluOp {
  template <class K>
  __device__ __forceinline__ K operator()(K gate, K up) const {
    return narrow<K>(rounded<K>(silu(widen(gate))) * widen(up));
  }
};

}  // namespace detail

template <FloatElement T, std::size_t Rank>
void swiglu(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> gate,
            std::type_identity_t<View<const T, Rank, Cuda>> up) {
  detail::check_swiglu(out.sizes(), gate.sizes(), up.sizes());
  detail::check_output("swiglu", "out", out.layout());
  detail::check_devices(ctx, "swiglu", out.data(), gate.data(), up.data());
  if (out.empty()) return;
  detail::map_elements(ctx, "swiglu", detail::SwigluOp{},
                       {detail::strided(out.layout()), detail::strided(gate.layout()), detail::strided(up.layout())},
                       detail::kernel_pointer(out.data()), detail::kernel_pointer(gate.data()),
                       detail::kernel_pointer(up.data()));
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
