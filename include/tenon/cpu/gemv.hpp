// linear for few rows, and for any number of rows in batch-invariant mode: weights are streamed from memory once and
// never repacked, so the time is the time to read them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/gemm.hpp>
#include <tenon/cpu/simd/denormals.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/view.hpp>

#define TENON_SIMD_BODY <tenon/cpu/gemv_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Columns of the result that a thread finishes together: whole cache lines of every dtype.
inline constexpr std::int64_t gemv_chunk = 64;

/// Floats of x that stay in the second-level cache while w streams past them.
inline constexpr std::int64_t gemv_x_floats = std::int64_t{192} << 10;

/// out = in · weightᵀ + bias by dot products. Each element is summed in one order that depends on k and the level only.
template <class Level, class T, class W>
void linear_gemv(Level level, Context<Cpu>& ctx, View<T, 2, Cpu> out, View<const T, 2, Cpu> in,
                 View<const W, 2, Cpu> weight, std::optional<View<const W, 1, Cpu>> bias) {
  const std::int64_t n = weight.size(0);
  const std::int64_t k = in.size(1);
  const std::int64_t most_rows = std::clamp<std::int64_t>(gemv_x_floats / std::max<std::int64_t>(k, 1), 8, 64);
  const std::int64_t block_rows = std::min(in.size(0), most_rows);
  const std::int64_t chunks = ceil_div(n, gemv_chunk);
  const std::int64_t pieces = linear_pieces(ctx, block_rows * n, k, sizeof(W), chunks);
  const bool in_place = std::same_as<T, float> && (in.stride(1) == 1 || k <= 1);
  const bool weight_in_place = weight.stride(1) == 1 || k <= 1;

  // Rows of w that are not contiguous are copied, `width` at a time, which keeps the order of summation.
  const std::int64_t copied_rows = 16;
  const std::int64_t copy_stride = align_up<std::int64_t>(k, 16);
  Workspace::Scope scope = ctx.workspace().scope();
  float* widened = in_place ? nullptr : scope.allocate<float>(block_rows * copy_stride);
  float* results = scope.allocate<float>(pieces * (block_rows + 1) * gemv_chunk);
  float* copies = weight_in_place ? nullptr : scope.allocate<float>(pieces * copied_rows * copy_stride);

  for (std::int64_t row = 0; row < in.size(0); row += block_rows) {
    const std::int64_t m = std::min(block_rows, in.size(0) - row);
    const T* in_rows = in.data() + row * in.stride(0);
    const float* x = widened;
    std::int64_t x_stride = copy_stride;
    if constexpr (std::same_as<T, float>) {
      if (in_place) {
        x = in_rows;
        x_stride = in.stride(0);
      }
    }
    if (!in_place) widen(level, in_rows, in.stride(0), in.stride(1), m, k, widened, copy_stride);

    parallel_run(ctx, static_cast<int>(pieces), [&](int piece) {
      const ScopedFlushDenormals flush;
      float* y = results + piece * (block_rows + 1) * gemv_chunk;
      float* bias_row = y + block_rows * gemv_chunk;
      const std::int64_t last = chunks * (piece + 1) / pieces;
      for (std::int64_t chunk = chunks * piece / pieces; chunk < last; ++chunk) {
        const std::int64_t column = chunk * gemv_chunk;
        const std::int64_t columns = std::min(gemv_chunk, n - column);
        const W* w = weight.data() + column * weight.stride(0);
        if (weight_in_place) {
          dot_block(level, x, x_stride, m, w, weight.stride(0), columns, k, y, gemv_chunk);
        } else {
          float* copy = copies + piece * copied_rows * copy_stride;
          for (std::int64_t j = 0; j < columns; j += copied_rows) {
            const std::int64_t count = std::min(copied_rows, columns - j);
            widen(level, w + j * weight.stride(0), weight.stride(0), weight.stride(1), count, k, copy, copy_stride);
            dot_block(level, x, x_stride, m, copy, copy_stride, count, k, y + j, gemv_chunk);
          }
        }
        if (bias) {
          widen(level, bias->data() + column * bias->stride(0), 0, bias->stride(0), 1, columns, bias_row, gemv_chunk);
        }
        for (std::int64_t i = 0; i < m; ++i) {
          finish_row(level, y + i * gemv_chunk, bias ? bias_row : nullptr, columns, out.ptr(row + i, column),
                     out.stride(1));
        }
      }
    });
  }
}

}  // namespace detail
TENON_NAMESPACE_END
