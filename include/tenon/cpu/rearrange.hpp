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

/// A whole tile, of a size that the compiler knows: rows of `out` are contiguous, columns of `in` are.
template <std::int64_t Tile, class T>
void transpose_tile(T* out, std::int64_t out_row, const T* in, std::int64_t in_column) {
  T tile[Tile][Tile];
  for (std::int64_t j = 0; j < Tile; ++j) {
    for (std::int64_t i = 0; i < Tile; ++i) tile[i][j] = in[j * in_column + i];
  }
  for (std::int64_t i = 0; i < Tile; ++i) {
    std::memcpy(out + i * out_row, tile[i], sizeof tile[i]);
  }
}

/// out[i][j] = in[i][j] for i < rows and j < columns; `out` is contiguous in j and `in` in i.
template <class T>
void transpose_block(T* out, std::int64_t out_row, const T* in, std::int64_t in_column, std::int64_t rows,
                     std::int64_t columns) {
  constexpr std::int64_t tile = std::int64_t{64} / static_cast<std::int64_t>(sizeof(T));  // one cache line a row
  for (std::int64_t i = 0; i < rows; i += tile) {
    for (std::int64_t j = 0; j < columns; j += tile) {
      T* to = out + i * out_row + j;
      const T* from = in + j * in_column + i;
      if (i + tile <= rows && j + tile <= columns) {
        transpose_tile<tile>(to, out_row, from, in_column);
        continue;
      }
      for (std::int64_t r = 0; r < std::min(tile, rows - i); ++r) {
        for (std::int64_t c = 0; c < std::min(tile, columns - j); ++c) to[r * out_row + c] = from[c * in_column + r];
      }
    }
  }
}

/// The case of a transposition: the last dimension of the loop is contiguous in `out`, dimension `at` in `in`.
template <class T, std::size_t Rank>
void rearrange_transposed(Context<Cpu>& ctx, T* out, const T* in, const RowLoop<2, Rank>& loop, std::size_t at) {
  const auto& rows = loop.dim(at);
  const auto& columns = loop.dim(loop.rank() - 1);
  // Strips of rows are the unit of work: 64 rows or fewer of one pair of matrices.
  constexpr std::int64_t strip = 64;
  const std::int64_t strips = ceil_div(rows.size, strip);
  const std::int64_t matrices = loop.count() / (rows.size * columns.size);
  parallel_for(ctx, matrices * strips, ceil_div(copy_grain, strip * columns.size), [&](std::int64_t begin, std::int64_t end) {
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
      transpose_block(out + to + first * rows.strides[0], rows.strides[0], in + from + first, columns.strides[1],
                      std::min(strip, rows.size - first), columns.size);
    }
  });
}

}  // namespace detail

template <Element T, std::size_t Rank>
void rearrange(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<View<const T, Rank, Cpu>> in) {
  detail::check_shape("rearrange", "in", in.sizes(), out.sizes(), "as out");
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
