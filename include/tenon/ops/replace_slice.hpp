// replace_slice: writes rows into a tensor, at a place that is read from memory.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/pointwise.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_replace_slice(const Sizes<4>& x, const Sizes<4>& rows, const Sizes<1>& begin, const Sizes<1>& end) {
  check_shape("replace_slice", "rows", rows, Sizes<4>{rows[0], x[1], x[2], x[3]}, "(any, as x)");
  check_shape("replace_slice", "begin", begin, Sizes<1>{1});
  check_shape("replace_slice", "end", end, Sizes<1>{1});
}
/// For places that the host can see. `count` rows go into x of `size` rows.
inline void check_replace_slice_place(std::int64_t begin, std::int64_t end, std::int64_t count, std::int64_t size) {
  if (begin < 0 || begin > end || end > size || end - begin != count) {
    throw ValueError("replace_slice: [" + std::to_string(begin) + ", " + std::to_string(end) + ") does not name " +
                     std::to_string(count) + " rows of " + std::to_string(size));
  }
}
}  // namespace detail

/// x[begin[0] … end[0] - 1] = rows, along the first dimension: x (n, …), rows (count, …), end - begin = count. Any strides;
/// `rows` must not overlap x. `begin` and `end` lie where the tensors lie, so that a captured graph reads them anew at
/// every launch. On the CPU a place outside x, or of another length, throws ValueError; on a GPU nothing can be thrown
/// from there: then nothing is written.
template <PointwiseElement T>
void replace_slice(Context<Cpu>& ctx, View<T, 4, Cpu> x, std::type_identity_t<View<const T, 4, Cpu>> rows,
                   View<const std::int64_t, 1, Cpu> begin, View<const std::int64_t, 1, Cpu> end);
template <PointwiseElement T>
void replace_slice(Context<Cuda>& ctx, View<T, 4, Cuda> x, std::type_identity_t<View<const T, 4, Cuda>> rows,
                   View<const std::int64_t, 1, Cuda> begin, View<const std::int64_t, 1, Cuda> end);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/replace_slice.hpp>
#endif
