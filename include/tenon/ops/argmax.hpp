// argmax: the largest element of each row, and where it is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
template <std::size_t Rank>
void check_argmax(const Sizes<Rank>& index, const Sizes<Rank>& value, const Sizes<Rank>& in) {
  static_assert(Rank > 0, "argmax reduces the last dimension, so it needs one");
  Sizes<Rank> expected = in;
  expected[Rank - 1] = 1;
  check_shape("argmax", "index", index, expected, "(in, with 1 as its last size)");
  check_shape("argmax", "value", value, expected, "(in, with 1 as its last size)");
  if (in[Rank - 1] == 0 && checked_numel(expected) != 0) {
    throw ShapeError("argmax: in has shape " + shape_string(in) + ", and an empty row has no largest element");
  }
}
}  // namespace detail

/// Largest element along the last dimension, kept as a dimension of size 1: in (…, n), index (…, 1), value (…, 1).
/// The lowest index wins among equal elements (-0 equals +0). A NaN counts as larger than every number, so a row that
/// holds one gives its first NaN, as in PyTorch. Any strides. Throws ShapeError, also for n = 0.
template <FloatElement T, std::size_t Rank>
void argmax(Context<Cpu>& ctx, View<std::int64_t, Rank, Cpu> index, View<T, Rank, Cpu> value,
            std::type_identity_t<View<const T, Rank, Cpu>> in);
template <FloatElement T, std::size_t Rank>
void argmax(Context<Cuda>& ctx, View<std::int64_t, Rank, Cuda> index, View<T, Rank, Cuda> value,
            std::type_identity_t<View<const T, Rank, Cuda>> in);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/argmax.hpp>
#endif
