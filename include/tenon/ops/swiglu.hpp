// swiglu: the gated activation of LLaMA-family feed-forward blocks.
#pragma once

#include <cstddef>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
template <std::size_t Rank>
void check_swiglu(const Sizes<Rank>& out, const Sizes<Rank>& gate, const Sizes<Rank>& up) {
  check_shape("swiglu", "gate", gate, out, "as out");
  check_shape("swiglu", "up", up, out, "as out");
}
}  // namespace detail

/// out = up * silu(gate), silu(x) = x / (1 + exp(-x)). Shazeer 2020. silu is formed in float (double for double), on a
/// GPU to a few units in the last place, and rounded to T, then multiplied and rounded again, as Hugging Face's models do.
/// All three have one shape and any strides; `out` may be `gate` or `up` itself. Throws ShapeError.
template <FloatElement T, std::size_t Rank>
void swiglu(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> gate,
            std::type_identity_t<View<const T, Rank, Cpu>> up);
template <FloatElement T, std::size_t Rank>
void swiglu(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> gate,
            std::type_identity_t<View<const T, Rank, Cuda>> up);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/swiglu.hpp>
#endif
