// Products of five to eight rows with a matrix, all of one 16-bit type: as gemv.cuh, with the multiplying left to tensor
// cores, because that many products and conversions for each element would take longer than reading it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cuda/gemv_operands.cuh>
#include <tenon/cuda/gemv_plan.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

inline constexpr int tensor_rows = 16;    // of the matrix in a unit
inline constexpr int tensor_columns = 8;  // rows of the input
inline constexpr int tensor_chunk = 4;    // vectors of a row in one load of a warp: 8 rows of 4 lanes

/// results = the rows that `input` stages, times the matrix. A unit is 16 rows of the matrix, the last of a block fewer.
/// Lane 4 g + t loads vector t of a chunk from rows g and g + 8, and multiplies by the same vector of input row g: which
/// element counts as which column of a tile does not matter, as long as both sides agree. C: chunks in a batch.
template <class T, int C>
__global__ void __launch_bounds__(gemv_threads, 1)
    gemv_tensor_kernel(const kernel_t<T>* weight, std::int64_t row_stride, const GemvPlan plan, int pitch,
                       const RowsInput<T> input, const LinearOutput<T, T> output) {
  using K = kernel_t<T>;
  using Extra = typename LinearOutput<T, T>::Extra;
  constexpr int V = pack_size<K>;
  constexpr int tile = tensor_rows * tensor_columns;
  extern __shared__ __align__(16) unsigned char gemv_shared[];
  __shared__ float partial[gemv_warps * tile];
  auto* staged = reinterpret_cast<Words*>(gemv_shared);

  wait_for_previous();
  const int g = static_cast<int>(threadIdx.x) % 32 / 4;
  const int t = static_cast<int>(threadIdx.x) % 4;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int block = static_cast<int>(blockIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(block) * plan.per_block + min(block, plan.extra);
  const int rows = plan.per_block + (block < plan.extra ? 1 : 0);
  const GemvWalk<tensor_chunk, C> walk{block < plan.extra ? plan.extra_share : plan.share, warp, plan.vectors,
                                       plan.step};
  const int pieces = walk.pieces();

  // Vectors of a batch.
  const auto count = [&](const GemvCursor& cursor) {
    return max(min(cursor.at + cursor.step, cursor.end) - cursor.at, 0);
  };
  // This lane's first vectors of a batch, and how many of the batch there are in those rows.
  const auto find = [&](const K*(&from)[2], int(&counts)[2], const GemvCursor& cursor, bool any) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = cursor.unit * tensor_rows + 8 * r + g;
      from[r] = weight + (first + min(row, rows - 1)) * row_stride + static_cast<std::int64_t>(cursor.at + t) * V;
      counts[r] = any && row < rows ? count(cursor) - t : 0;
    }
  };
  const auto extra_of = [&](int unit, int r) {
    return output.early(first + min(unit * tensor_rows + 8 * r + g, rows - 1), 0);
  };

  Words batch[C][2];
  GemvCursor now = walk.start(0);
  {
    const K* from[2];
    int counts[2];
    find(from, counts, now, pieces > 0);
#pragma unroll
    for (int i = 0; i < C; ++i) {
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        load_words_once(batch[i][r], from[r] + i * tensor_chunk * V, tensor_chunk * i < counts[r]);
      }
    }
  }
  input.template stage<tensor_columns, T>(staged, static_cast<float*>(nullptr), plan.vectors, pitch, {});
  __syncthreads();

  float sums[2][4] = {};  // even and odd products, which do not wait for each other
  Extra extra[2] = {};
  if (pieces > 0) {
    extra[0] = extra_of(now.unit, 0);
    extra[1] = extra_of(now.unit, 1);
  }
#pragma unroll 1
  while (pieces > 0) {
    const GemvCursor ahead = walk.next(now);
    const bool more = ahead.piece < pieces;
    const int have = count(now);
    const K* from[2];
    int counts[2];
    find(from, counts, ahead, more);
#pragma unroll
    for (int i = 0; i < C; ++i) {
      if (tensor_chunk * i < have) {
        Words x{};
        Words upper{};
        Words lower{};
        if (tensor_chunk * i + t < have) {
          x = staged[g * pitch + now.at + tensor_chunk * i + t];
          upper = batch[i][0];
          lower = batch[i][1];
        }
        multiply_add<K>(sums[0], upper.value[0], lower.value[0], upper.value[1], lower.value[1], x.value[0],
                        x.value[1]);
        multiply_add<K>(sums[1], upper.value[2], lower.value[2], upper.value[3], lower.value[3], x.value[2],
                        x.value[3]);
      }
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        load_words_once(batch[i][r], from[r] + i * tensor_chunk * V, tensor_chunk * i < counts[r]);
      }
      __syncwarp();  // the compiler would gather the loads behind the last product
    }

    if (ahead.piece != now.piece) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float total = sums[0][e] + sums[1][e];
        const int row = 8 * (e / 2) + g;
        const int column = 2 * t + e % 2;
        const int block_row = now.unit * tensor_rows + row;
        if (!walk.whole(now)) {
          partial[warp * tile + row * tensor_columns + column] = total;
        } else if (block_row < rows) {
          output.write(first + block_row, column, {total}, extra[e / 2]);
        }
        sums[0][e] = 0;
        sums[1][e] = 0;
      }
      if (more) {
        extra[0] = extra_of(ahead.unit, 0);
        extra[1] = extra_of(ahead.unit, 1);
      }
    }
    if (!more) break;
    now = ahead;
  }

  if (!walk.split()) return;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < walk.share.rest * tile; i += gemv_threads) {
    const int unit = i / tile;
    const int block_row = (walk.share.rounds * gemv_warps + unit) * tensor_rows + i % tile / tensor_columns;
    if (block_row >= rows) continue;
    float total = 0;
    for (int s = 0; s < walk.share.slices; ++s) total += partial[(unit * walk.share.slices + s) * tile + i % tile];
    const int column = i % tensor_columns;
    output.write(first + block_row, column, {total}, output.early(first + block_row, column));
  }
}

/// Slots of shared memory from one row of the input to the next: eight lanes read two rows at a time, from different banks.
constexpr int tensor_pitch(int vectors) noexcept { return vectors + (12 - vectors % 8) % 8; }

/// Whether gemv_tensor_kernel takes rows of `columns` elements and a matrix whose rows lie like this.
template <class T>
bool gemv_tensor_fits(const Context<Cuda>& ctx, const T* weight, std::int64_t row_stride, std::int64_t results,
                      std::int64_t columns) {
  return gemv_fits<T>(ctx, weight, row_stride, results, columns + 8 * 8, tensor_columns);
}

template <class T>
void launch_gemv_tensor(Context<Cuda>& ctx, std::string_view op, const T* weight, std::int64_t row_stride,
                        std::int64_t results, std::int64_t columns, const RowsInput<T>& input,
                        const LinearOutput<T, T>& output) {
  constexpr int C = 8;
  const std::int64_t blocks = std::min<std::int64_t>(results, ctx.properties().multiprocessors);
  GemvPlan plan;
  plan.per_block = static_cast<int>(results / blocks);
  plan.extra = static_cast<int>(results % blocks);
  plan.vectors = static_cast<int>(columns / pack_size<kernel_t<T>>);
  const int chunks = ceil_div(plan.vectors, tensor_chunk);
  plan.step = tensor_chunk * ceil_div(chunks, ceil_div(chunks, C));
  plan.share = GemvShare::of(ceil_div(plan.per_block, tensor_rows), plan.vectors, tensor_chunk);
  plan.extra_share = GemvShare::of(ceil_div(plan.per_block + 1, tensor_rows), plan.vectors, tensor_chunk);
  const int pitch = tensor_pitch(plan.vectors);
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(blocks));
  shape.block = dim3(gemv_threads);
  shape.shared_bytes = static_cast<std::size_t>(pitch) * tensor_columns * sizeof(Words);
  shape.dependent = true;
  launch(ctx, op, shape, gemv_tensor_kernel<T, C>, kernel_pointer(weight), row_stride, plan, pitch, input, output);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
