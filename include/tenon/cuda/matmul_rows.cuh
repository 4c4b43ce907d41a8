// matmul with up to eight rows in each matrix of a batch: limited by reading b, which is read once. The order of a sum
// depends on the shapes and the device alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cuda/elementwise.cuh>
#include <tenon/cuda/gemv.cuh>
#include <tenon/cuda/matmul_output.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Up to this many rows b is streamed.
inline constexpr std::int64_t matmul_max_rows = 8;

/// V elements of a factor, as they were loaded.
template <class K, int V>
struct MatmulPiece {
  std::conditional_t<V == 1, K, Words> data;

  /// `step`: from one element to the next; packs are contiguous and aligned.
  static __device__ __forceinline__ MatmulPiece load(const K* from) {
    return {*reinterpret_cast<const decltype(data)*>(from)};
  }
  __device__ __forceinline__ void take(compute_t<K> (&to)[V]) const {
    if constexpr (V == 1) {
      to[0] = widen(data);
    } else {
      unpack<K>(to, data);
    }
  }
};

inline constexpr int matmul_dots_threads = 256;

/// For columns of b that lie as rows in memory: `lanes` threads, 8 to 32, form the dot products of M rows with U columns.
/// With Packs the elements of a row of a and a column of b are contiguous, aligned to 16 bytes, and fill packs.
template <class T, int M, int U, bool Packs>
__global__ void __launch_bounds__(matmul_dots_threads)
    matmul_dots_kernel(const __grid_constant__ MatmulFactors<kernel_t<T>> f, int lanes,
                       const __grid_constant__ MatmulOutput<T> output) {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  using Piece = MatmulPiece<K, Packs ? pack_size<K> : 1>;
  constexpr int V = Packs ? pack_size<K> : 1;
  static_assert(U * M <= 8);
  wait_for_previous();
  const int in_warp = static_cast<int>(threadIdx.x) % 32;
  const int lane = in_warp % lanes;
  const std::int64_t per_warp = 32 / lanes;
  const std::int64_t per_block = matmul_dots_threads / lanes;
  const std::int64_t units = ceil_div(f.k, std::int64_t{U});
  const std::int64_t pieces = f.n / V;
  const std::int64_t a_step = f.a_strides[2] * V;
  const std::int64_t b_step = f.b_strides[1] * V;
  for (std::int64_t batch = blockIdx.y; batch < f.batches; batch += gridDim.y) {
    const K* a = f.a + batch * f.a_strides[0];
    const K* b = f.b + batch * f.b_strides[0];
    // All threads of a warp stay together, also where the last of them have no unit.
    for (std::int64_t first = blockIdx.x * per_block + threadIdx.x / 32 * per_warp; first < units;
         first += gridDim.x * per_block) {
      const std::int64_t left = (first + in_warp / lanes) * U;
      // The result that this lane hands out.
      const int row = lane % M;
      const std::int64_t column = left + lane / M;
      const bool writes = lane < U * M && row < f.m && column < f.k;
      typename MatmulOutput<T>::Extra extra{};
      if (writes) output.fetch(extra, batch, row, column);
      const K* from[U];
#pragma unroll
      for (int u = 0; u < U; ++u) from[u] = b + min(left + u, f.k - 1) * f.b_strides[2];
      Acc sums[U][M] = {};
#pragma unroll(M == 1 ? 2 : 1)
      for (std::int64_t i = lane; i < pieces; i += lanes) {
        Piece held[U];
#pragma unroll
        for (int u = 0; u < U; ++u) held[u] = Piece::load(from[u] + i * b_step);
        Piece rows[M];
#pragma unroll
        for (int j = 0; j < M; ++j) {
          if (M == 1 || j < f.m) rows[j] = Piece::load(a + j * f.a_strides[1] + i * a_step);
        }
        Acc w[U][V];
#pragma unroll
        for (int u = 0; u < U; ++u) held[u].take(w[u]);
#pragma unroll
        for (int j = 0; j < M; ++j) {
          if (M > 1 && j >= f.m) continue;
          Acc x[V];
          rows[j].take(x);
#pragma unroll
          for (int e = 0; e < V; ++e) {
#pragma unroll
            for (int u = 0; u < U; ++u) sums[u][j] = fma(w[u][e], x[e], sums[u][j]);
          }
        }
      }
      for (int offset = lanes / 2; offset > 0; offset /= 2) {
#pragma unroll
        for (int u = 0; u < U; ++u) {
#pragma unroll
          for (int j = 0; j < M; ++j) sums[u][j] += __shfl_xor_sync(whole_warp, sums[u][j], offset);
        }
      }
      Acc sum = 0;
#pragma unroll
      for (int u = 0; u < U; ++u) {
#pragma unroll
        for (int j = 0; j < M; ++j) sum = lane == u * M + j ? sums[u][j] : sum;
      }
      if (writes) output.put(batch, row, column, sum, extra);
    }
  }
}

inline constexpr int matmul_columns_threads = 512;
inline constexpr int matmul_columns_warps = matmul_columns_threads / 32;

/// Results that a block of matmul_columns_kernel puts together at most: 32 KiB of sums.
template <class K, int M, int V>
inline constexpr int matmul_columns_results = V == 1 ? 32 * M : std::min<int>(32 * M * V, 2048 / sizeof(compute_t<K>));

/// For rows of b: `lanes` threads side by side, a power of two up to 32, take V columns each, and the groups of so many
/// threads share the rows of b. With Packs those are contiguous and aligned to 16 bytes.
template <class T, int M, int U, bool Packs>
__global__ void __launch_bounds__(matmul_columns_threads)
    matmul_columns_kernel(const __grid_constant__ MatmulFactors<kernel_t<T>> f, int lanes,
                          const __grid_constant__ MatmulOutput<T> output) {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  using Piece = MatmulPiece<K, Packs ? pack_size<K> : 1>;
  constexpr int V = Packs ? pack_size<K> : 1;
  constexpr int most = matmul_columns_results<K, M, V>;
  static_assert(most <= matmul_columns_threads);
  __shared__ Acc partial[matmul_columns_warps][most];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % lanes;
  const std::int64_t groups = matmul_columns_threads / lanes;
  const int width = lanes * V;
  const std::int64_t chunks = ceil_div(f.k, std::int64_t{width});
  for (std::int64_t batch = blockIdx.y; batch < f.batches; batch += gridDim.y) {
    const K* a = f.a + batch * f.a_strides[0];
    for (std::int64_t chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
      // The result that this thread puts together.
      const int row = thread / width;
      const std::int64_t column = chunk * width + thread % width;
      const bool writes = row < M && row < f.m && column < f.k;
      typename MatmulOutput<T>::Extra extra{};
      if (writes) output.fetch(extra, batch, row, column);
      const std::int64_t mine = chunk * width + lane * V;
      const K* b = f.b + batch * f.b_strides[0] + mine * f.b_strides[2];
      Acc sums[M][V] = {};
      for (std::int64_t top = thread / lanes; mine < f.k && top < f.n; top += groups * U) {
        Piece held[U];
        K x[U][M];
#pragma unroll
        for (int u = 0; u < U; ++u) {
          const std::int64_t i = top + u * groups;
          if (i < f.n) {
            held[u] = Piece::load(b + i * f.b_strides[1]);
#pragma unroll
            for (int j = 0; j < M; ++j) {
              if (M == 1 || j < f.m) x[u][j] = a[j * f.a_strides[1] + i * f.a_strides[2]];
            }
          }
        }
#pragma unroll
        for (int u = 0; u < U; ++u) {
          if (top + u * groups < f.n) {
            Acc w[V];
            held[u].take(w);
#pragma unroll
            for (int j = 0; j < M; ++j) {
              if (M > 1 && j >= f.m) continue;
#pragma unroll
              for (int e = 0; e < V; ++e) sums[j][e] = fma(w[e], widen(x[u][j]), sums[j][e]);
            }
          }
        }
      }
      // Over the groups of a warp, and then over the warps in order.
      for (int offset = lanes; offset < 32; offset *= 2) {
#pragma unroll
        for (int j = 0; j < M; ++j) {
#pragma unroll
          for (int e = 0; e < V; ++e) sums[j][e] += __shfl_xor_sync(whole_warp, sums[j][e], offset);
        }
      }
      if (thread % 32 < lanes) {
#pragma unroll
        for (int j = 0; j < M; ++j) {
#pragma unroll
          for (int e = 0; e < V; ++e) partial[thread / 32][j * width + lane * V + e] = sums[j][e];
        }
      }
      __syncthreads();
      if (writes) {
        Acc sum = 0;
#pragma unroll
        for (int w = 0; w < matmul_columns_warps; ++w) sum += partial[w][thread];
        output.put(batch, row, column, sum, extra);
      }
      __syncthreads();  // the partial sums are used again
    }
  }
}

/// Whether steps of V elements keep rows of a 16-byte alignment in a batch: `row` and `batch` are the strides that count.
template <class K>
bool matmul_packs(const K* data, std::int64_t batches, std::int64_t batch, std::int64_t rows, std::int64_t row) {
  constexpr std::int64_t pack = pack_size<K>;
  return is_aligned(data, 16) && keeps_packs(batches, batch, pack) && keeps_packs(rows, row, pack);
}

/// The kernels of gemv.cuh, for a single matrix b whose columns lie as rows in memory; rows of a go together as many as fit
/// shared memory. False where not even one does, or b is not aligned.
template <class T>
bool matmul_gemv(Context<Cuda>& ctx, const View<const T, 3, Cuda>& a, const View<const T, 3, Cuda>& b,
                 const MatmulOutput<T>& output) {
  if constexpr (std::is_same_v<T, double>) {
    return false;
  } else {
    const std::int64_t m = a.size(1);
    const std::int64_t n = a.size(2);
    const std::int64_t k = b.size(2);
    if (a.size(0) != 1 || b.stride(1) != 1) return false;
    int at_once = 8;
    while (at_once > 0 && !gemv_fits<T>(ctx, b.data(), b.stride(2), k, n, at_once)) at_once /= 2;
    if (at_once == 0) return false;
    const bool vectorized = is_aligned(a.data(), 16) && a.stride(2) == 1 &&
                            keeps_packs(m, a.stride(1), std::int64_t{pack_size<kernel_t<T>>});
    for (std::int64_t from = 0; from < m; from += at_once) {
      const std::int64_t rows = std::min<std::int64_t>(at_once, m - from);
      const RowsInput<T> input{kernel_pointer(a.data()) + from * a.stride(1), a.stride(1), a.stride(2),
                               static_cast<int>(rows), vectorized};
      const auto run = [&]<int M, int R, int C>() {
        launch_gemv<T, T, M, R, C, false>(ctx, "matmul", b.data(), b.stride(2), k, n, input, output.part(from, rows));
      };
      if (rows > 4) {
        run.template operator()<8, 2, 3>();
      } else if (rows > 2) {
        run.template operator()<4, 2, 6>();
      } else if (rows == 2) {
        run.template operator()<2, 2, 6>();
      } else if (k <= std::int64_t{gemv_warps} * ctx.properties().multiprocessors) {
        run.template operator()<1, 1, 12>();
      } else {
        run.template operator()<1, 2, 6>();
      }
    }
    return true;
  }
}

template <class T>
void matmul_dots(Context<Cuda>& ctx, const MatmulFactors<kernel_t<T>>& f, const MatmulOutput<T>& output) {
  using K = kernel_t<T>;
  constexpr std::int64_t pack = pack_size<K>;
  const bool packs = f.n % pack == 0 && f.a_strides[2] == 1 && f.b_strides[1] == 1 &&
                     matmul_packs(f.a, f.batches, f.a_strides[0], f.m, f.a_strides[1]) &&
                     matmul_packs(f.b, f.batches, f.b_strides[0], f.k, f.b_strides[2]);
  const std::int64_t pieces = packs ? f.n / pack : f.n;
  const int lanes = pieces >= 32 ? 32 : pieces >= 16 ? 16 : 8;
  LaunchShape shape;
  shape.block = dim3(matmul_dots_threads);
  shape.dependent = true;
  const auto run = [&]<int M, int U>() {
    shape.grid = dim3(grid_blocks(ceil_div(f.k, std::int64_t{U}), matmul_dots_threads / lanes, 1 << 20),
                      grid_blocks(f.batches, 1));
    launch(ctx, "matmul", shape, packs ? matmul_dots_kernel<T, M, U, true> : matmul_dots_kernel<T, M, U, false>, f,
           lanes, output);
  };
  if (f.m == 1) {
    run.template operator()<1, 4>();
  } else if (f.m <= 4) {
    run.template operator()<4, 2>();
  } else {
    run.template operator()<8, 1>();
  }
}

template <class T>
void matmul_columns(Context<Cuda>& ctx, const MatmulFactors<kernel_t<T>>& f, const MatmulOutput<T>& output) {
  using K = kernel_t<T>;
  constexpr int pack = pack_size<K>;
  const bool packs =
      f.k % pack == 0 && f.b_strides[2] == 1 && matmul_packs(f.b, f.batches, f.b_strides[0], f.n, f.b_strides[1]);
  LaunchShape shape;
  shape.block = dim3(matmul_columns_threads);
  shape.dependent = true;
  const auto run = [&]<int M, int U, bool Packs>() {
    constexpr int V = Packs ? pack : 1;
    // Wide blocks read longer stretches, narrow ones give work to every multiprocessor.
    int lanes = matmul_columns_results<K, M, V> / (M * V);
    const auto blocks = [&] { return f.batches * ceil_div(f.k, std::int64_t{lanes} * V); };
    while (lanes > 4 && 4 * blocks() < 3 * std::int64_t{ctx.properties().multiprocessors}) lanes /= 2;
    shape.grid = dim3(grid_blocks(f.k, std::int64_t{lanes} * V, 1 << 20), grid_blocks(f.batches, 1));
    launch(ctx, "matmul", shape, matmul_columns_kernel<T, M, U, Packs>, f, lanes, output);
  };
  const auto run_rows = [&]<bool Packs>() {
    if (f.m == 1) {
      run.template operator()<1, 8, Packs>();
    } else if (f.m <= 4) {
      run.template operator()<4, 4, Packs>();
    } else {
      run.template operator()<8, 2, Packs>();
    }
  };
  if (packs) {
    run_rows.template operator()<true>();
  } else {
    run_rows.template operator()<false>();
  }
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
