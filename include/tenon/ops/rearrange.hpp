// rearrange: copies between layouts.
#pragma once

#include <cstddef>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

/// out = in, element by element, for one shape and any strides: makes tensors contiguous, transposes, packs slices.
/// Every dtype. `out` must not overlap `in`. Throws ShapeError.
template <Element T, std::size_t Rank>
void rearrange(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> in);
template <Element T, std::size_t Rank>
void rearrange(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> in);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/rearrange.hpp>
#endif
