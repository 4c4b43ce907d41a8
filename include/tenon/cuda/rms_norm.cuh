// rms_norm on CUDA, and the sum before it where there is one: a row stays in the registers of a block, or of a warp where
// it is short. How a row is split over threads depends on its length alone, so the bits of the result depend on nothing
// but its elements.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/rms_norm.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// 1 / sqrt(sum / n + eps), each step rounded.
__device__ __forceinline__ float rms_norm_scale(float sum, std::int64_t n, float eps) {
  return __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(__fdiv_rn(sum, static_cast<float>(n)), eps)));
}
__device__ __forceinline__ double rms_norm_scale(double sum, std::int64_t n, double eps) {
  return 1.0 / sqrt(sum / static_cast<double>(n) + eps);
}
/// sum + x², rounded once.
__device__ __forceinline__ float add_square(float sum, float x) { return __fmaf_rn(x, x, sum); }
__device__ __forceinline__ double add_square(double sum, double x) { return __fma_rn(x, x, sum); }

template <class K>
__device__ __forceinline__ K normalized(K x, compute_t<K> scale, K weight) {
  return narrow<K>(rounded<K>(widen(x) * scale) * widen(weight));
}

/// Pointers and distances between rows, in elements. `sum` and `b` count where a sum comes before the norm.
template <class K>
struct NormRows {
  K* out;
  const K* in;
  const K* weight;
  K* sum;
  const K* b;
  std::int64_t rows;
  std::int64_t dim;
  std::int64_t out_row, in_row, sum_row, b_row;
  std::int64_t out_column, in_column, sum_column, b_column, weight_column;
};

/// Of out = norm(in); what a sum before it needs is for the caller to add.
template <class T>
NormRows<kernel_t<T>> norm_rows(const View<T, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                                const View<const T, 1, Cuda>& weight) {
  NormRows<kernel_t<T>> r{};
  r.out = kernel_pointer(out.data());
  r.in = kernel_pointer(in.data());
  r.weight = kernel_pointer(weight.data());
  r.rows = in.size(0);
  r.dim = in.size(1);
  r.out_row = out.stride(0);
  r.out_column = out.stride(1);
  r.in_row = in.stride(0);
  r.in_column = in.stride(1);
  r.weight_column = weight.stride(0);
  return r;
}

inline constexpr int norm_threads = 1024;

/// Rows of whole packs, at most V for each of blockDim.x threads. With 32 threads a row, a block has blockDim.y rows.
template <class K, int V, bool Add>
__global__ void __launch_bounds__(norm_threads)
    norm_packs_kernel(const __grid_constant__ NormRows<K> r, compute_t<K> eps) {
  using C = compute_t<K>;
  constexpr int P = pack_size<K>;
  wait_for_previous();
  __shared__ C scratch[32];
  const int packs = static_cast<int>(r.dim / P);
  const int threads = static_cast<int>(blockDim.x);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < r.rows; row += step) {
    Pack<K, P> x[V];
    Pack<K, P> b[V];
    Pack<K, P> weight[V];
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int p = static_cast<int>(threadIdx.x) + v * threads;
      if (p >= packs) continue;
      x[v] = load_pack<P>(r.in + row * r.in_row + p * P);
      if constexpr (Add) b[v] = load_pack<P>(r.b + row * r.b_row + p * P);
      weight[v] = load_pack<P>(r.weight + p * P);
    }
    C sum = 0;
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int p = static_cast<int>(threadIdx.x) + v * threads;
      if (p >= packs) continue;
      if constexpr (Add) {
#pragma unroll
        for (int i = 0; i < P; ++i) x[v].value[i] = narrow<K>(widen(x[v].value[i]) + widen(b[v].value[i]));
        store_pack(r.sum + row * r.sum_row + p * P, x[v]);
      }
#pragma unroll
      for (int i = 0; i < P; ++i) sum = add_square(sum, widen(x[v].value[i]));
    }
    sum = threads == 32 ? warp_sum(sum) : block_sum(sum, scratch);
    const C scale = rms_norm_scale(sum, r.dim, eps);
#pragma unroll
    for (int v = 0; v < V; ++v) {
      const int p = static_cast<int>(threadIdx.x) + v * threads;
      if (p >= packs) continue;
#pragma unroll
      for (int i = 0; i < P; ++i) x[v].value[i] = normalized(x[v].value[i], scale, weight[v].value[i]);
      store_pack(r.out + row * r.out_row + p * P, x[v]);
    }
    if (threads > 32) __syncthreads();  // scratch is used again
  }
}

/// Any strides and lengths: the same with single elements, each thread those of the packs that it would have, in the same
/// order. A row is read twice. A thread reads what it wrote itself and nothing else, so outputs may be inputs.
template <class K, bool Add>
__global__ void __launch_bounds__(norm_threads)
    norm_strided_kernel(const __grid_constant__ NormRows<K> r, compute_t<K> eps) {
  using C = compute_t<K>;
  constexpr std::int64_t P = pack_size<K>;
  wait_for_previous();
  __shared__ C scratch[32];
  const std::int64_t gap = static_cast<std::int64_t>(blockDim.x) * P;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; row < r.rows; row += step) {
    C sum = 0;
    for (std::int64_t first = threadIdx.x * P; first < r.dim; first += gap) {
      const std::int64_t end = min(first + P, r.dim);
      for (std::int64_t i = first; i < end; ++i) {
        K x = r.in[row * r.in_row + i * r.in_column];
        if constexpr (Add) {
          x = narrow<K>(widen(x) + widen(r.b[row * r.b_row + i * r.b_column]));
          r.sum[row * r.sum_row + i * r.sum_column] = x;
        }
        sum = add_square(sum, widen(x));
      }
    }
    sum = blockDim.x == 32 ? warp_sum(sum) : block_sum(sum, scratch);
    const C scale = rms_norm_scale(sum, r.dim, eps);
    for (std::int64_t first = threadIdx.x * P; first < r.dim; first += gap) {
      const std::int64_t end = min(first + P, r.dim);
      for (std::int64_t i = first; i < end; ++i) {
        const K x = Add ? r.sum[row * r.sum_row + i * r.sum_column] : r.in[row * r.in_row + i * r.in_column];
        r.out[row * r.out_row + i * r.out_column] = normalized(x, scale, r.weight[i * r.weight_column]);
      }
    }
    if (blockDim.x > 32) __syncthreads();  // scratch is used again
  }
}

template <bool Add, class K>
void launch_norm(Context<Cuda>& ctx, std::string_view name, const NormRows<K>& r, double eps) {
  constexpr std::int64_t pack = pack_size<K>;
  constexpr std::int64_t most_packs = std::is_same_v<K, float> ? 4 : 2;  // that fit the registers of a thread
  const std::int64_t packs = ceil_div(r.dim, pack);
  const std::int64_t each = packs <= 2 * norm_threads ? 2 : most_packs;
  const std::int64_t threads = std::min(align_up(ceil_div(packs, each), std::int64_t{32}), std::int64_t{norm_threads});
  const auto packed = [&](const K* data, std::int64_t row, std::int64_t column) {
    return column == 1 && keeps_packs(r.rows, row, pack) && is_aligned(data, 16);
  };
  bool fits = r.dim % pack == 0 && packs <= each * threads && packed(r.out, r.out_row, r.out_column) &&
              packed(r.in, r.in_row, r.in_column) && packed(r.weight, 0, r.weight_column);
  if constexpr (Add) fits = fits && packed(r.sum, r.sum_row, r.sum_column) && packed(r.b, r.b_row, r.b_column);
  LaunchShape shape;
  shape.block = dim3(static_cast<unsigned>(threads), threads == 32 ? 8 : 1);
  shape.grid = dim3(grid_blocks(r.rows, shape.block.y, std::int64_t{1} << 30));
  shape.dependent = true;
  void (*kernel)(NormRows<K>, compute_t<K>) = norm_strided_kernel<K, Add>;
  if (fits) kernel = each == 2 ? norm_packs_kernel<K, 2, Add> : norm_packs_kernel<K, most_packs, Add>;
  launch(ctx, name, shape, kernel, r, eps);
}

}  // namespace detail

template <FloatElement T>
void rms_norm(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const T, 2, Cuda>> in,
              std::type_identity_t<View<const T, 1, Cuda>> weight, double eps) {
  detail::check_rms_norm(out.sizes(), in.sizes(), weight.sizes(), eps);
  detail::check_output("rms_norm", "out", out.layout());
  detail::check_devices(ctx, "rms_norm", out.data(), in.data(), weight.data());
  if (out.empty()) return;
  detail::launch_norm<false>(ctx, "rms_norm", detail::norm_rows<T>(out, in, weight), eps);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
