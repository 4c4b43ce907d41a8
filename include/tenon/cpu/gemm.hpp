// linear for many rows: a blocked matrix product in the manner of Goto and van de Geijn (2008) and BLIS.
//
// x is packed, as float, into panels of two vectors of rows, so that a vector of the result holds one column for many
// rows. A few rows of w at a time are widened to float, for a block of k that fits the first-level cache, and meet
// every panel there: w needs no transposition, 16-bit weights are widened once for up to gemm_max_rows rows of x, and
// no copy of w is ever larger than such a block. The result gathers in a float buffer, transposed, and is rounded once.
//
// Blocks of k are gemm_depth wide, whatever else: the order of summation depends on k and the level only. The work is
// split over rows of w, and over panels where w has few rows; never over k.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/simd/denormals.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/view.hpp>

#define TENON_SIMD_BODY <tenon/cpu/gemm_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

inline constexpr std::int64_t gemm_depth = 256;                         ///< k of a block
inline constexpr std::int64_t gemm_w_row = gemm_depth + 16;             ///< rows of it do not share cache sets
inline constexpr std::int64_t gemm_max_rows = 256;                      ///< rows of x that are packed at once …
inline constexpr std::int64_t gemm_max_packed = std::int64_t{2} << 20;  ///< … and floats, unless that is one panel
inline constexpr std::int64_t gemm_tiles = 8;                           ///< tiles of w that share a result buffer

/// Threads worth starting for this many elements of the result: one for each 128 KiB of weights, counted once for
/// every row of x.
inline std::int64_t linear_pieces(Context<Cpu>& ctx, std::int64_t elements, std::int64_t k, std::size_t weight_bytes,
                                  std::int64_t most) {
  const double products = static_cast<double>(elements) * static_cast<double>(k);
  const double worth = products * static_cast<double>(weight_bytes) / 131072.0;
  const double limit = static_cast<double>(std::min<std::int64_t>(ctx.threads(), std::max<std::int64_t>(most, 1)));
  return static_cast<std::int64_t>(std::clamp(worth, 1.0, limit));
}

/// What linear_gemm decides once, for all threads.
struct GemmPlan {
  std::int64_t block_rows;     ///< rows of x packed at once, a multiple of the panel
  std::int64_t column_pieces;  ///< the split of w's rows over threads
  std::int64_t panel_pieces;   ///< the split of panels over threads
  std::int64_t result_stride;  ///< floats between columns of the result buffer
};

inline GemmPlan plan_gemm(Context<Cpu>& ctx, std::int64_t m, std::int64_t n, std::int64_t k, std::size_t weight_bytes,
                          std::int64_t panel) {
  constexpr std::int64_t columns_per_line = 64;
  const std::int64_t fits = gemm_max_packed / std::max<std::int64_t>(k, 1) / panel * panel;
  const std::int64_t most = std::max(panel, std::min(gemm_max_rows, fits));
  GemmPlan plan{};
  plan.block_rows = align_up(ceil_div(m, ceil_div(m, most)), panel);
  const std::int64_t panels = plan.block_rows / panel;
  const std::int64_t lines = ceil_div(n, columns_per_line);
  const std::int64_t pieces = linear_pieces(ctx, std::min(m, plan.block_rows) * n, k, weight_bytes, lines * panels);
  plan.column_pieces = std::min(pieces, lines);
  plan.panel_pieces = std::clamp<std::int64_t>(pieces / plan.column_pieces, 1, panels);
  plan.result_stride = ceil_div(panels, plan.panel_pieces) * panel + 16;
  return plan;
}

/// Asks for rows of weights that will be needed soon, so that they come from memory during the products before them.
template <class W>
void prefetch_rows(const W* w, std::int64_t row_stride, std::int64_t rows, std::int64_t columns) noexcept {
  constexpr std::int64_t line = 64 / static_cast<std::int64_t>(sizeof(W));
  for (std::int64_t j = 0; j < rows; ++j) {
    for (std::int64_t p = 0; p < columns; p += line) __builtin_prefetch(w + j * row_stride + p, 0, 2);
  }
}

/// out = in · weightᵀ + bias by blocks.
template <class Level, class T, class W>
void linear_gemm(Level level, Context<Cpu>& ctx, View<T, 2, Cpu> out, View<const T, 2, Cpu> in,
                 View<const W, 2, Cpu> weight, std::optional<View<const W, 1, Cpu>> bias) {
  const std::int64_t n = weight.size(0);
  const std::int64_t k = in.size(1);
  const std::int64_t panel = gemm_panel_rows(level);
  const std::int64_t tile = gemm_tile_columns(level);
  const GemmPlan plan = plan_gemm(ctx, in.size(0), n, k, sizeof(W), panel);
  const std::int64_t pieces = plan.column_pieces * plan.panel_pieces;
  const std::int64_t buffer_columns = gemm_tiles * tile;
  const std::int64_t buffer_floats = tile * gemm_w_row + buffer_columns * (plan.result_stride + 1);

  Workspace::Scope scope = ctx.workspace().scope();
  float* packed = scope.allocate<float>(plan.block_rows * k);
  float* buffers = scope.allocate<float>(pieces * align_up<std::int64_t>(buffer_floats, 16));

  for (std::int64_t row = 0; row < in.size(0); row += plan.block_rows) {
    const std::int64_t m = std::min(plan.block_rows, in.size(0) - row);
    parallel_run(ctx, static_cast<int>(pieces), [&](int piece) {
      const ScopedFlushDenormals flush;
      const std::int64_t steps = ceil_div<std::int64_t>(k, 16);
      const std::int64_t begin = steps * piece / pieces * 16;
      const std::int64_t end = std::min(k, steps * (piece + 1) / pieces * 16);
      for (std::int64_t i = 0; i < m; i += panel) {
        pack_panel(level, in.data() + (row + i) * in.stride(0), in.stride(0), in.stride(1), std::min(panel, m - i),
                   begin, end, packed + i * k);
      }
    });

    parallel_run(ctx, static_cast<int>(pieces), [&](int piece) {
      const ScopedFlushDenormals flush;
      float* w_block = buffers + piece * align_up<std::int64_t>(buffer_floats, 16);
      float* result = w_block + tile * gemm_w_row;
      float* bias_row = result + buffer_columns * plan.result_stride;
      const std::int64_t panels = ceil_div(m, panel);
      const std::int64_t panel_piece = piece % plan.panel_pieces;
      const std::int64_t first_row = panels * panel_piece / plan.panel_pieces * panel;
      const std::int64_t rows = std::min(m, panels * (panel_piece + 1) / plan.panel_pieces * panel) - first_row;
      const std::int64_t column_piece = piece / plan.panel_pieces;
      const std::int64_t lines = ceil_div<std::int64_t>(n, 64);
      const std::int64_t first_column = lines * column_piece / plan.column_pieces * 64;
      const std::int64_t last_column = std::min(n, lines * (column_piece + 1) / plan.column_pieces * 64);
      if (rows <= 0) return;

      for (std::int64_t column = first_column; column < last_column; column += buffer_columns) {
        const std::int64_t columns = std::min(buffer_columns, last_column - column);
        for (std::int64_t p = 0; p < k; p += gemm_depth) {
          const std::int64_t depth = std::min(gemm_depth, k - p);
          for (std::int64_t j = 0; j < columns; j += tile) {
            const std::int64_t count = std::min(tile, columns - j);
            const W* w = weight.ptr(column + j, p);
            widen(level, w, weight.stride(0), weight.stride(1), count, depth, w_block, gemm_w_row);
            if (weight.stride(1) == 1) {
              prefetch_rows(w + tile * weight.stride(0), weight.stride(0), std::min(tile, columns - j - tile), depth);
            }
            gemm_columns_block<gemm_w_row>(level, packed + first_row * k + p * panel, rows, panel * k, w_block, count,
                                           depth, result + j * plan.result_stride, plan.result_stride, p > 0);
          }
        }
        if (bias) {
          widen(level, bias->data() + column * bias->stride(0), 0, bias->stride(0), 1, columns, bias_row, columns);
        }
        finish_transposed(level, result, plan.result_stride, bias ? bias_row : nullptr, rows, columns,
                          out.ptr(row + first_row, column), out.stride(0), out.stride(1));
      }
    });
  }
}

}  // namespace detail
TENON_NAMESPACE_END
