// add: element-wise sum.
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
void check_add(const Sizes<Rank>& out, const Sizes<Rank>& a, const Sizes<Rank>& b) {
  check_shape("add", "a", a, out, "as out");
  check_shape("add", "b", b, out, "as out");
}
}  // namespace detail

/// out = a + b, formed in float (double for double) and rounded once. All three have one shape and any strides.
/// `out` may be `a` or `b` itself, but must not overlap them otherwise. Throws ShapeError.
template <FloatElement T, std::size_t Rank>
void add(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> a,
         std::type_identity_t<View<const T, Rank, Cpu>> b);
template <FloatElement T, std::size_t Rank>
void add(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> a,
         std::type_identity_t<View<const T, Rank, Cuda>> b);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/add.hpp>
#endif
