// matmul on the CPU: which kernel serves a product, and the program that follows it.
//
// Up to 12 rows of a meet the matrix where it lies: by dot products where its columns are contiguous, as those of a
// transposed weight, by sums of rows where its rows are. Work is split into stretches of columns, whose results go
// through the epilogue at once. More rows, and double, go through `linear`, one matrix of the batch after another.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/linear.hpp>
#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/pointwise.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/matmul.hpp>
#include <tenon/runtime/parallel.hpp>

#define TENON_SIMD_BODY <tenon/cpu/matmul_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Columns of the result that are worked on together, and rows at most.
inline constexpr std::int64_t matmul_chunk = 256;
inline constexpr std::int64_t matmul_rows = 12;

/// y(m, n) = x(m, k) b(k, n), one of the strides of b being 1.
template <class Level, class T>
void matmul_block(Level level, const float* x, std::int64_t x_stride, std::int64_t m, const T* b, std::int64_t row,
                  std::int64_t column, std::int64_t n, std::int64_t k, float* y, std::int64_t y_stride) {
  constexpr std::int64_t width = Level::value == SimdLevel::avx512 ? 16 : Level::value == SimdLevel::avx2 ? 8 : 4;
  if (row != 1 || (column == 1 && n > 1)) return outer_block(level, x, x_stride, m, b, row, n, k, y, y_stride);
#if defined(__x86_64__)
  if constexpr (Level::value == SimdLevel::avx512) {
    if (k <= 8) return dot_short_block(simd_avx2::Level{}, x, x_stride, m, b, column, n, k, y, y_stride);
  }
#endif
  if (k <= width) return dot_short_block(level, x, x_stride, m, b, column, n, k, y, y_stride);
  if (m == 1 && k <= 1024) return dot_row_block(level, x, b, column, n, k, y);
  dot_block(level, x, x_stride, m, b, column, n, k, y, y_stride);
}

/// What a stretch of results goes through on its way to the output.
template <class Level, class T>
void matmul_finish(Level level, const View<T, 3, Cpu>& out, const MatmulEpilogue<T, Cpu>& epilogue,
                   const PointwiseChain& chain, std::int64_t batch, std::int64_t row, std::int64_t column,
                   std::int64_t columns, const float* y) {
  T* to = out.ptr(batch, row, column);
  const std::int64_t step = out.stride(2);
  if (epilogue.program == nullptr) return finish_row(level, y, nullptr, columns, to, step);
  T product[matmul_chunk];
  T scratch[pointwise_scratch];
  PointwiseSource<T> sources[PointwiseProgram::max_operands];
  if constexpr (std::same_as<T, float>) {
    sources[0] = PointwiseSource<T>(y, 0, 1, 1, columns);
  } else {
    finish_row(level, y, nullptr, columns, product, 1);
    sources[0] = PointwiseSource<T>(product, 0, 1, 1, columns);
  }
  for (int i = 1; i < epilogue.program->operands(); ++i) {
    const View<const T, 3, Cpu>& operand = epilogue.operands[static_cast<std::size_t>(i - 1)];
    sources[i] = PointwiseSource<T>(operand.ptr(batch, row, column), 0, operand.stride(2), 1, columns);
  }
  T* result = step == 1 ? to : scratch + pointwise_result;
  run_pointwise(level, *epilogue.program, chain, sources, result, 1, columns, scratch);
  for (std::int64_t i = 0; i < columns && step != 1; ++i) to[i * step] = result[i];
}

/// Few rows of a. One of b's strides is 1.
template <class Level, class T>
void matmul_few_rows(Level level, Context<Cpu>& ctx, const View<T, 3, Cpu>& out, const View<const T, 3, Cpu>& a,
                     const View<const T, 3, Cpu>& b, const MatmulEpilogue<T, Cpu>& epilogue) {
  const std::int64_t batches = out.size(0);
  const std::int64_t m = out.size(1);
  const std::int64_t n = out.size(2);
  const std::int64_t k = a.size(2);
  Workspace::Scope scope = ctx.workspace().scope();
  const float* rows = nullptr;
  std::int64_t row_stride = k;
  std::int64_t batch_stride = m * k;
  if constexpr (std::same_as<T, float>) {
    if (a.stride(2) == 1 || k <= 1) {
      rows = a.data();
      row_stride = a.stride(1);
      batch_stride = a.stride(0);
    }
  }
  if (rows == nullptr) {
    float* widened = scope.allocate<float>(batches * m * k);
    for (std::int64_t i = 0; i < batches; ++i) {
      widen(level, a.data() + i * a.stride(0), a.stride(1), a.stride(2), m, k, widened + i * m * k, k);
    }
    rows = widened;
  }
  const PointwiseChain chain = epilogue.program != nullptr ? PointwiseChain(*epilogue.program) : PointwiseChain();
  const bool direct = std::same_as<T, float> && epilogue.program == nullptr && out.stride(2) == 1;
  const std::int64_t chunks = ceil_div(n, matmul_chunk);
  const std::int64_t bytes =
      std::max<std::int64_t>(1, std::min(n, matmul_chunk) * k * static_cast<std::int64_t>(sizeof(T)));
  constexpr std::int64_t worth = 131072;  // bytes of b, counted for every row of a, that are worth a thread
  parallel_for(ctx, batches * chunks, ceil_div(worth, bytes * m), [&](std::int64_t begin, std::int64_t end) {
    float results[matmul_rows * matmul_chunk];
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t batch = chunks == 1 ? unit : unit / chunks;
      const std::int64_t column = (unit - batch * chunks) * matmul_chunk;
      const std::int64_t columns = std::min(matmul_chunk, n - column);
      const T* matrix = b.data() + batch * b.stride(0) + column * b.stride(2);
      const float* x = rows + batch * batch_stride;
      if constexpr (std::same_as<T, float>) {
        if (direct) {
          matmul_block(level, x, row_stride, m, matrix, b.stride(1), b.stride(2), columns, k, out.ptr(batch, 0, column),
                       out.stride(1));
          continue;
        }
      }
      matmul_block(level, x, row_stride, m, matrix, b.stride(1), b.stride(2), columns, k, results, matmul_chunk);
      for (std::int64_t i = 0; i < m; ++i) {
        matmul_finish(level, out, epilogue, chain, batch, i, column, columns, results + i * matmul_chunk);
      }
    }
  });
}

/// Whether the product must not be written to `out` before the epilogue has read it.
template <class T>
bool epilogue_reads(const MatmulEpilogue<T, Cpu>& epilogue, const T* out) {
  return std::any_of(epilogue.operands.begin(), epilogue.operands.end(),
                     [&](const View<const T, 3, Cpu>& operand) { return operand.data() == out; });
}

/// Any number of rows and any strides: the products first, then the epilogue.
template <class T>
void matmul_by_linear(Context<Cpu>& ctx, const View<T, 3, Cpu>& out, const View<const T, 3, Cpu>& a,
                      const View<const T, 3, Cpu>& b, const MatmulEpilogue<T, Cpu>& epilogue) {
  Workspace::Scope scope = ctx.workspace().scope();
  const bool apart = epilogue.program != nullptr && epilogue_reads(epilogue, out.data());
  const View<T, 3, Cpu> product = apart ? scratch_tensor<T, 3>(scope, out.sizes()) : out;
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    linear_dispatch<T, T>(ctx, product.select(0, i), a.select(0, i), b.select(0, i).transpose(0, 1), std::nullopt);
  }
  if (epilogue.program == nullptr) return;
  PointwiseView<const T, Cpu> operands[PointwiseProgram::max_operands];
  const auto count = static_cast<std::size_t>(epilogue.program->operands());
  operands[0] = product.unsqueeze(0);
  for (std::size_t i = 1; i < count; ++i) operands[i] = epilogue.operands[i - 1].unsqueeze(0);
  pointwise<T>(ctx, out.unsqueeze(0), std::span<const PointwiseView<const T, Cpu>>(operands, count), *epilogue.program);
}

}  // namespace detail

template <FloatElement T>
void matmul(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> a,
            std::type_identity_t<View<const T, 3, Cpu>> b, const MatmulEpilogue<T, Cpu>& epilogue) {
  detail::check_matmul<T, Cpu>(out, a, b, epilogue);
  if (out.empty()) return;
  if constexpr (!std::same_as<T, double>) {
    if (out.size(1) <= detail::matmul_rows) {
      detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
        if (b.stride(1) == 1 || b.stride(2) == 1) {
          detail::matmul_few_rows<decltype(level), T>(level, ctx, out, a, b, epilogue);
        } else {
          Workspace::Scope scope = ctx.workspace().scope();
          const auto copy = detail::scratch_tensor<T, 3>(scope, b.sizes());
          rearrange<T, 3>(ctx, copy, b);
          detail::matmul_few_rows<decltype(level), T>(level, ctx, out, a, copy, epilogue);
        }
      });
      return;
    }
  }
  detail::matmul_by_linear<T>(ctx, out, a, b, epilogue);
}

TENON_NAMESPACE_END
