// matmul on CUDA: which of the products serves a call.
//
//   matmul_rows.cuh  up to eight rows: limited by reading b; no scratch memory
//   cublas.hpp       more rows: limited by arithmetic; the epilogue follows as a pass of pointwise over the result
//   this file        layouts that neither takes
//
// A product by cuBLASLt takes scratch memory of the context where an operand of the epilogue is `out` itself, and where the
// algorithm needs some. Both belong to the context and are there after the first call of a shape, so a graph may be
// captured from the second on, while the context lives and its other calls are in the same stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include <tenon/core/math.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/matmul_output.cuh>
#include <tenon/cuda/matmul_rows.cuh>
#include <tenon/cuda/pointwise.cuh>
#include <tenon/ops/matmul.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Any sizes and strides, in tiles of 64 x 64 by 256 threads.
template <class T>
__global__ void __launch_bounds__(256) matmul_tile_kernel(const __grid_constant__ MatmulFactors<kernel_t<T>> f,
                                                          const __grid_constant__ MatmulOutput<T> output) {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  constexpr int tile = 64;
  constexpr int depth = 16;
  __shared__ Acc a_tile[depth][tile + 1];
  __shared__ Acc b_tile[depth][tile + 1];
  wait_for_previous();
  const int thread = static_cast<int>(threadIdx.x);
  const int across = thread % 16;
  const int down = thread / 16;
  const std::int64_t tiles_down = ceil_div(f.m, std::int64_t{tile});
  const std::int64_t tiles_across = ceil_div(f.k, std::int64_t{tile});
  const std::int64_t tiles = f.batches * tiles_down * tiles_across;
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t batch = i / (tiles_down * tiles_across);
    const std::int64_t in_batch = i - batch * tiles_down * tiles_across;
    const std::int64_t top = in_batch / tiles_across * tile;
    const std::int64_t left = in_batch % tiles_across * tile;
    const K* a = f.a + batch * f.a_strides[0];
    const K* b = f.b + batch * f.b_strides[0];
    Acc sums[4][4] = {};
    for (std::int64_t from = 0; from < f.n; from += depth) {
      for (int e = thread; e < tile * depth; e += 256) {
        const int at = e / depth;
        const int p = e % depth;
        const bool inside = from + p < f.n;
        a_tile[p][at] =
            inside && top + at < f.m ? widen(a[(top + at) * f.a_strides[1] + (from + p) * f.a_strides[2]]) : Acc(0);
        b_tile[p][at] =
            inside && left + at < f.k ? widen(b[(from + p) * f.b_strides[1] + (left + at) * f.b_strides[2]]) : Acc(0);
      }
      __syncthreads();
#pragma unroll
      for (int p = 0; p < depth; ++p) {
#pragma unroll
        for (int r = 0; r < 4; ++r) {
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            sums[r][c] = fma(a_tile[p][down + 16 * r], b_tile[p][across + 16 * c], sums[r][c]);
          }
        }
      }
      __syncthreads();
    }
    // One copy of the epilogue for the sixteen sums, which shift down a place after each.
#pragma unroll 1
    for (int item = 0; item < 16; ++item) {
      const std::int64_t row = top + down + item / 4 * 16;
      const std::int64_t column = left + across + item % 4 * 16;
      if (row < f.m && column < f.k) {
        typename MatmulOutput<T>::Extra extra{};
        output.fetch(extra, batch, row, column);
        output.put(batch, row, column, sums[0][0], extra);
      }
#pragma unroll
      for (int e = 0; e < 15; ++e) sums[e / 4][e % 4] = sums[(e + 1) / 4][(e + 1) % 4];
    }
  }
}

template <class T>
void matmul_tiles(Context<Cuda>& ctx, const MatmulFactors<kernel_t<T>>& f, const MatmulOutput<T>& output) {
  LaunchShape shape;
  const std::int64_t tiles = f.batches * ceil_div(f.m, std::int64_t{64}) * ceil_div(f.k, std::int64_t{64});
  shape.grid = dim3(grid_blocks(tiles, 1, 1 << 20));
  shape.block = dim3(256);
  shape.dependent = true;
  launch(ctx, "matmul", shape, matmul_tile_kernel<T>, f, output);
}

/// How cuBLASLt sees the matrices of a batch.
struct MatmulLayout {
  bool by_columns = false;  ///< columns are contiguous, not rows
  std::int64_t distance = 0;
  std::uint32_t alignment = 1;
};
/// Nothing where neither rows nor columns are contiguous and one after another.
template <class T>
std::optional<MatmulLayout> matmul_layout(const View<const T, 3, Cuda>& x) {
  constexpr std::int64_t size = sizeof(T);
  const auto in_order = [&](std::int64_t rows, std::int64_t row, std::int64_t columns, std::int64_t column) {
    return (columns <= 1 || column == 1) && (rows <= 1 || row >= columns);
  };
  const auto make = [&](bool by_columns, std::int64_t lines, std::int64_t stride, std::int64_t length) {
    MatmulLayout result;
    result.by_columns = by_columns;
    result.distance = lines <= 1 ? align_up<std::int64_t>(length, 16 / size) : stride;
    result.alignment = row_alignment(x.data(), result.distance * size);
    if (x.size(0) > 1) result.alignment = std::min(result.alignment, row_alignment(x.data(), x.stride(0) * size));
    return result;
  };
  if (in_order(x.size(1), x.stride(1), x.size(2), x.stride(2))) return make(false, x.size(1), x.stride(1), x.size(2));
  if (in_order(x.size(2), x.stride(2), x.size(1), x.stride(1))) return make(true, x.size(2), x.stride(2), x.size(1));
  return std::nullopt;
}

/// out = a · b by cuBLASLt; false where it has no algorithm for that, and nothing is written then.
template <class T>
bool matmul_cublas(Context<Cuda>& ctx, const View<T, 3, Cuda>& out, const View<const T, 3, Cuda>& a,
                   const View<const T, 3, Cuda>& b) {
  const auto to = matmul_layout<T>(out);
  const auto left = matmul_layout<T>(a);
  const auto right = matmul_layout<T>(b);
  if (!to || to->by_columns || !left || !right) return false;
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (std::max({out.size(0), to->distance, left->distance, right->distance}) > most) return false;
  ProductShape shape;
  shape.dtype = dtype_of<T>;
  shape.out_dtype = dtype_of<T>;
  shape.m = out.size(1);
  shape.n = out.size(2);
  shape.k = a.size(2);
  shape.out_row = to->distance;
  shape.in_row = left->distance;
  shape.weight_row = right->distance;
  // b (n, k) by rows is the transposed weight by columns.
  shape.in_by_columns = left->by_columns;
  shape.weight_by_columns = !right->by_columns;
  shape.batch = static_cast<std::int32_t>(out.size(0));
  if (shape.batch > 1) {
    shape.out_batch = out.stride(0);
    shape.in_batch = a.stride(0);
    shape.weight_batch = b.stride(0);
  }
  shape.out_alignment = to->alignment;
  shape.in_alignment = left->alignment;
  shape.weight_alignment = right->alignment;
  const auto device = ctx.activate();
  return ctx.cublas().multiply(ctx.stream(), shape, out.data(), a.data(), b.data(), nullptr);
}

template <class T>
PointwiseView<T, Cuda> matmul_pointwise_view(const View<T, 3, Cuda>& x) {
  return x.unsqueeze(0);
}

/// The product by cuBLASLt and then the epilogue; false as above.
template <class T>
bool matmul_large(Context<Cuda>& ctx, const View<T, 3, Cuda>& out, const View<const T, 3, Cuda>& a,
                  const View<const T, 3, Cuda>& b, const MatmulEpilogue<T, Cuda>& epilogue) {
  if (epilogue.program == nullptr) return matmul_cublas<T>(ctx, out, a, b);
  const auto operands = epilogue.operands.first(static_cast<std::size_t>(epilogue.program->operands() - 1));
  auto scope = ctx.workspace().scope();
  View<T, 3, Cuda> product = out;
  const bool in_place =
      std::any_of(operands.begin(), operands.end(), [&](const auto& x) { return x.data() == out.data(); });
  if (in_place) product = {scope.template allocate<T>(out.numel()), out.sizes()};
  if (!matmul_cublas<T>(ctx, product, a, b)) return false;
  std::array<PointwiseView<const T, Cuda>, PointwiseProgram::max_operands> inputs;
  inputs[0] = matmul_pointwise_view<const T>(product);
  for (std::size_t i = 0; i < operands.size(); ++i) inputs[i + 1] = matmul_pointwise_view<const T>(operands[i]);
  pointwise_checked<T>(ctx, "matmul", matmul_pointwise_view<T>(out), inputs, *epilogue.program);
  return true;
}

template <class T>
void matmul_dispatch(Context<Cuda>& ctx, const View<T, 3, Cuda>& out, const View<const T, 3, Cuda>& a,
                     const View<const T, 3, Cuda>& b, const MatmulEpilogue<T, Cuda>& epilogue) {
  const MatmulFactors<kernel_t<T>> factors = matmul_factors<T>(a, b);
  if (factors.m > matmul_max_rows) {
    if (factors.n > 0 && matmul_large<T>(ctx, out, a, b, epilogue)) return;
    return matmul_tiles<T>(ctx, factors, MatmulOutput<T>(out, epilogue));
  }
  const MatmulOutput<T> output(out, epilogue);
  if (matmul_gemv<T>(ctx, a, b, output)) return;
  const bool rows = b.stride(2) == 1 && factors.k > 1;
  if (!rows && b.stride(1) == 1 && factors.n > 1) {
    matmul_dots<T>(ctx, factors, output);
  } else {
    matmul_columns<T>(ctx, factors, output);
  }
}

}  // namespace detail

template <FloatElement T>
void matmul(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> a,
            std::type_identity_t<View<const T, 3, Cuda>> b, const MatmulEpilogue<T, Cuda>& epilogue) {
  detail::check_matmul<T, Cuda>(out, a, b, epilogue);
  detail::check_devices(ctx, "matmul", out.data(), a.data(), b.data());
  for (const auto& operand : epilogue.operands) detail::check_devices(ctx, "matmul", operand.data());
  if (out.empty()) return;
  detail::matmul_dispatch<T>(ctx, out, a, b, epilogue);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
