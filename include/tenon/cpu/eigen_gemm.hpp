// linear without vector kernels: double on every processor, and every dtype at the portable level. Eigen multiplies
// blocks of a fixed size that are widened first, so the result does not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <Eigen/Core>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/simd/denormals.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Copies rows [row, row + rows) and columns [column, column + columns) of `src`, as A, row-major with `stride`.
template <class A, class T>
void widen_block(View<const T, 2, Cpu> src, std::int64_t row, std::int64_t rows, std::int64_t column,
                 std::int64_t columns, A* dst, std::int64_t stride) {
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* from = src.ptr(row + i, column);
    for (std::int64_t p = 0; p < columns; ++p) dst[i * stride + p] = static_cast<A>(from[p * src.stride(1)]);
  }
}

/// out = in · weightᵀ + bias by blocks of 32 rows, 64 columns and 256 products.
///
/// Eigen 3.4 starts threads of its own only for results that may have more than 32 rows: the type of `sums` says at
/// compile time that they do not, and the threads are those of parallel_for. With sizes limited at compile time Eigen's
/// packing buffers lie on the stack, so nothing is allocated.
template <class T, class W>
void linear_eigen(Context<Cpu>& ctx, View<T, 2, Cpu> out, View<const T, 2, Cpu> in, View<const W, 2, Cpu> weight,
                  std::optional<View<const W, 1, Cpu>> bias) {
  using A = accumulator_t<T>;
  constexpr int block_m = 32;
  constexpr int block_n = 64;
  constexpr int block_k = 256;
  using X = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor, block_m, block_k>;
  using Y = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor, block_n, block_k>;
  using Sums = Eigen::Matrix<A, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, block_m, block_n>;
  const std::int64_t k = in.size(1);
  const std::int64_t column_blocks = ceil_div<std::int64_t>(out.size(1), block_n);
  const std::int64_t blocks = column_blocks * ceil_div<std::int64_t>(out.size(0), block_m);
  parallel_for(ctx, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    const ScopedFlushDenormals flush;
    for (std::int64_t block = begin; block < end; ++block) {
      const std::int64_t row = block / column_blocks * block_m;
      const std::int64_t column = block % column_blocks * block_n;
      const std::int64_t m = std::min<std::int64_t>(block_m, out.size(0) - row);
      const std::int64_t n = std::min<std::int64_t>(block_n, out.size(1) - column);
      Sums sums = Sums::Zero(m, n);
      for (std::int64_t p = 0; p < k; p += block_k) {
        const std::int64_t depth = std::min<std::int64_t>(block_k, k - p);
        X x(m, depth);
        Y y(n, depth);
        widen_block(in, row, m, p, depth, x.data(), depth);
        widen_block(weight, column, n, p, depth, y.data(), depth);
        sums.noalias() += x * y.transpose();
      }
      for (std::int64_t j = 0; j < n; ++j) {
        const A shift = bias ? static_cast<A>((*bias)(column + j)) : A{0};
        for (std::int64_t i = 0; i < m; ++i) {
          const A sum = sums(i, j);
          out(row + i, column + j) = static_cast<T>(bias ? sum + shift : sum);
        }
      }
    }
  });
}

/// out = in · weightᵀ + bias in double, by dot products whose order of summation depends on k only.
inline void linear_dot(Context<Cpu>& ctx, View<double, 2, Cpu> out, View<const double, 2, Cpu> in,
                       View<const double, 2, Cpu> weight, std::optional<View<const double, 1, Cpu>> bias) {
  constexpr std::int64_t lanes = 8;
  const std::int64_t k = in.size(1);
  const std::int64_t x_step = in.stride(1);
  const std::int64_t w_step = weight.stride(1);
  const std::int64_t grain = std::max<std::int64_t>(8, 32768 / (std::max<std::int64_t>(k, 1) * in.size(0)));
  parallel_for(ctx, out.size(1), grain, [&](std::int64_t begin, std::int64_t end) {
    const ScopedFlushDenormals flush;
    for (std::int64_t j = begin; j < end; ++j) {
      for (std::int64_t i = 0; i < out.size(0); ++i) {
        const double* x = in.ptr(i, 0);
        const double* w = weight.ptr(j, 0);
        double sums[lanes] = {};
        std::int64_t p = 0;
        if (x_step == 1 && w_step == 1) {
          for (; p + lanes <= k; p += lanes) {
            for (std::int64_t lane = 0; lane < lanes; ++lane) sums[lane] += x[p + lane] * w[p + lane];
          }
        }
        for (; p < k; ++p) sums[p % lanes] += x[p * x_step] * w[p * w_step];
        const double sum = ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
        out(i, j) = bias ? sum + (*bias)(j) : sum;
      }
    }
  });
}

}  // namespace detail
TENON_NAMESPACE_END
