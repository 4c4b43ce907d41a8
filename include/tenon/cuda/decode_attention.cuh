// decode_attention: the ranges of attention_split.cuh for one token, with rope and the append to the cache before them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numbers>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/attention_plain.cuh>
#include <tenon/cuda/attention_range.cuh>
#include <tenon/cuda/attention_split.cuh>
#include <tenon/cuda/decode_attention.hpp>
#include <tenon/cuda/elementwise.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/rope.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

static_assert(decode_attention_rows == split_rows && decode_attention_most_splits == split_most);

/// How the keys that a position sees are split: evaluated where the kernel runs, for the length at hand.
struct DecodeRanges {
  std::int64_t first;   ///< key
  std::int64_t length;  ///< of a range
  int count;
};
template <class I>
__device__ __forceinline__ DecodeRanges decode_ranges(I last, I window, int rows, int element_bytes, I most) {
  const I first = last > window ? last - window : I{0};
  const I length = split_length(last - first, rows, element_bytes, most);
  return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(length),
          static_cast<int>(ceil_div(last - first, length))};
}

/// Block (split, unit) has split % 8 heads of a kv head, and one range of its keys, if there are so many. Blocks of one
/// split lie together, so that those at work are on different multiprocessors. The block whose range ends with the new row
/// has the new key and value from qkv, and writes them to the cache for the steps to come.
template <class Range, class K>
__global__ void __launch_bounds__(split_threads, 2)
    decode_attention_kernel(K* out, const K* qkv, K* keys, K* values, const float* cos, const float* sin,
                            const std::int64_t* position, int heads, int kv_heads, int dim, std::int64_t capacity,
                            std::int64_t window, compute_t<K> scale, compute_t<K>* partial, unsigned* tickets,
                            int splits) {
  using C = compute_t<K>;
  extern __shared__ __align__(1024) unsigned char attention_memory[];
  wait_for_previous();
  const std::int64_t at = *position;
  const int group = heads / kv_heads;
  const int head_groups = (group + split_rows - 1) / split_rows;
  const int units = kv_heads * head_groups;
  const int unit = static_cast<int>(blockIdx.x) % units;
  const int split = static_cast<int>(blockIdx.x) / units;
  const int kv_head = unit / head_groups;
  const int first_row = unit % head_groups * split_rows;
  const int rows = group - first_row < split_rows ? group - first_row : split_rows;
  if (at < 0 || at >= capacity) return;
  const int most_rows = group < split_rows ? group : split_rows;
  const DecodeRanges ranges =
      capacity < std::int64_t{1} << 31
          ? decode_ranges(static_cast<unsigned>(at + 1), static_cast<unsigned>(window), most_rows,
                          static_cast<int>(sizeof(K)), static_cast<unsigned>(splits))
          : decode_ranges(at + 1, window, most_rows, static_cast<int>(sizeof(K)), static_cast<std::int64_t>(splits));
  if (split >= ranges.count) return;

  Range range(attention_memory);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t row_size = static_cast<std::int64_t>(kv_heads) * dim;
  const bool appends = split == ranges.count - 1;
  SplitKeys<K> in{};
  in.keys = keys + static_cast<std::int64_t>(kv_head) * dim;
  in.values = values + static_cast<std::int64_t>(kv_head) * dim;
  in.key_token = in.value_token = row_size;
  in.key_column = in.value_column = 1;
  in.first = ranges.first + split * ranges.length;
  in.last = in.first + ranges.length < at + 1 ? in.first + ranges.length : at + 1;
  in.fresh = appends ? at : -1;
  in.d = in.dv = dim;
  in.scale = scale;
  range.start(in);

  const int half = dim / 2;
  const std::int64_t appended = at * row_size + static_cast<std::int64_t>(kv_head) * dim;
  const bool has_value = appends && static_cast<int>(threadIdx.x) < dim;
  K value = narrow<K>(C(0));
  if (has_value) value = qkv[static_cast<std::int64_t>(heads + kv_heads + kv_head) * dim + threadIdx.x];
  for (int row = warp; row < rows + (appends ? 1 : 0); row += split_rows) {
    const bool is_key = row == rows;
    const K* from = qkv + static_cast<std::int64_t>(is_key ? heads + kv_head : kv_head * group + first_row + row) * dim;
    constexpr int pairs =
        (Range::columns == 0 ? 256 : Range::columns) / 64;  // of a lane; all loads before the first use
    K x[pairs];
    K y[pairs];
    float c[pairs];
    float s[pairs];
#pragma unroll
    for (int k = 0; k < pairs; ++k) {
      const int i = lane + 32 * k;
      if (i >= half) continue;
      x[k] = from[i];
      y[k] = from[i + half];
      c[k] = cos[i];
      s[k] = sin[i];
    }
#pragma unroll
    for (int k = 0; k < pairs; ++k) {
      const int i = lane + 32 * k;
      if (i >= half) continue;
      rotate(x[k], y[k], c[k], s[k]);
      if (!is_key) {
        range.set_query(row, i, x[k]);
        range.set_query(row, i + half, y[k]);
        continue;
      }
      range.set_fresh_key(i, x[k]);
      range.set_fresh_key(i + half, y[k]);
      if (first_row == 0) {
        keys[appended + i] = x[k];
        keys[appended + i + half] = y[k];
      }
    }
    for (int i = dim + lane; i < Range::columns; i += 32) {
      if (is_key) {
        range.set_fresh_key(i, narrow<K>(C(0)));
      } else {
        range.set_query(row, i, narrow<K>(C(0)));
      }
    }
  }
  if (has_value) {
    range.set_fresh_value(static_cast<int>(threadIdx.x), value);
    if (first_row == 0) values[appended + threadIdx.x] = value;
  }

  SplitRow<C> state{0, warp < rows ? at + 1 : 0};
  range.run(in, state);
  K* const to = out + static_cast<std::int64_t>(kv_head * group + first_row) * dim;
  const std::int64_t size = splits * split_rows * split_row_size(dim);
  join_ranges(
      range, partial + unit * size, tickets + unit, split, ranges.count, rows, dim,
      [&](int row, int column, C value) { to[static_cast<std::int64_t>(row) * dim + column] = narrow<K>(value); });
}

/// false where the device has no room or no code for it.
template <class Range, class K>
bool launch_decode_attention(Context<Cuda>& ctx, K* out, const K* qkv, K* keys, K* values, const float* cos,
                             const float* sin, const std::int64_t* position, const DecodeAttentionShape& shape,
                             const DecodeAttentionScratch& scratch) {
  using C = compute_t<K>;
  const auto kernel = decode_attention_kernel<Range, K>;
  LaunchShape launch_shape;
  launch_shape.shared_bytes = sizeof(typename Range::Memory);
  if (Range::columns != 0) {
    const auto device = ctx.activate();
    if (launch_shape.shared_bytes > ctx.properties().shared_bytes_per_block || !built_for(kernel, 80)) return false;
  }
  const std::int64_t splits = decode_attention_splits(ctx.properties(), shape);
  launch_shape.grid = dim3(static_cast<unsigned>(splits * decode_attention_units(shape)));
  launch_shape.block = dim3(split_threads);
  launch_shape.dependent = true;
  const std::int64_t window = shape.window > 0 ? std::min(shape.window, shape.capacity) : shape.capacity;
  launch(ctx, "decode_attention", launch_shape, kernel, out, qkv, keys, values, cos, sin, position,
         static_cast<int>(shape.heads), static_cast<int>(shape.kv_heads), static_cast<int>(shape.dim), shape.capacity,
         window, static_cast<C>(shape.scale * std::numbers::log2e), reinterpret_cast<C*>(scratch.partial),
         scratch.tickets, static_cast<int>(splits));
  return true;
}

template <class T>
void decode_attention(Context<Cuda>& ctx, T* out, const T* qkv, T* keys, T* values, const float* cos, const float* sin,
                      const std::int64_t* position, const DecodeAttentionShape& shape,
                      const DecodeAttentionScratch& scratch) {
  using K = kernel_t<T>;
  if (shape.heads <= 0 || shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0 || shape.heads > 65536 ||
      shape.dim <= 0 || shape.dim % 2 != 0 || shape.dim > 256 || shape.capacity < 0 || shape.window < 0) {
    throw ShapeError("decode_attention: " + std::to_string(shape.heads) + " heads of " + std::to_string(shape.dim) +
                     " elements on " + std::to_string(shape.kv_heads) + " kv heads, " + std::to_string(shape.capacity) +
                     " rows, window " + std::to_string(shape.window));
  }
  const auto run = [&]<class Range>(std::type_identity<Range>) {
    return launch_decode_attention<Range>(ctx, kernel_pointer(out), kernel_pointer(qkv), kernel_pointer(keys),
                                          kernel_pointer(values), cos, sin, position, shape, scratch);
  };
  if constexpr (sizeof(T) == 2) {
    if (shape.dim % 8 == 0 && shape.dim <= 128 && is_aligned(keys, 16) && is_aligned(values, 16)) {
      if (shape.dim <= 64 ? run(std::type_identity<SplitTensor<K, 64>>{})
                          : run(std::type_identity<SplitTensor<K, 128>>{})) {
        return;
      }
    }
  }
  run(std::type_identity<SplitPlain<K>>{});
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
