// embedding on CUDA: the indices are checked on the device first, then rows are gathered.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/embedding.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Widened where the types differ.
template <class K, class W>
__device__ __forceinline__ K weight_as(W value) {
  if constexpr (std::is_same_v<K, W>) {
    return value;
  } else {
    return widen(value);
  }
}
template <int P, class K, class W>
__device__ __forceinline__ void copy_weights(K* to, const W* from) {
  const Pack<W, P> pack = load_pack<P>(from);
  Pack<K, P> result;
#pragma unroll
  for (int i = 0; i < P; ++i) result.value[i] = weight_as<K>(pack.value[i]);
  store_pack(to, result);
}

/// *first = the lowest position of an index outside [0, limit), if there is one; the smallest integer needs no order.
template <class = void>
__global__ void __launch_bounds__(map_threads)
    check_index_kernel(unsigned long long* first, const std::int64_t* index, std::int64_t stride, std::int64_t count,
                       std::int64_t limit) {
  wait_for_previous();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * map_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x; i < count; i += step) {
    const std::int64_t value = index[i * stride];
    if (value < 0 || value >= limit) {
      atomicMin(first, static_cast<unsigned long long>(i));
      return;  // this thread's further positions are higher
    }
  }
}

/// Throws IndexError for an index outside [0, limit), the first of them. Waits for the context.
template <std::same_as<Cuda> Device>
void check_indices(Context<Device>& ctx, std::string_view op, std::string_view argument,
                   View<const std::int64_t, 1, Device> index, std::int64_t limit) {
  const std::int64_t count = index.size(0);
  if (count == 0) return;
  const auto device = ctx.activate();
  auto scope = ctx.workspace().scope();
  auto* first = scope.template allocate<unsigned long long>(std::size_t{1});
  check_cuda(cudaMemsetAsync(first, 0xff, sizeof(*first), ctx.stream()), op);
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(count, map_threads, 1024));
  shape.block = dim3(map_threads);
  launch(ctx, op, shape, check_index_kernel<>, first, index.data(), index.stride(0), count, limit);
  std::int64_t position = 0;
  check_cuda(cudaMemcpyAsync(&position, first, sizeof(position), cudaMemcpyDeviceToHost, ctx.stream()), op);
  ctx.synchronize();
  if (position < 0) return;
  std::int64_t value = 0;
  check_cuda(cudaMemcpyAsync(&value, index.ptr(position), sizeof(value), cudaMemcpyDeviceToHost, ctx.stream()), op);
  ctx.synchronize();
  check_index(op, argument, position, value, limit);
}

/// Packs of P along the last dimension; with P = 1 any strides.
template <int P, class K, class W>
__global__ void __launch_bounds__(map_threads)
    embedding_kernel(K* out, std::int64_t out_row, std::int64_t out_column, const std::int64_t* index,
                     std::int64_t index_stride, const W* weight, std::int64_t weight_row, std::int64_t weight_column,
                     std::int64_t count, std::int64_t packs, bool narrow) {
  wait_for_previous();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * map_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x; i < count; i += step) {
    const std::int64_t row = narrow ? static_cast<std::uint32_t>(i) / static_cast<std::uint32_t>(packs) : i / packs;
    const std::int64_t column = (i - row * packs) * P;
    copy_weights<P>(out + row * out_row + column * out_column,
                    weight + index[row * index_stride] * weight_row + column * weight_column);
  }
}

}  // namespace detail

template <FloatElement T, WeightFor<T> W>
void embedding(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const std::int64_t, 1, Cuda>> index,
               View<W, 2, Cuda> weight) {
  using K = detail::kernel_t<T>;
  using Weight = detail::kernel_t<W>;
  detail::check_embedding(out.sizes(), index.sizes(), weight.sizes());
  detail::check_output("embedding", "out", out.layout());
  detail::check_devices(ctx, "embedding", out.data(), index.data(), weight.data());
  detail::check_indices<Cuda>(ctx, "embedding", "index", index, weight.size(0));
  if (out.empty()) return;
  constexpr int pack = detail::pack_size<K>;  // T is at least as large as W
  const std::int64_t dim = out.size(1);
  const bool packed = dim % pack == 0 && out.stride(1) == 1 && weight.stride(1) == 1 &&
                      detail::keeps_packs(out.size(0), out.stride(0), pack) &&
                      detail::keeps_packs(weight.size(0), weight.stride(0), pack) &&
                      detail::is_aligned(out.data(), sizeof(T) * pack) &&
                      detail::is_aligned(weight.data(), sizeof(W) * pack);
  const std::int64_t packs = packed ? dim / pack : dim;
  const std::int64_t count = out.size(0) * packs;
  detail::LaunchShape shape;
  shape.grid = dim3(detail::grid_blocks(count, detail::map_threads, std::int64_t{1} << 30));
  shape.block = dim3(detail::map_threads);
  shape.dependent = true;
  detail::launch(ctx, "embedding", shape,
                 packed ? detail::embedding_kernel<pack, K, Weight> : detail::embedding_kernel<1, K, Weight>,
                 detail::kernel_pointer(out.data()), out.stride(0), out.stride(1), index.data(), index.stride(0),
                 static_cast<const Weight*>(detail::kernel_pointer(weight.data())), weight.stride(0), weight.stride(1),
                 count, packs, count <= std::int64_t{UINT32_MAX});
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
