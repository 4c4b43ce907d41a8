// Products that need nothing of their operands: any lengths, any alignment. What the fast ones of linear and of the decode
// step do not take.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tenon/core/math.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

inline constexpr int general_gemv_threads = 256;

/// As gemv_kernel, with rows of the matrix of any length and alignment: a warp takes one result, or M of them, at a time.
template <class T, class W, int M, class Input, class Output>
__global__ void __launch_bounds__(general_gemv_threads)
    general_gemv_kernel(const kernel_t<W>* weight, std::int64_t row_stride, std::int64_t results, std::int64_t columns,
                        const Input input, const Output output) {
  using Acc = compute_t<kernel_t<T>>;
  constexpr int streams = Output::streams;
  __shared__ Acc scratch[32];
  wait_for_previous();
  const auto state = input.prepare(columns, scratch);
  const std::int64_t warps = general_gemv_threads / 32;
  const std::int64_t step = gridDim.x * warps;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (std::int64_t row = blockIdx.x * warps + threadIdx.x / 32; row < results; row += step) {
    Acc sums[M][streams] = {};
#pragma unroll(M == 1 ? 4 : 1)
    for (std::int64_t c = lane; c < columns; c += 32) {
      Acc w[streams];
#pragma unroll
      for (int s = 0; s < streams; ++s) w[s] = widen(weight[(s * results + row) * row_stride + c]);
#pragma unroll
      for (int j = 0; j < M; ++j) {
        if (M > 1 && j >= input.rows) continue;
        const Acc x = input.value(j, c, state);
#pragma unroll
        for (int s = 0; s < streams; ++s) sums[j][s] = fma(w[s], x, sums[j][s]);
      }
    }
#pragma unroll
    for (int j = 0; j < M; ++j) {
#pragma unroll
      for (int s = 0; s < streams; ++s) sums[j][s] = warp_sum(sums[j][s]);
      if (lane == 0 && j < input.rows) {
        auto extra = output.early(row, j);
        output.late(extra, row, j);
        output.write(row, j, sums[j], extra);
      }
    }
  }
}

template <class T, class W, int M, class Input, class Output>
void launch_general_gemv(Context<Cuda>& ctx, std::string_view op, const W* weight, std::int64_t row_stride,
                         std::int64_t results, std::int64_t columns, const Input& input, const Output& output) {
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(results, general_gemv_threads / 32, 8 * ctx.properties().multiprocessors));
  shape.block = dim3(general_gemv_threads);
  shape.dependent = true;
  launch(ctx, op, shape, general_gemv_kernel<T, W, M, Input, Output>, kernel_pointer(weight), row_stride, results,
         columns, input, output);
}

/// Pointer and strides of a matrix, in elements.
template <class K>
struct MatrixPointer {
  K* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
  __device__ __forceinline__ K& operator()(std::int64_t row, std::int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
};

/// out (m, n) = in (m, k) · weight (n, k)ᵀ + bias (n) for any sizes and strides, in tiles of 64 x 64 by 256 threads.
template <class T>
__global__ void __launch_bounds__(256)
    general_product_kernel(const MatrixPointer<kernel_t<T>> out, const MatrixPointer<const kernel_t<T>> in,
                           const MatrixPointer<const kernel_t<T>> weight, const kernel_t<T>* bias, std::int64_t m,
                           std::int64_t n, std::int64_t k) {
  using Acc = compute_t<kernel_t<T>>;
  constexpr int tile = 64;
  constexpr int depth = 16;
  __shared__ Acc in_tile[depth][tile + 1];
  __shared__ Acc weight_tile[depth][tile + 1];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  const int across = thread % 16;
  const int down = thread / 16;
  for (std::int64_t top = static_cast<std::int64_t>(blockIdx.y) * tile; top < m;
       top += gridDim.y * std::int64_t{tile}) {
    for (std::int64_t left = static_cast<std::int64_t>(blockIdx.x) * tile; left < n;
         left += gridDim.x * std::int64_t{tile}) {
      Acc sums[4][4] = {};
      for (std::int64_t from = 0; from < k; from += depth) {
        for (int e = thread; e < tile * depth; e += 256) {
          const int row = e / depth;
          const int p = e % depth;
          const bool inside = from + p < k;
          in_tile[p][row] = inside && top + row < m ? widen(in(top + row, from + p)) : Acc(0);
          weight_tile[p][row] = inside && left + row < n ? widen(weight(left + row, from + p)) : Acc(0);
        }
        __syncthreads();
#pragma unroll
        for (int p = 0; p < depth; ++p) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
              sums[i][j] = fma(in_tile[p][down + 16 * i], weight_tile[p][across + 16 * j], sums[i][j]);
            }
          }
        }
        __syncthreads();
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const std::int64_t row = top + down + 16 * i;
          const std::int64_t column = left + across + 16 * j;
          if (row >= m || column >= n) continue;
          const Acc with = bias == nullptr ? Acc(0) : widen(bias[column]);
          out(row, column) = narrow<kernel_t<T>>(sums[i][j] + with);
        }
      }
    }
  }
}

template <class T>
void launch_general_product(Context<Cuda>& ctx, std::string_view op, const View<T, 2, Cuda>& out,
                            const View<const T, 2, Cuda>& in, const View<const T, 2, Cuda>& weight, const T* bias) {
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(out.size(1), 64, 1 << 20), grid_blocks(out.size(0), 64));
  shape.block = dim3(256);
  shape.dependent = true;
  launch(ctx, op, shape, general_product_kernel<T>,
         MatrixPointer<kernel_t<T>>{kernel_pointer(out.data()), out.stride(0), out.stride(1)},
         MatrixPointer<const kernel_t<T>>{kernel_pointer(in.data()), in.stride(0), in.stride(1)},
         MatrixPointer<const kernel_t<T>>{kernel_pointer(weight.data()), weight.stride(0), weight.stride(1)},
         kernel_pointer(bias), out.size(0), out.size(1), in.size(1));
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
