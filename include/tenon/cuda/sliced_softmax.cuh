// sliced_softmax on CUDA: a block for each row, or a warp where rows are short. How a row is split over threads depends on
// its length alone, so the bits of the result depend on nothing but its elements and the prefix.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/ops/sliced_softmax.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// The larger one, or the one that is no NaN: a NaN comes back with the sum.
__device__ __forceinline__ float larger(float a, float b) { return fmaxf(a, b); }
__device__ __forceinline__ double larger(double a, double b) { return fmax(a, b); }
__device__ __forceinline__ float softmax_exp(float x) { return expf(x); }
__device__ __forceinline__ double softmax_exp(double x) { return exp(x); }
__device__ __forceinline__ float softmax_share(float x, float sum) { return __fdiv_rn(x, sum); }
__device__ __forceinline__ double softmax_share(double x, double sum) { return x / sum; }

/// The largest value of a row's threads: a warp, or a block of whole warps.
template <class C>
__device__ __forceinline__ C row_max(C value, C* scratch) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = larger(value, __shfl_xor_sync(whole_warp, value, offset));
  }
  if (blockDim.x == 32) return value;
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[static_cast<int>(threadIdx.x % 32) < warps ? threadIdx.x % 32 : 0];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    value = larger(value, __shfl_xor_sync(whole_warp, value, offset));
  }
  return value;
}

/// Rows (batch, m) of n elements.
template <class K>
struct SoftmaxRows {
  K* out;
  const K* in;
  const std::int64_t* prefix;
  std::int64_t rows;
  std::int64_t m;
  std::int64_t n;
  std::int64_t out_strides[3];
  std::int64_t in_strides[3];
};

inline constexpr int softmax_threads = 1024;
/// Elements of a row that a thread holds.
inline constexpr int softmax_held = 4;

/// Held: rows have at most softmax_held elements for each thread, which are read once; otherwise three times. With 32
/// threads a row, a block has blockDim.y rows. A thread writes the elements that it reads, so `out` may be `in`.
template <class K, bool Held>
__global__ void __launch_bounds__(softmax_threads) sliced_softmax_kernel(const __grid_constant__ SoftmaxRows<K> r) {
  using C = compute_t<K>;
  wait_for_previous();
  __shared__ C max_scratch[32];
  __shared__ C sum_scratch[32];
  const std::int64_t given = *r.prefix;
  const std::int64_t prefix = given < 0 ? 0 : given > r.n ? r.n : given;
  const std::int64_t threads = blockDim.x;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < r.rows; row += step) {
    const std::int64_t batch = row / r.m;
    const std::int64_t line = row - batch * r.m;
    const K* in = r.in + batch * r.in_strides[0] + line * r.in_strides[1];
    K* out = r.out + batch * r.out_strides[0] + line * r.out_strides[1];
    C most = -std::numeric_limits<C>::infinity();
    C sum = 0;
    if constexpr (Held) {
      K x[softmax_held];
      C e[softmax_held];
#pragma unroll
      for (int v = 0; v < softmax_held; ++v) {
        const std::int64_t i = threadIdx.x + v * threads;
        if (i < r.n) x[v] = in[i * r.in_strides[2]];
      }
#pragma unroll
      for (int v = 0; v < softmax_held; ++v) {
        if (threadIdx.x + v * threads < prefix) most = larger(most, widen(x[v]));
      }
      most = row_max(most, max_scratch);
#pragma unroll
      for (int v = 0; v < softmax_held; ++v) {
        e[v] = 0;
        if (threadIdx.x + v * threads < prefix) e[v] = softmax_exp(widen(x[v]) - most);
        sum += e[v];
      }
      sum = threads == 32 ? warp_sum(sum) : block_sum(sum, sum_scratch);
#pragma unroll
      for (int v = 0; v < softmax_held; ++v) {
        const std::int64_t i = threadIdx.x + v * threads;
        if (i < r.n) out[i * r.out_strides[2]] = i < prefix ? narrow<K>(softmax_share(e[v], sum)) : x[v];
      }
    } else {
      for (std::int64_t i = threadIdx.x; i < prefix; i += threads) most = larger(most, widen(in[i * r.in_strides[2]]));
      most = row_max(most, max_scratch);
      for (std::int64_t i = threadIdx.x; i < prefix; i += threads) {
        sum += softmax_exp(widen(in[i * r.in_strides[2]]) - most);
      }
      sum = threads == 32 ? warp_sum(sum) : block_sum(sum, sum_scratch);
      for (std::int64_t i = threadIdx.x; i < r.n; i += threads) {
        const K x = in[i * r.in_strides[2]];
        out[i * r.out_strides[2]] = i < prefix ? narrow<K>(softmax_share(softmax_exp(widen(x) - most), sum)) : x;
      }
    }
    if (threads > 32) __syncthreads();  // the scratch is used again
  }
}

}  // namespace detail

template <FloatElement T>
void sliced_softmax(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
                    View<const std::int64_t, 1, Cuda> prefix) {
  detail::check_sliced_softmax(out.sizes(), in.sizes(), prefix.sizes());
  detail::check_output("sliced_softmax", "out", out.layout());
  detail::check_devices(ctx, "sliced_softmax", out.data(), in.data(), prefix.data());
  if (out.empty()) return;
  using K = detail::kernel_t<T>;
  detail::SoftmaxRows<K> rows{detail::kernel_pointer(out.data()),
                              detail::kernel_pointer(in.data()),
                              prefix.data(),
                              in.size(0) * in.size(1),
                              in.size(1),
                              in.size(2),
                              {out.stride(0), out.stride(1), out.stride(2)},
                              {in.stride(0), in.stride(1), in.stride(2)}};
  const std::int64_t threads =
      std::min(align_up(ceil_div(rows.n, std::int64_t{detail::softmax_held}), std::int64_t{32}),
               std::int64_t{detail::softmax_threads});
  detail::LaunchShape shape;
  shape.block = dim3(static_cast<unsigned>(threads), threads == 32 ? 8 : 1);
  shape.grid = dim3(detail::grid_blocks(rows.rows, shape.block.y, std::int64_t{1} << 30));
  shape.dependent = true;
  const bool held = rows.n <= threads * detail::softmax_held;
  detail::launch(ctx, "sliced_softmax", shape,
                 held ? detail::sliced_softmax_kernel<K, true> : detail::sliced_softmax_kernel<K, false>, rows);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
