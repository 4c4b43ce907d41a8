// decode_embedding: blocks for the row of the table, and behind them blocks for the angles.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/cuda/decode_embedding.hpp>
#include <tenon/cuda/embedding.cuh>
#include <tenon/cuda/rope.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

template <int P, class K, class W>
__global__ void __launch_bounds__(rope_threads)
    decode_embedding_kernel(K* x, float* cos, float* sin, const std::int64_t* id, const std::int64_t* position,
                            const W* weight, std::int64_t row, std::int64_t column, std::int64_t packs,
                            std::int64_t row_blocks, std::int64_t half, double theta) {
  const std::int64_t block = blockIdx.x;
  if (block < row_blocks) {
    wait_for_previous();
    const std::int64_t i = block * rope_threads + threadIdx.x;
    if (i < packs) copy_weights<P>(x + i * P, weight + *id * row + i * P * column);
    return;
  }
  const std::int64_t i = (block - row_blocks) * rope_threads + threadIdx.x;
  const float frequency = rope_frequency(i, half, theta);
  wait_for_previous();
  if (i < half) rope_cos_sin(*position, frequency, cos[i], sin[i]);
}

template <class T, class W>
void decode_embedding(Context<Cuda>& ctx, T* x, float* cos, float* sin, const std::int64_t* id,
                      const std::int64_t* position, View<const W, 2, Cuda> weight, std::int64_t head_dim,
                      double theta) {
  static_assert(WeightFor<W, T>);
  using K = kernel_t<T>;
  using Weight = kernel_t<W>;
  constexpr int pack = pack_size<K>;
  const std::int64_t dim = weight.size(1);
  const std::int64_t half = head_dim / 2;
  const bool packed = dim % pack == 0 && weight.stride(1) == 1 && keeps_packs(weight.size(0), weight.stride(0), pack) &&
                      is_aligned(x, sizeof(T) * pack) && is_aligned(weight.data(), sizeof(W) * pack);
  const std::int64_t packs = packed ? dim / pack : dim;
  const std::int64_t row_blocks = ceil_div(packs, std::int64_t{rope_threads});
  LaunchShape shape;
  shape.block = dim3(rope_threads);
  shape.grid = dim3(static_cast<unsigned>(row_blocks + ceil_div(half, std::int64_t{rope_threads})));
  shape.dependent = true;
  launch(ctx, "decode_embedding", shape,
         packed ? decode_embedding_kernel<pack, K, Weight> : decode_embedding_kernel<1, K, Weight>, kernel_pointer(x),
         cos, sin, id, position, kernel_pointer(weight.data()), weight.stride(0), weight.stride(1), packs, row_blocks,
         half, theta);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
