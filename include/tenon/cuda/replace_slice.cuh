// replace_slice on CUDA: a copy whose place is read on the device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/replace_slice.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Copies every pack of a walk over the rows of x that are replaced and `rows`, and `tail` elements behind the only row, where
/// [begin, end) names `count` rows of `size`. Bits: an unsigned type of the size of the elements.
template <class Bits, int P>
__global__ void __launch_bounds__(map_threads)
    replace_slice_kernel(const __grid_constant__ Walk<2> walk, std::int64_t packs, std::int64_t tail, Bits* x,
                         std::int64_t row_stride, const Bits* rows, const std::int64_t* begin, const std::int64_t* end,
                         std::int64_t count, std::int64_t size) {
  wait_for_previous();
  const std::int64_t first = *begin;
  const std::int64_t last = *end;
  if (first < 0 || first > last || last > size || last - first != count) return;
  Bits* to = x + first * row_stride;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * map_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x; i < packs; i += step) {
    const Offsets<2> at = locate(walk, i);
    store_pack(to + at.of[0] * P, load_pack<P>(rows + at.of[1] * P));
  }
  if constexpr (P > 1) {
    if (blockIdx.x == 0 && threadIdx.x < tail) to[packs * P + threadIdx.x] = rows[packs * P + threadIdx.x];
  }
}

}  // namespace detail

template <PointwiseElement T>
void replace_slice(Context<Cuda>& ctx, View<T, 4, Cuda> x, std::type_identity_t<View<const T, 4, Cuda>> rows,
                   View<const std::int64_t, 1, Cuda> begin, View<const std::int64_t, 1, Cuda> end) {
  detail::check_replace_slice(x.sizes(), rows.sizes(), begin.sizes(), end.sizes());
  detail::check_output("replace_slice", "x", x.layout());
  detail::check_devices(ctx, "replace_slice", x.data(), rows.data(), begin.data(), end.data());
  if (rows.empty() || rows.size(0) > x.size(0)) return;
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
  constexpr int pack = detail::pack_size<Bits>;
  auto* to = reinterpret_cast<Bits*>(x.data());
  const auto* from = reinterpret_cast<const Bits*>(rows.data());
  const detail::StridedLayout layouts[2] = {detail::strided(Layout<4>(rows.sizes(), x.strides())),
                                            detail::strided(rows.layout())};
  const detail::Walk<2> walk = detail::collapse<2>(layouts);
  detail::LaunchShape shape;
  shape.block = dim3(detail::map_threads);
  shape.dependent = true;
  const auto start = [&](auto kernel, const detail::Walk<2>& items, std::int64_t tail) {
    const std::int64_t count = items.count();
    shape.grid =
        dim3(detail::grid_blocks(std::max<std::int64_t>(count, 1), detail::map_threads, std::int64_t{1} << 30));
    detail::launch(ctx, "replace_slice", shape, kernel, items, count, tail, to, x.stride(0), from, begin.data(),
                   end.data(), rows.size(0), x.size(0));
  };
  // The place may be any row of x.
  const bool packs = detail::keeps_packs(x.size(0), x.stride(0), pack) &&
                     detail::has_packs(walk, 0, to, sizeof(Bits), pack) &&
                     detail::has_packs(walk, 1, from, sizeof(Bits), pack);
  if (packs) {
    start(detail::replace_slice_kernel<Bits, pack>, detail::in_packs(walk, pack),
          walk.rank == 1 ? walk.sizes[0] % pack : 0);
  } else {
    start(detail::replace_slice_kernel<Bits, 1>, walk, 0);
  }
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
