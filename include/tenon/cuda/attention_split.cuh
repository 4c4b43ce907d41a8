// Attention of few queries: the keys are split over the card. Of the blocks of a kv head, the one that ends last joins the
// results in the order of the ranges.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/attention_plain.cuh>
#include <tenon/cuda/attention_range.cuh>
#include <tenon/cuda/attention_tile.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Passes the results of all `splits` ranges to write(row, column, value), in the block that ends last, and returns true
/// there. `partial` has split_rows rows of split_row_size for each range, `ticket` is 0 before and after.
template <class Range, class C, class Write>
__device__ __forceinline__ bool join_ranges(Range& range, C* partial, unsigned* ticket, int split, int splits, int rows,
                                            int dv, Write&& write) {
  auto* const memory = range.memory;
  if (splits == 1) {
    range.each(dv, [&](int row, int column, C sum) {
      if (row < rows && column < dv) write(row, column, sum / memory->sum[row]);
    });
    return true;
  }
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row_size = split_row_size(dv);
  const std::int64_t split_size = split_rows * row_size;
  C* const mine = partial + split * split_size;
  range.each(dv, [&](int row, int column, C sum) {
    if (row < rows && column < dv) mine[row * row_size + column] = sum;
  });
  if (thread < rows) {
    mine[thread * row_size + row_size - 4] = memory->top[thread];
    mine[thread * row_size + row_size - 3] = memory->sum[thread];
    for (int column = dv; column < row_size - 4; ++column) mine[thread * row_size + column] = C(0);  // read as packs
  }
  __syncthreads();
  if (thread == 0) {
    __threadfence();  // what the block wrote is seen before its ticket, and what others wrote after theirs
    memory->flag = atomicAdd(ticket, 1u) == static_cast<unsigned>(splits) - 1u ? 1u : 0u;
    __threadfence();
  }
  __syncthreads();
  if (memory->flag == 0) return false;

  // Loads pass the first cache, which others do not write to. Those of the first sums are on their way while the factors
  // are computed: what each range's sums count.
  constexpr int width = pack_size<C>;
  constexpr int batch = 16 / static_cast<int>(sizeof(C) / 4);
  const int packs = (dv + width - 1) / width;
  int4 loaded[batch];
  const auto load = [&](int item, int first) {
    const C* from = partial + item / packs * row_size + item % packs * width;
#pragma unroll
    for (int k = 0; k < batch; ++k) {
      loaded[k] = first + k < splits ? __ldcg(reinterpret_cast<const int4*>(from + (first + k) * split_size))
                                     : int4{0, 0, 0, 0};
    }
  };
  if (thread < rows * packs) load(thread, 0);
  C* const table = range.table();
  if (const int row = thread / 32; row < rows) {
    using Two = std::conditional_t<std::is_same_v<C, double>, double2, float2>;
    constexpr int most = split_most / 32;
    Two numbers[most];  // top and sum of ranges lane, lane + 32, ...
    C top = no_score<C>;
#pragma unroll
    for (int k = 0; k < most; ++k) {
      const int s = thread % 32 + 32 * k;
      numbers[k].x = no_score<C>;
      numbers[k].y = C(0);
      if (s < splits) {
        numbers[k] = __ldcg(reinterpret_cast<const Two*>(partial + s * split_size + (row + 1) * row_size - 4));
      }
    }
#pragma unroll
    for (int k = 0; k < most; ++k) top = larger_score(top, numbers[k].x);
    top = score_base(warp_max(top));
    C sum = C(0);
#pragma unroll
    for (int k = 0; k < most; ++k) {
      const C factor = power_of_two(numbers[k].x - top);
      table[row * split_most + thread % 32 + 32 * k] = factor;
      sum += factor * numbers[k].y;
    }
    sum = warp_sum(sum);
    if (thread % 32 == 0) memory->sum[row] = sum;
  }
  __syncthreads();
  for (int item = thread; item < rows * packs; item += split_threads) {
    const int row = item / packs;
    C sums[width] = {};
    for (int s = 0; s < splits; s += batch) {
      if (item != thread || s != 0) load(item, s);
#pragma unroll
      for (int k = 0; k < batch; ++k) {
        const auto pack = __builtin_bit_cast(Pack<C, width>, loaded[k]);
        const C factor = table[row * split_most + s + k];
#pragma unroll
        for (int e = 0; e < width; ++e) sums[e] += factor * pack.value[e];
      }
    }
#pragma unroll
    for (int e = 0; e < width; ++e) {
      const int column = item % packs * width + e;
      if (column < dv) write(row, column, sums[e] / memory->sum[row]);
    }
  }
  if (thread == 0) *ticket = 0;
  return true;
}

/// Block (split, unit): rows 8 (unit % row_groups) and following of kv head unit / row_groups, where row r is query
/// r / group of the head's r % group-th head.
template <class Range, class K>
__global__ void __launch_bounds__(split_threads, 2)
    attention_split_kernel(const __grid_constant__ AttentionArguments<K> a, compute_t<K>* partial, unsigned* tickets,
                           std::int64_t length, int splits, std::int64_t row_groups) {
  using C = compute_t<K>;
  extern __shared__ __align__(1024) unsigned char attention_memory[];
  wait_for_previous();
  Range range(attention_memory);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int split = static_cast<int>(blockIdx.x % static_cast<unsigned>(splits));
  const std::int64_t unit = blockIdx.x / static_cast<unsigned>(splits);
  const std::int64_t kv_head = unit / row_groups;
  const std::int64_t first_row = unit % row_groups * split_rows;
  const int rows = clamp_count(a.tokens * a.group - first_row, split_rows);
  const auto token_of = [&](int row) { return (first_row + row) / a.group; };
  const auto head_of = [&](int row) { return kv_head * a.group + (first_row + row) % a.group; };

  SplitKeys<K> in{};
  in.keys = a.k + kv_head * a.k_strides.head;
  in.values = a.v + kv_head * a.v_strides.head;
  in.key_token = a.k_strides.token;
  in.key_column = a.k_strides.column;
  in.value_token = a.v_strides.token;
  in.value_column = a.v_strides.column;
  in.first = a.begin(0) + split * length;
  in.last = in.first + length < a.kv_tokens ? in.first + length : a.kv_tokens;
  in.fresh = -1;
  in.d = static_cast<int>(a.d);
  in.dv = static_cast<int>(a.dv);
  in.scale = a.scale;
  range.start(in);

  SplitRow<C> state{0, 0};
  if (warp < rows) {
    state.begin = a.begin(token_of(warp));
    state.end = a.end(token_of(warp));
    const K* q = a.q + token_of(warp) * a.q_strides.token + head_of(warp) * a.q_strides.head;
    for (int c = lane; c < (in.d > Range::columns ? in.d : Range::columns); c += 32) {
      range.set_query(warp, c, c < in.d ? q[c * a.q_strides.column] : narrow<K>(C(0)));
    }
  }
  if (threadIdx.x == 0) range.memory->again = 0;
  range.run(in, state);
  const std::int64_t size = splits * split_rows * split_row_size(a.dv);
  const bool wrote = join_ranges(
      range, partial + unit * size, tickets + unit, split, splits, rows, in.dv, [&](int row, int column, C value) {
        if (a.end(token_of(row)) <= 0) value = C(0);
        if (!(value - value == C(0))) atomicOr(&range.memory->again, 1u << row);
        a.out[token_of(row) * a.out_strides.token + head_of(row) * a.out_strides.head + column * a.out_strides.column] =
            narrow<K>(value);
      });
  // As in the kernel of tiles: what is not finite is computed again from what the query sees alone.
  if (!wrote) return;
  __syncthreads();
  if (((range.memory->again >> warp) & 1u) != 0) attend_row(a, token_of(warp), head_of(warp));
}

template <class Range, class K>
bool launch_attention_ranges(Context<Cuda>& ctx, const AttentionArguments<K>& a) {
  using C = compute_t<K>;
  const auto device = ctx.activate();
  const auto kernel = attention_split_kernel<Range, K>;
  if (Range::columns != 0 && !built_for(kernel, 80)) return false;
  LaunchShape shape;
  shape.shared_bytes = sizeof(typename Range::Memory);
  if (shape.shared_bytes > ctx.properties().shared_bytes_per_block) return false;
  const std::int64_t row_groups = ceil_div(a.tokens * a.group, std::int64_t{split_rows});
  const std::int64_t units = a.heads / a.group * row_groups;
  if (units > 1 << 20) return false;
  const std::int64_t keys = a.kv_tokens > a.begin(0) ? a.kv_tokens - a.begin(0) : 0;
  const std::int64_t fill = 2 * ctx.properties().multiprocessors / units;
  const auto rows = static_cast<int>(std::min<std::int64_t>(a.tokens * a.group, split_rows));
  const std::int64_t length =
      split_length(keys, rows, static_cast<int>(sizeof(K)), std::clamp<std::int64_t>(fill, 1, split_most));
  const std::int64_t splits = keys > length ? ceil_div(keys, length) : 1;
  shape.grid = dim3(static_cast<unsigned>(splits * units));
  shape.block = dim3(split_threads);
  shape.dependent = splits == 1;
  auto scope = ctx.workspace().scope();
  C* partial = nullptr;
  unsigned* tickets = nullptr;
  if (splits > 1) {
    partial = scope.template allocate<C>(splits * units * split_rows * split_row_size(a.dv));
    tickets = scope.template allocate<unsigned>(units);
    check_cuda(cudaMemsetAsync(tickets, 0, static_cast<std::size_t>(units) * sizeof(unsigned), ctx.stream()),
               "self_attention");
  }
  launch(ctx, "self_attention", shape, kernel, a, partial, tickets, length, static_cast<int>(splits), row_groups);
  return true;
}

/// false where the sizes do not fit. With `aligned`, rows of 16-bit types lie at multiples of 16 bytes.
template <class K>
bool launch_attention_split(Context<Cuda>& ctx, const AttentionArguments<K>& a, bool aligned) {
  const std::int64_t most = a.d > a.dv ? a.d : a.dv;
  if (most > 256) return false;
  if constexpr (sizeof(K) == 2) {
    if (aligned && a.d % 8 == 0 && a.dv % 8 == 0 && most <= 128) {
      if (most <= 64 && launch_attention_ranges<SplitTensor<K, 64>>(ctx, a)) return true;
      if (most > 64 && launch_attention_ranges<SplitTensor<K, 128>>(ctx, a)) return true;
    }
  }
  return launch_attention_ranges<SplitPlain<K>>(ctx, a);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
