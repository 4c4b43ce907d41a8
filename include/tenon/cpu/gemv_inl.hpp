// Dot products of rows: y = x wᵀ for a few rows of x, with w read once. One source for every instruction set.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

// Accumulators that fit the register file beside the vectors of w: 16 of 32 registers, or 8 of 16.
inline constexpr int dot_rows = TENON_SIMD_WIDTH == 16 ? 4 : 2;
inline constexpr int dot_columns = 4;

// sums += one vector of k, or the last `count` elements where Tail.
template <bool Tail, int MR, int NR, class W>
TENON_SIMD_INLINE void dot_step(Float (&sums)[MR][NR], const float* x, std::int64_t x_stride, const W* w,
                                std::int64_t w_stride, std::int64_t count) {
  Float columns[NR];
#pragma GCC unroll 4
  for (int j = 0; j < NR; ++j) {
    if constexpr (Tail) {
      columns[j] = load(w + j * w_stride, count);
    } else {
      columns[j] = load(w + j * w_stride);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) {
    Float row;
    if constexpr (Tail) {
      row = load(x + i * x_stride, count);
    } else {
      row = load(x + i * x_stride);
    }
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) sums[i][j] = fma(row, columns[j], sums[i][j]);
  }
}

// y(MR, NR) = x(MR, k) w(NR, k)ᵀ. Lane l of an accumulator sums the products k = l, l + width, l + 2 width, … in that
// order; the lanes are added last. That is the same for every MR and NR, so that a row of the result does not depend on
// how many rows are computed with it. Where First, the rows of w that come next are fetched from memory meanwhile.
template <bool First, int MR, int NR, class W>
TENON_SIMD_INLINE void dot_tile(const float* x, std::int64_t x_stride, const W* w, std::int64_t w_stride,
                                std::int64_t k, float* y, std::int64_t y_stride) {
  Float sums[MR][NR];
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) sums[i][j] = zero();
  }
  std::int64_t p = 0;
  if constexpr (First) {
    constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(W));
    for (; p + line <= k; p += line) {
#pragma GCC unroll 4
      for (int j = 0; j < NR; ++j) __builtin_prefetch(w + (NR + j) * w_stride + p, 0, 2);
#pragma GCC unroll 8
      for (std::int64_t q = 0; q < line; q += width) {
        dot_step<false, MR, NR>(sums, x + p + q, x_stride, w + p + q, w_stride, width);
      }
    }
  }
  for (; p + width <= k; p += width) dot_step<false, MR, NR>(sums, x + p, x_stride, w + p, w_stride, width);
  if (p < k) dot_step<true, MR, NR>(sums, x + p, x_stride, w + p, w_stride, k - p);
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < NR; ++j) y[i * y_stride + j] = sum(sums[i][j]);
  }
}

template <bool First, int NR, class W>
TENON_SIMD_INLINE void dot_some_rows(const float* x, std::int64_t x_stride, std::int64_t m, const W* w,
                                     std::int64_t w_stride, std::int64_t k, float* y, std::int64_t y_stride) {
  if (m == 1) dot_tile<First, 1, NR>(x, x_stride, w, w_stride, k, y, y_stride);
  if (m == 2) dot_tile<First, 2, NR>(x, x_stride, w, w_stride, k, y, y_stride);
  if constexpr (dot_rows == 4) {
    if (m == 3) dot_tile<First, 3, NR>(x, x_stride, w, w_stride, k, y, y_stride);
    if (m == 4) dot_tile<First, 4, NR>(x, x_stride, w, w_stride, k, y, y_stride);
  }
}

// All m rows of x against NR rows of w, which stay in the first-level cache after the first tile.
template <int NR, class W>
TENON_SIMD_TARGET void dot_columns_block(const float* x, std::int64_t x_stride, std::int64_t m, const W* w,
                                         std::int64_t w_stride, std::int64_t k, float* y, std::int64_t y_stride) {
  dot_some_rows<true, NR>(x, x_stride, m < dot_rows ? m : dot_rows, w, w_stride, k, y, y_stride);
  for (std::int64_t rest = m - dot_rows; rest > 0; rest -= dot_rows) {
    x += dot_rows * x_stride;
    y += dot_rows * y_stride;
    dot_some_rows<false, NR>(x, x_stride, rest < dot_rows ? rest : dot_rows, w, w_stride, k, y, y_stride);
  }
}

/// y(m, n) = x(m, k) w(n, k)ᵀ, rows contiguous, any distance between rows.
template <class W>
TENON_SIMD_TARGET void dot_block(Level, const float* x, std::int64_t x_stride, std::int64_t m, const W* w,
                                 std::int64_t w_stride, std::int64_t n, std::int64_t k, float* y,
                                 std::int64_t y_stride) {
  std::int64_t j = 0;
  for (; j + dot_columns <= n; j += dot_columns) {
    dot_columns_block<dot_columns>(x, x_stride, m, w + j * w_stride, w_stride, k, y + j, y_stride);
  }
  for (; j < n; ++j) dot_columns_block<1>(x, x_stride, m, w + j * w_stride, w_stride, k, y + j, y_stride);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
