// Products of a few rows with a matrix. Compiled for every level; see simd.hpp. matmul.hpp chooses between them.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

// y(n) = x(k) w(n, k)ᵀ, a vector of results at a time: sums of four rows of w run side by side, and the lanes of all are
// added together. Rows that are missing at the end are replaced by the last one.
template <class W>
TENON_SIMD_TARGET void dot_row(const float* x, const W* w, std::int64_t w_stride, std::int64_t n, std::int64_t k,
                               float* y) {
  const std::int64_t whole = k / width * width;
  for (std::int64_t j = 0; j < n; j += width) {
    Float sums[width];
#pragma GCC unroll 4
    for (int g = 0; g < width; g += 4) {
      const std::int64_t left = n - 1 - (j + g);  // rows after the first of this group
      const W* row0 = w + (left < 0 ? n - 1 : j + g) * w_stride;
      const W* row1 = row0 + (left > 0 ? w_stride : 0);
      const W* row2 = row1 + (left > 1 ? w_stride : 0);
      const W* row3 = row2 + (left > 2 ? w_stride : 0);
      Float s0 = zero();
      Float s1 = zero();
      Float s2 = zero();
      Float s3 = zero();
      for (std::int64_t p = 0; p < whole; p += width) {
        const Float v = load(x + p);
        s0 = fma(v, load(row0 + p), s0);
        s1 = fma(v, load(row1 + p), s1);
        s2 = fma(v, load(row2 + p), s2);
        s3 = fma(v, load(row3 + p), s3);
      }
      if (whole < k) {
        const std::int64_t rest = k - whole;
        const Float v = load(x + whole, rest);
        s0 = fma(v, load(row0 + whole, rest), s0);
        s1 = fma(v, load(row1 + whole, rest), s1);
        s2 = fma(v, load(row2 + whole, rest), s2);
        s3 = fma(v, load(row3 + whole, rest), s3);
      }
      sums[g] = s0;
      sums[g + 1] = s1;
      sums[g + 2] = s2;
      sums[g + 3] = s3;
    }
    const Float result = sum_each(sums);
    if (j + width <= n) {
      store(y + j, result);
    } else {
      store(y + j, result, n - j);
    }
  }
}

// The same for MR rows of x and at most a vector of k: a square of w is transposed, so that the results stand side by
// side without sums of lanes.
template <int MR, class W>
TENON_SIMD_TARGET void dot_short(const float* x, std::int64_t x_stride, const W* w, std::int64_t w_stride,
                                 std::int64_t n, std::int64_t k, float* y, std::int64_t y_stride) {
  for (std::int64_t j = 0; j < n; j += width) {
    Float block[width];
    if (k == width && j + width <= n) {
#pragma GCC unroll 16
      for (int r = 0; r < width; ++r) block[r] = load(w + (j + r) * w_stride);
    } else {
#pragma GCC unroll 16
      for (int r = 0; r < width; ++r) {
        const std::int64_t row = j + r < n ? j + r : n - 1;
        block[r] = load(w + row * w_stride, k);
      }
    }
    transpose(block);
    Float sums[MR];
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i) sums[i] = zero();
    if (k == width) {
#pragma GCC unroll 16
      for (int p = 0; p < width; ++p) {
#pragma GCC unroll 4
        for (int i = 0; i < MR; ++i) sums[i] = fma(broadcast(x[i * x_stride + p]), block[p], sums[i]);
      }
    } else {
      for (std::int64_t p = 0; p < k; ++p) {
#pragma GCC unroll 4
        for (int i = 0; i < MR; ++i) sums[i] = fma(broadcast(x[i * x_stride + p]), block[p], sums[i]);
      }
    }
    const std::int64_t count = n - j;
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i) {
      if (count >= width) {
        store(y + i * y_stride + j, sums[i]);
      } else {
        store(y + i * y_stride + j, sums[i], count);
      }
    }
  }
}

template <bool Tail, class W>
TENON_SIMD_INLINE Float load_columns(const W* w, std::int64_t count) {
  if constexpr (Tail) {
    return load(w, count);
  } else {
    return load(w);
  }
}

// y(MR, NV * width) = x(MR, k) w(k, NV * width), rows of w contiguous. Several chains of sums hide the latency of fma
// where a tile is small. With Tail, NV is 1 and there are `count` columns.
template <int MR, int NV, bool Tail, class W>
TENON_SIMD_TARGET void outer_tile(const float* x, std::int64_t x_stride, const W* w, std::int64_t w_stride,
                                  std::int64_t k, float* y, std::int64_t y_stride, std::int64_t count) {
  constexpr int chains = MR * NV >= 8 ? 1 : MR * NV >= 4 ? 2 : MR * NV >= 2 ? 4 : 8;
  Float sums[chains][MR][NV];
#pragma GCC unroll 8
  for (int c = 0; c < chains; ++c) {
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) sums[c][i][v] = zero();
    }
  }
  std::int64_t p = 0;
  for (; p + chains <= k; p += chains) {
#pragma GCC unroll 8
    for (int c = 0; c < chains; ++c) {
      Float columns[NV];
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) columns[v] = load_columns<Tail>(w + (p + c) * w_stride + v * width, count);
#pragma GCC unroll 4
      for (int i = 0; i < MR; ++i) {
        const Float row = broadcast(x[i * x_stride + p + c]);
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) sums[c][i][v] = fma(row, columns[v], sums[c][i][v]);
      }
    }
  }
  for (; p < k; ++p) {
    Float columns[NV];
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) columns[v] = load_columns<Tail>(w + p * w_stride + v * width, count);
#pragma GCC unroll 4
    for (int i = 0; i < MR; ++i) {
      const Float row = broadcast(x[i * x_stride + p]);
#pragma GCC unroll 8
      for (int v = 0; v < NV; ++v) sums[0][i][v] = fma(row, columns[v], sums[0][i][v]);
    }
  }
#pragma GCC unroll 4
  for (int half = chains / 2; half > 0; half /= 2) {
#pragma GCC unroll 4
    for (int c = 0; c < half; ++c) {
#pragma GCC unroll 4
      for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
        for (int v = 0; v < NV; ++v) sums[c][i][v] = add(sums[c][i][v], sums[c + half][i][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < MR; ++i) {
#pragma GCC unroll 8
    for (int v = 0; v < NV; ++v) {
      if constexpr (Tail) {
        store(y + i * y_stride, sums[0][i][v], count);
      } else {
        store(y + i * y_stride + v * width, sums[0][i][v]);
      }
    }
  }
}

template <int MR, class W>
TENON_SIMD_TARGET void outer_rows(const float* x, std::int64_t x_stride, const W* w, std::int64_t w_stride,
                                  std::int64_t n, std::int64_t k, float* y, std::int64_t y_stride) {
  constexpr int most = MR == 1 || TENON_SIMD_WIDTH == 16 ? 4 : 2;
  std::int64_t j = 0;
  if constexpr (MR == 1) {  // whole lines of as many columns as possible: rows of w may lie far apart
    for (; j + 8 * width <= n; j += 8 * width) {
      outer_tile<MR, 8, false>(x, x_stride, w + j, w_stride, k, y + j, y_stride, width);
    }
  }
  for (; j + most * width <= n; j += most * width) {
    outer_tile<MR, most, false>(x, x_stride, w + j, w_stride, k, y + j, y_stride, width);
  }
  if constexpr (most == 4) {
    if (j + 2 * width <= n) {
      outer_tile<MR, 2, false>(x, x_stride, w + j, w_stride, k, y + j, y_stride, width);
      j += 2 * width;
    }
  }
  if (j + width <= n) {
    outer_tile<MR, 1, false>(x, x_stride, w + j, w_stride, k, y + j, y_stride, width);
    j += width;
  }
  if (j < n) outer_tile<MR, 1, true>(x, x_stride, w + j, w_stride, k, y + j, y_stride, n - j);
}

/// y(m, n) = x(m, k) w(k, n), rows of w contiguous.
template <class W>
TENON_SIMD_TARGET void outer_block(Level, const float* x, std::int64_t x_stride, std::int64_t m, const W* w,
                                   std::int64_t w_stride, std::int64_t n, std::int64_t k, float* y,
                                   std::int64_t y_stride) {
  for (; m >= 4; m -= 4, x += 4 * x_stride, y += 4 * y_stride)
    outer_rows<4>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 3) outer_rows<3>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 2) outer_rows<2>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 1) outer_rows<1>(x, x_stride, w, w_stride, n, k, y, y_stride);
}

/// y(m, n) = x(m, k) w(n, k)ᵀ for at most a vector of k, rows of w contiguous.
template <class W>
TENON_SIMD_TARGET void dot_short_block(Level, const float* x, std::int64_t x_stride, std::int64_t m, const W* w,
                                       std::int64_t w_stride, std::int64_t n, std::int64_t k, float* y,
                                       std::int64_t y_stride) {
  for (; m >= 4; m -= 4, x += 4 * x_stride, y += 4 * y_stride)
    dot_short<4>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 3) dot_short<3>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 2) dot_short<2>(x, x_stride, w, w_stride, n, k, y, y_stride);
  if (m == 1) dot_short<1>(x, x_stride, w, w_stride, n, k, y, y_stride);
}

/// y(n) = x(k) w(n, k)ᵀ, rows of w contiguous.
template <class W>
TENON_SIMD_TARGET void dot_row_block(Level, const float* x, const W* w, std::int64_t w_stride, std::int64_t n,
                                     std::int64_t k, float* y) {
  dot_row(x, w, w_stride, n, k, y);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
