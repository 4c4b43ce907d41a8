// embedding: rows of a table, picked by index.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/weight.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_embedding(const Sizes<2>& out, const Sizes<1>& index, const Sizes<2>& weight) {
  check_shape("embedding", "out", out, Sizes<2>{index[0], weight[1]}, "(size of index, columns of weight)");
}
}  // namespace detail

/// out[i] = weight[index[i]]: out (n, dim), index (n), weight (vocabulary, dim). Any strides; `out` must not overlap
/// `weight`. Throws ShapeError, and IndexError for an index outside [0, vocabulary) before anything is written.
template <FloatElement T, WeightFor<T> W>
void embedding(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const std::int64_t, 1, Cpu>> index,
               View<W, 2, Cpu> weight);
template <FloatElement T, WeightFor<T> W>
void embedding(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const std::int64_t, 1, Cuda>> index,
               View<W, 2, Cuda> weight);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/embedding.hpp>
#endif
