// rearrange on the CPU: rows are copied as they are; where the contiguous dimensions of the two tensors differ, square
// tiles keep both sides of the copy inside a few cache lines.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include <tenon/cpu/row_loop.hpp>
#include <tenon/ops/rearrange.hpp>
#include <tenon/runtime/parallel.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Elements that are worth a thread of their own when they are only moved.
inline constexpr std::int64_t copy_grain = 32768;

template <class T>
void copy_stretch(T* out, std::int64_t out_stride, const T* in, std::int64_t in_stride, std::int64_t n) {
  if (out_stride == 1 && in_stride == 1) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(T));
  } else {
    for (std::int64_t i = 0; i < n; ++i) out[i * out_stride] = in[i * in_stride];
  }
}

/// to[i][j] = from[j][i] for a square of 16 bytes by 16 bytes, with row strides in elements. Vectors of integers in the
/// language extension of GCC and Clang keep every bit and need no instruction set beyond the default.
template <class T>
void transpose_square(T* to, std::int64_t to_row, const T* from, std::int64_t from_row) {
  if constexpr (sizeof(T) == 4) {
    using V = std::uint32_t __attribute__((vector_size(16)));
    V r[4];
    for (int i = 0; i < 4; ++i) std::memcpy(&r[i], from + i * from_row, 16);
    const V a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const V b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const V c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const V d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
    for (int i = 0; i < 4; ++i) std::memcpy(static_cast<void*>(to + i * to_row), &r[i], 16);
  } else if constexpr (sizeof(T) == 2) {
    using V = std::uint16_t __attribute__((vector_size(16)));
    V r[8];
    V t[8];
    for (int i = 0; i < 8; ++i) std::memcpy(&r[i], from + i * from_row, 16);
    for (int i = 0; i < 4; ++i) {  // rows i and i + 4 interleave, three times over
      t[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 4; ++i) {
      r[2 * i] = __builtin_shufflevector(t[i], t[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      r[2 * i + 1] = __builtin_shufflevector(t[i], t[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 4; ++i) {
      t[2 * i] = __builtin_shufflevector(r[i], r[i + 4], 0, 8, 1, 9, 2, 10, 3, 11);
      t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + 4], 4, 12, 5, 13, 6, 14, 7, 15);
    }
    for (int i = 0; i < 8; ++i) std::memcpy(static_cast<void*>(to + i * to_row), &t[i], 16);
  } else {
    constexpr auto n = static_cast<std::int64_t>(16 / sizeof(T));
    for (std::int64_t j = 0; j < n; ++j) {
      for (std::int64_t i = 0; i < n; ++i) to[i * to_row + j] = from[j * from_row + i];
    }
  }
}

/// A whole tile, whose rows are cache lines: rows of `out` are contiguous, columns of `in` are.
template <std::int64_t Tile, class T>
void transpose_tile(T* out, std::int64_t out_row, const T* in, std::int64_t in_column) {
  constexpr auto n = static_cast<std::int64_t>(16 / sizeof(T));
  T tile[Tile * Tile];
  for (std::int64_t j = 0; j < Tile; j += n) {
    for (std::int64_t i = 0; i < Tile; i += n)
      transpose_square(tile + i * Tile + j, Tile, in + j * in_column + i, in_column);
  }
  for (std::int64_t i = 0; i < Tile; ++i) std::memcpy(out + i * out_row, tile + i * Tile, Tile * sizeof(T));
}

/// Rows and columns that are worked on together: 4 lines or more of each, so that neighbouring lines are read in turn.
template <class T>
inline constexpr std::int64_t transpose_side = std::int64_t{256} / static_cast<std::int64_t>(sizeof(T));

/// out[i][j] = in[i][j] for i < rows and j < columns; `out` is contiguous in j and `in` in i. At most transpose_side
/// rows.
template <class T>
void transpose_strip(T* out, std::int64_t out_row, const T* in, std::int64_t in_column, std::int64_t rows,
                     std::int64_t columns) {
  constexpr std::int64_t side = transpose_side<T>;
  constexpr std::int64_t tile = side / 4;  // one cache line a row
  for (std::int64_t first = 0; first < columns; first += side) {
    const std::int64_t last = std::min(first + side, columns);
    for (std::int64_t i = 0; i < rows; i += tile) {
      for (std::int64_t j = first; j < last; j += tile) {
        T* to = out + i * out_row + j;
        const T* from = in + j * in_column + i;
        if (i + tile <= rows && j + tile <= columns) {
          // Lines of `in` lie far apart, where hardware does not look ahead: ask for those of the next square.
          for (std::int64_t c = side; c < side + tile && j + c < columns; ++c) {
            __builtin_prefetch(from + c * in_column, 0, 2);
          }
          for (std::int64_t r = 0; r < tile && j + side < columns; ++r) {
            __builtin_prefetch(to + r * out_row + side, 1, 2);
          }
          transpose_tile<tile>(to, out_row, from, in_column);
          continue;
        }
        for (std::int64_t r = 0; r < std::min(tile, rows - i); ++r) {
          for (std::int64_t c = 0; c < std::min(tile, columns - j); ++c) to[r * out_row + c] = from[c * in_column + r];
        }
      }
    }
  }
}

/// The case of a transposition: the last dimension of the loop is contiguous in `out`, dimension `at` in `in`.
template <class T, std::size_t Rank>
void rearrange_transposed(Context<Cpu>& ctx, T* out, const T* in, const RowLoop<2, Rank>& loop, std::size_t at) {
  const auto& rows = loop.dim(at);
  const auto& columns = loop.dim(loop.rank() - 1);
  // Strips of rows are the unit of work.
  constexpr std::int64_t strip = transpose_side<T>;
  const std::int64_t strips = ceil_div(rows.size, strip);
  const std::int64_t matrices = loop.count() / (rows.size * columns.size);
  parallel_for(ctx, matrices * strips, ceil_div(copy_grain, strip * columns.size),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   std::int64_t rest = unit / strips;
                   std::int64_t to = 0;
                   std::int64_t from = 0;
                   for (std::size_t i = loop.rank() - 1; i-- > 0;) {
                     if (i == at) continue;
                     const auto& dim = loop.dim(i);
                     to += rest % dim.size * dim.strides[0];
                     from += rest % dim.size * dim.strides[1];
                     rest /= dim.size;
                   }
                   const std::int64_t first = unit % strips * strip;
                   transpose_strip(out + to + first * rows.strides[0], rows.strides[0], in + from + first,
                                   columns.strides[1], std::min(strip, rows.size - first), columns.size);
                 }
               });
}

}  // namespace detail

template <Element T, std::size_t Rank>
void rearrange(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> in) {
  detail::check_shape("rearrange", "in", in.sizes(), out.sizes(), "as out");
  detail::check_output("rearrange", "out", out.layout());
  if (out.empty()) return;
  const detail::RowLoop<2, Rank> loop(out.sizes(), std::array<Sizes<Rank>, 2>{out.strides(), in.strides()});
  if (loop.strides()[0] == 1 && loop.strides()[1] != 1) {
    for (std::size_t i = 0; i + 1 < loop.rank(); ++i) {
      if (loop.dim(i).strides[1] == 1) return detail::rearrange_transposed(ctx, out.data(), in.data(), loop, i);
    }
  }
  const std::int64_t out_step = loop.strides()[0];
  const std::int64_t in_step = loop.strides()[1];
  loop.run(ctx, detail::copy_grain, [&](const std::array<std::int64_t, 2>& at, std::int64_t n) {
    detail::copy_stretch(out.data() + at[0], out_step, in.data() + at[1], in_step, n);
  });
}

TENON_NAMESPACE_END
