// Products of one to eight rows with a matrix, limited by reading the matrix: it is streamed once, past the caches.
//
// A block has an even share of the matrix's rows and keeps the other factor in shared memory. A warp takes whole rows, a
// few at a time, in batches of 16-byte loads, of which the next one is always under way while one is multiplied. Rows that
// do not fill the last round of a block's warps are split over several of them. Which loads and sums a result is made
// of depends on the shapes and the device alone, and so do its bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cuda/decode_linear.hpp>
#include <tenon/cuda/gemv_operands.cuh>
#include <tenon/cuda/gemv_plan.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// results = the rows that `input` stages, times the matrix. M: rows of the input, the ones past its last are zeros. R:
/// rows of the matrix in a unit; with Output::streams == 2 they are rows r and results + r. C: 16-byte loads of each of them
/// in a batch. Early: the matrix is no kernel's output, so its first batch is loaded before the kernel before has ended.
template <class T, class W, int M, int R, int C, bool Early, class Input, class Output>
__global__ void __launch_bounds__(gemv_threads, 1)
    gemv_kernel(const kernel_t<W>* weight, std::int64_t row_stride, std::int64_t results, const GemvPlan plan,
                const Input input, const Output output) {
  using KW = kernel_t<W>;
  using Acc = compute_t<kernel_t<T>>;
  using Extra = typename Output::Extra;
  constexpr int V = pack_size<KW>;
  constexpr int N = R * M;
  constexpr int streams = Output::streams;
  constexpr int chains = N >= 4 ? 1 : 4 / N;  // sums of one result that do not wait for each other
  constexpr int lanes = 32 / N;               // that hold the same result
  static_assert(streams == 1 || (R == 2 && M == 1));
  static_assert(Early || std::is_empty_v<typename Input::Early>);

  extern __shared__ __align__(16) unsigned char gemv_shared[];
  __shared__ Acc scratch[32];
  __shared__ Acc partial[gemv_warps * N];
  auto* staged = reinterpret_cast<Words*>(gemv_shared);

  if constexpr (!Early) wait_for_previous();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int block = static_cast<int>(blockIdx.x);
  const std::int64_t first = static_cast<std::int64_t>(block) * plan.per_block + min(block, plan.extra);
  const GemvWalk<32, C> walk{block < plan.extra ? plan.extra_share : plan.share, warp, plan.vectors, plan.step};
  const int pieces = walk.pieces();

  // This lane's first vector of each row of a batch. The next ones follow at distances of 32.
  const auto find = [&](const KW*(&from)[R], const GemvCursor& cursor) {
    const std::int64_t unit = first + cursor.unit;
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const std::int64_t row = streams == 2 ? r * results + unit : min(unit * R + r, results - 1);
      from[r] = weight + row * row_stride + static_cast<std::int64_t>(cursor.at + lane) * V;
    }
  };
  // Vectors of this lane in a batch, times 32.
  const auto count = [&](const GemvCursor& cursor) {
    return min(cursor.at + cursor.step, cursor.end) - cursor.at - lane;
  };
  // The result that this lane hands out for a unit, and what it needs for that.
  const int lane_row = lane / lanes / M;
  const int lane_column = streams == 2 ? 0 : lane / lanes % M;
  const auto result_row = [&](int unit) { return streams == 2 ? first + unit : (first + unit) * R + lane_row; };
  const auto extra_of = [&](int unit) { return output.early(min(result_row(unit), results - 1), lane_column); };
  const auto complete = [&](Extra& extra, int unit) {
    output.late(extra, min(result_row(unit), results - 1), lane_column);
  };
  // Results of the split round are put together by the first threads, one each.
  constexpr int per_unit = N / streams;
  const int thread = static_cast<int>(threadIdx.x);
  const bool joins = walk.split() && thread < walk.share.rest * per_unit;
  const std::int64_t joined_unit = first + walk.share.rounds * gemv_warps + thread / per_unit;
  const std::int64_t joined_row = streams == 2 ? joined_unit : joined_unit * R + thread % per_unit / M;
  const int joined_column = streams == 2 ? 0 : thread % per_unit % M;

  // The batch that is multiplied; as soon as a part of it has been, the same part of the next one is asked for.
  Words batch[C][R];
  GemvCursor now = walk.start(0);
  int have = pieces > 0 ? count(now) : 0;
  {
    const KW* from[R];
    find(from, now);
#pragma unroll
    for (int i = 0; i < C; ++i) {
#pragma unroll
      for (int r = 0; r < R; ++r) load_words_once(batch[i][r], from[r] + i * 32 * V, 32 * i < have);
    }
  }
  const typename Input::Early early = input.early();
  Extra extra{};
  Extra joined_extra{};
  if (pieces > 0) extra = extra_of(now.unit);
  if (joins) joined_extra = output.early(min(joined_row, results - 1), joined_column);
  if constexpr (Early) wait_for_previous();
  input.template stage<M, W>(staged, scratch, plan.vectors, plan.vectors, early);
  __syncthreads();

  if (pieces > 0) complete(extra, now.unit);
  if (joins) output.late(joined_extra, min(joined_row, results - 1), joined_column);
  Acc sums[N][chains] = {};
#pragma unroll 1
  while (true) {
    const GemvCursor ahead = walk.next(now);
    const bool more = ahead.piece < pieces;
    if (pieces == 0) break;

    const KW* from[R];
    find(from, ahead);
    const int coming = more ? count(ahead) : 0;
#pragma unroll
    for (int i = 0; i < C; ++i) {
      if (32 * i < have) {
        Acc w[R][V];
#pragma unroll
        for (int r = 0; r < R; ++r) unpack<KW>(w[r], batch[i][r]);
#pragma unroll
        for (int j = 0; j < M; ++j) {
          Acc x[V];
          load_staged<T, W>(x, staged, j, now.at + 32 * i + lane, plan.vectors);
#pragma unroll
          for (int e = 0; e < V; ++e) {
#pragma unroll
            for (int r = 0; r < R; ++r) {
              Acc& sum = sums[r * M + j][e % chains];
              sum = fma(w[r][e], x[e], sum);
            }
          }
        }
      }
#pragma unroll
      for (int r = 0; r < R; ++r) load_words_once(batch[i][r], from[r] + i * 32 * V, 32 * i < coming);
      __syncwarp();  // the compiler would gather the loads behind the last product
    }

    if (ahead.piece != now.piece) {
      Acc totals[N];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        totals[i] = sums[i][0];
#pragma unroll
        for (int c = 1; c < chains; ++c) totals[i] += sums[i][c];
#pragma unroll
        for (int c = 0; c < chains; ++c) sums[i][c] = 0;
      }
      const Acc total = warp_sums(totals);
      if (walk.whole(now)) {
        Acc values[streams] = {total};
        if constexpr (streams == 2) values[1] = __shfl_down_sync(whole_warp, total, 16);
        const bool mine = streams == 2 ? lane == 0 : lane % lanes == 0;
        const std::int64_t row = result_row(now.unit);
        if (mine && row < results) output.write(row, lane_column, values, extra);
      } else if (lane % lanes == 0) {
        partial[warp * N + lane / lanes] = total;
      }
      if (more) {
        extra = extra_of(ahead.unit);
        complete(extra, ahead.unit);
      }
    }
    if (!more) break;
    now = ahead;
    have = coming;
  }

  if (!walk.split()) return;
  __syncthreads();
  if (!joins || joined_row >= results) return;
  Acc values[streams] = {};
  for (int s = 0; s < walk.share.slices; ++s) {
#pragma unroll
    for (int q = 0; q < streams; ++q) {
      values[q] += partial[(thread / per_unit * walk.share.slices + s) * N + q * per_unit + thread % per_unit];
    }
  }
  output.write(joined_row, joined_column, values, joined_extra);
}

template <class T, class W, int M, int R, int C, bool Early, class Input, class Output>
void launch_gemv(Context<Cuda>& ctx, std::string_view op, const W* weight, std::int64_t row_stride,
                 std::int64_t results, std::int64_t columns, const Input& input, const Output& output) {
  const std::int64_t units = Output::streams == 2 ? results : ceil_div(results, std::int64_t{R});
  const std::int64_t blocks = std::min<std::int64_t>(units, ctx.properties().multiprocessors);
  GemvPlan plan;
  plan.per_block = static_cast<int>(units / blocks);
  plan.extra = static_cast<int>(units % blocks);
  plan.vectors = static_cast<int>(columns / pack_size<kernel_t<W>>);
  const int chunks = ceil_div(plan.vectors, 32);
  plan.step = 32 * ceil_div(chunks, ceil_div(chunks, C));
  plan.share = GemvShare::of(plan.per_block, plan.vectors, 32);
  plan.extra_share = GemvShare::of(plan.per_block + 1, plan.vectors, 32);
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(blocks));
  shape.block = dim3(gemv_threads);
  shape.shared_bytes = static_cast<std::size_t>(columns) * M * sizeof(T);
  shape.dependent = true;
  launch(ctx, op, shape, gemv_kernel<T, W, M, R, C, Early, Input, Output>, kernel_pointer(weight), row_stride, results,
         plan, input, output);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
