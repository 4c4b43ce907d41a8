// The inner loops of the blocked matrix product. One source for every instruction set; gemm.hpp explains the blocks.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

// A tile of accumulators: 2 vectors of rows of x times some rows of w, in all registers but those for operands.
inline constexpr std::int64_t gemm_panel = 2 * width;
inline constexpr int gemm_columns = TENON_SIMD_WIDTH == 16 ? 14 : 6;

constexpr std::int64_t gemm_panel_rows(Level) { return gemm_panel; }
constexpr std::int64_t gemm_tile_columns(Level) { return gemm_columns; }

/// dst(rows, k) = src(rows, k) as float, for any strides of src; rows of dst are contiguous, dst_stride apart.
template <class T>
TENON_SIMD_TARGET void widen(Level, const T* src, std::int64_t row_stride, std::int64_t column_stride,
                             std::int64_t rows, std::int64_t k, float* dst, std::int64_t dst_stride) {
  if (column_stride == 1 || k == 1) {
    for (std::int64_t i = 0; i < rows; ++i) {
      std::int64_t p = 0;
      for (; p + width <= k; p += width) store(dst + i * dst_stride + p, load(src + i * row_stride + p));
      if (p < k) store(dst + i * dst_stride + p, load(src + i * row_stride + p, k - p), k - p);
    }
  } else if (row_stride == 1) {
    for (std::int64_t i = 0; i < rows; i += width) {
      const std::int64_t count = rows - i < width ? rows - i : width;
      for (std::int64_t p = 0; p < k; p += width) {
        const std::int64_t depth = k - p < width ? k - p : width;
        Float block[width];
        for (std::int64_t q = 0; q < width; ++q) {
          block[q] = q < depth ? load(src + i + (p + q) * column_stride, count) : zero();
        }
        transpose(block);
        for (std::int64_t r = 0; r < count; ++r) store(dst + (i + r) * dst_stride + p, block[r], depth);
      }
    }
  } else {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t p = 0; p < k; ++p) dst[i * dst_stride + p] = src[i * row_stride + p * column_stride];
    }
  }
}

/// Packs `rows` (1 … gemm_panel) rows of x, columns [begin, end), as dst[p * gemm_panel + row]. Rows that are missing
/// from the last vector become 0; a vector without any row is left alone.
template <class T>
TENON_SIMD_TARGET void pack_panel(Level, const T* src, std::int64_t row_stride, std::int64_t column_stride,
                                  std::int64_t rows, std::int64_t begin, std::int64_t end, float* dst) {
  for (std::int64_t i = 0; i < rows; i += width) {
    const std::int64_t count = rows - i < width ? rows - i : width;
    const T* from = src + i * row_stride;
    if (row_stride == 1) {
      for (std::int64_t p = begin; p < end; ++p) store(dst + p * gemm_panel + i, load(from + p * column_stride, count));
    } else if (column_stride == 1) {
      for (std::int64_t p = begin; p < end; p += width) {
        const std::int64_t depth = end - p < width ? end - p : width;
        Float block[width];
        for (std::int64_t r = 0; r < width; ++r) {
          if (r >= count) {
            block[r] = zero();
          } else if (depth == width) {
            block[r] = load(from + r * row_stride + p);
          } else {
            block[r] = load(from + r * row_stride + p, depth);
          }
        }
        transpose(block);
        for (std::int64_t q = 0; q < depth; ++q) store(dst + (p + q) * gemm_panel + i, block[q]);
      }
    } else {
      for (std::int64_t p = begin; p < end; ++p) {
        for (std::int64_t r = 0; r < width; ++r) {
          dst[p * gemm_panel + i + r] = r < count ? static_cast<float>(from[r * row_stride + p * column_stride]) : 0.0f;
        }
      }
    }
  }
}

// c(NR, NV * width) = or += w(NR, k) x(k, NV * width): x packed, rows of w w_stride apart, rows of c c_stride apart.
template <int NV, int NR>
TENON_SIMD_INLINE void gemm_tile(const float* x, const float* w, std::int64_t w_stride, std::int64_t k, float* c,
                                 std::int64_t c_stride, bool add_to_c) {
  Float sums[NR][NV];
#pragma GCC unroll 16
  for (int j = 0; j < NR; ++j) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) sums[j][v] = zero();
  }
  for (std::int64_t p = 0; p < k; ++p) {
    Float rows[NV];
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) rows[v] = load(x + p * gemm_panel + v * width);
#pragma GCC unroll 16
    for (int j = 0; j < NR; ++j) {
      const Float column = broadcast(w[j * w_stride + p]);
#pragma GCC unroll 2
      for (int v = 0; v < NV; ++v) sums[j][v] = fma(rows[v], column, sums[j][v]);
    }
  }
#pragma GCC unroll 16
  for (int j = 0; j < NR; ++j) {
#pragma GCC unroll 2
    for (int v = 0; v < NV; ++v) {
      float* to = c + j * c_stride + v * width;
      store(to, add_to_c ? add(load(to), sums[j][v]) : sums[j][v]);
    }
  }
}

// `w_row` is the distance between rows of the widened block of w: a constant, so that it becomes part of addresses.
template <int NR, std::int64_t w_row>
TENON_SIMD_TARGET void gemm_rows(const float* x, std::int64_t m, std::int64_t x_panel_stride, const float* w,
                                 std::int64_t k, float* c, std::int64_t c_stride, bool add_to_c) {
  for (; m > width; m -= gemm_panel) {
    gemm_tile<2, NR>(x, w, w_row, k, c, c_stride, add_to_c);
    x += x_panel_stride;
    c += gemm_panel;
  }
  if (m > 0) gemm_tile<1, NR>(x, w, w_row, k, c, c_stride, add_to_c);
}

/// c(count, m) = or += w(count, k) x(k, m) for one block of k and at most gemm_columns rows of w. `x` points at this
/// block of k in the first of the packed panels, which lie x_panel_stride apart. Every element of c is a sum over the
/// block in ascending order, then added to c: the same whatever m and count are.
template <std::int64_t w_row>
TENON_SIMD_TARGET void gemm_columns_block(Level, const float* x, std::int64_t m, std::int64_t x_panel_stride,
                                          const float* w, std::int64_t count, std::int64_t k, float* c,
                                          std::int64_t c_stride, bool add_to_c) {
  if (count == gemm_columns) {
    gemm_rows<gemm_columns, w_row>(x, m, x_panel_stride, w, k, c, c_stride, add_to_c);
    return;
  }
  for (; count >= 4; count -= 4) {
    gemm_rows<4, w_row>(x, m, x_panel_stride, w, k, c, c_stride, add_to_c);
    w += 4 * w_row;
    c += 4 * c_stride;
  }
  for (; count > 0; --count) {
    gemm_rows<1, w_row>(x, m, x_panel_stride, w, k, c, c_stride, add_to_c);
    w += w_row;
    c += c_stride;
  }
}

/// out(i, j) = c(j, i) + bias(j), rounded to T, for i < m and j < n. `bias` may be null.
template <class T>
TENON_SIMD_TARGET void finish_transposed(Level, const float* c, std::int64_t c_stride, const float* bias,
                                         std::int64_t m, std::int64_t n, T* out, std::int64_t row_stride,
                                         std::int64_t column_stride) {
  for (std::int64_t i = 0; i < m; i += width) {
    const std::int64_t rows = m - i < width ? m - i : width;
    for (std::int64_t j = 0; j < n; j += width) {
      const std::int64_t columns = n - j < width ? n - j : width;
      Float block[width];
      for (std::int64_t q = 0; q < width; ++q) block[q] = q < columns ? load(c + (j + q) * c_stride + i) : zero();
      transpose(block);
      const Float shift = bias != nullptr ? load(bias + j, columns) : zero();
      T* to = out + i * row_stride + j * column_stride;
      for (std::int64_t r = 0; r < rows; ++r, to += row_stride) {
        const Float value = bias != nullptr ? add(block[r], shift) : block[r];
        if (column_stride != 1) {
          T buffer[width];
          store(buffer, value);
          for (std::int64_t q = 0; q < columns; ++q) to[q * column_stride] = buffer[q];
        } else if (columns == width) {
          store(to, value);
        } else {
          store(to, value, columns);
        }
      }
    }
  }
}

/// out(j) = y(j) + bias(j), rounded to T, for j < n. `bias` may be null.
template <class T>
TENON_SIMD_TARGET void finish_row(Level, const float* y, const float* bias, std::int64_t n, T* out,
                                  std::int64_t stride) {
  for (std::int64_t j = 0; j < n; j += width) {
    const std::int64_t count = n - j < width ? n - j : width;
    Float value = load(y + j, count);
    if (bias != nullptr) value = add(value, load(bias + j, count));
    if (stride == 1) {
      store(out + j, value, count);
    } else {
      T buffer[width];
      store(buffer, value);
      for (std::int64_t q = 0; q < count; ++q) out[(j + q) * stride] = buffer[q];
    }
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
