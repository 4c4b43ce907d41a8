// What a block does that has up to 8 queries of a kv head and a range of its keys, 128 of them at a time: with tensor cores
// for 16-bit types, and for any type. Kernels for few queries split the keys into such ranges.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/attention_plain.cuh>
#include <tenon/cuda/attention_tile.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

inline constexpr int split_rows = 8;  ///< queries of a block; every warp has one
inline constexpr int split_threads = 32 * split_rows;
inline constexpr int split_keys = 128;  ///< keys of a step; every warp has 16
inline constexpr int split_most = 256;  ///< ranges of a kv head

/// Keys of a range. Reading one costs a block 2 rows, joining one more range costs it as many rows of floats as it has
/// queries: with the square root both take equally long.
template <class I>
__host__ __device__ I split_length(I keys, int rows, int element_bytes, I most) {
  if (keys <= I{split_keys}) return I{split_keys};  // one step costs less than joining two halves of it
  I length = 64;
  const auto even = static_cast<I>(
      sqrtf(static_cast<float>(keys) * static_cast<float>(rows) * 2.0f / static_cast<float>(element_bytes)));
  if (length < even) length = even;
  const I fair = ceil_div(keys, most);
  if (length < fair) length = fair;
  return align_up(length, I{16});
}

/// Elements of what a block leaves for a query: its sums, and behind them the largest score and the sum of its weights.
__host__ __device__ constexpr std::int64_t split_row_size(std::int64_t dv) { return (dv + 3) / 4 * 4 + 4; }

/// The range [first, last) of keys and values of a kv head. Those of row `fresh` are in shared memory.
template <class K>
struct SplitKeys {
  const K* keys;
  const K* values;
  std::int64_t key_token, key_column, value_token, value_column;
  std::int64_t first, last;
  std::int64_t fresh;
  int d, dv;
  compute_t<K> scale;
};

/// The running softmax of a warp's query; lane i has keys 4 i to 4 i + 3 of a step.
template <class C>
struct SplitRow {
  std::int64_t begin, end;  ///< keys that the query sees
  C top = no_score<C>;      ///< the largest score so far
  C sum = C(0);             ///< of weights, which are 2^(score - top + shift)

  /// Turns scores of the step's keys [first, last) into weights; returns what earlier sums are to be multiplied by.
  __device__ __forceinline__ C weigh(C (&x)[4], std::int64_t first, std::int64_t last, C scale, C shift) {
    const int low = clamp_count(begin - first, split_keys);
    const int high = clamp_count((end < last ? end : last) - first, split_keys);
    C next = top;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = static_cast<int>(threadIdx.x % 32) * 4 + i;
      x[i] = at >= low && at < high ? x[i] * scale : no_score<C>;
      next = larger_score(next, x[i]);
    }
    next = warp_max(next);
    const C base = score_base(next);
    const C keep = power_of_two(top - base);
    top = next;
    C part = C(0);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      x[i] = power_of_two(x[i] - base + shift);  // the shift would be lost beside a large score
      part += x[i];
    }
    sum = sum * keep + warp_sum(part);
    return keep;
  }
};

/// A range with tensor cores: K has 16 bits, d and dv are multiples of 8 up to D, rows lie at multiples of 16 bytes.
template <class K, int D>
class SplitTensor {
 public:
  using Element = K;
  static constexpr int columns = D;  ///< of queries and a fresh key, zeros after the last one
  struct Memory {
    alignas(128) K values[2][split_keys * D];
    alignas(16) K queries[split_rows][D + 8];
    alignas(16) K fresh_key[D];
    alignas(16) K fresh_value[D];
    alignas(16) float scores[split_rows][split_keys + 4];
    alignas(16) K high[split_rows][split_keys + 8];
    alignas(16) K low[split_rows][split_keys + 8];
    float keep[split_rows], top[split_rows], sum[split_rows];
    unsigned flag, again;
  };

  __device__ __forceinline__ explicit SplitTensor(unsigned char* memory) : memory(reinterpret_cast<Memory*>(memory)) {}
  __device__ __forceinline__ void set_query(int row, int column, K x) { memory->queries[row][column] = x; }
  __device__ __forceinline__ void set_fresh_key(int column, K x) { memory->fresh_key[column] = x; }
  __device__ __forceinline__ void set_fresh_value(int column, K x) { memory->fresh_value[column] = x; }
  /// Room for split_rows * split_most numbers, after `run`.
  __device__ __forceinline__ float* table() { return reinterpret_cast<float*>(memory->values); }

  /// Begins to read the first keys and values.
  __device__ __forceinline__ void start(const SplitKeys<K>& in) {
    read_keys(in, in.first);
    copy_values(in, in.first, 0);
    commit_copies();
  }

  /// After `start` and the setting of queries and fresh row by any threads. A barrier ends it.
  __device__ __forceinline__ void run(const SplitKeys<K>& in, SplitRow<float>& row) {
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    uint4 queries[D / 32];
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      queries[j] = *reinterpret_cast<const uint4*>(&memory->queries[lane / 4][32 * j + lane % 4 * 8]);
    }
    int stage = 0;
    for (std::int64_t first = in.first; first < in.last; first += split_keys, stage ^= 1) {
      const int count = clamp_count(in.last - first, split_keys);
      if (16 * warp < count) score_keys(in, first, queries);
      const bool more = first + split_keys < in.last;
      if (more) read_keys(in, first + split_keys);
      __syncthreads();  // the scores are there, and the values of the step before have been read
      if (more) copy_values(in, first + split_keys, stage ^ 1);
      commit_copies();
      const float4 scores = *reinterpret_cast<const float4*>(&memory->scores[warp][4 * lane]);
      float weights[4] = {scores.x, scores.y, scores.z, scores.w};
      const float keep = row.weigh(weights, first, in.last, in.scale, weight_shift<K>);
      uint2 high;
      uint2 low;
      split_pair<K>(weights[0], weights[1], high.x, low.x);
      split_pair<K>(weights[2], weights[3], high.y, low.y);
      *reinterpret_cast<uint2*>(&memory->high[warp][4 * lane]) = high;
      *reinterpret_cast<uint2*>(&memory->low[warp][4 * lane]) = low;
      if (lane == 0) memory->keep[warp] = keep;
      const std::int64_t fresh = in.fresh - first;
      const int column = static_cast<int>(threadIdx.x);
      if (fresh >= 0 && fresh < count && column < in.dv) {
        auto* bytes = reinterpret_cast<unsigned char*>(memory->values[stage]);
        *reinterpret_cast<K*>(bytes + tile_offset<D>(static_cast<int>(fresh), column / 8) + column % 8 * 2) =
            memory->fresh_value[column];
      }
      wait_for_copies<1>();
      __syncthreads();  // the weights and the values are there
      add_values(count, stage);
    }
    if (lane == 0) {
      memory->top[warp] = row.top;
      memory->sum[warp] = row.sum;
    }
    wait_for_copies<0>();
    __syncthreads();
  }

  /// Calls store(row, column, sum) for what this thread has.
  template <class Store>
  __device__ __forceinline__ void each(int, Store&& store) const {
    if (block() >= D / 16) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      store(lane % 4 * 2 + e % 2, 16 * block() + lane / 4 + e / 2 * 8, high_sums_[e] + low_sums_[e]);
    }
  }

  Memory* const memory;

 private:
  /// The 16 columns of values that this warp adds up; none from D / 16 on.
  __device__ __forceinline__ static int block() { return static_cast<int>(threadIdx.x / 32); }
  static_assert(D <= 16 * split_rows);

  /// Lane 4 r + t has columns 8 t to 8 t + 7 of every 32, of keys r and r + 8 of its warp. A product of tensor cores sums
  /// over columns in any order, as long as queries have the same.
  __device__ __forceinline__ void read_keys(const SplitKeys<K>& in, std::int64_t first) {
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const std::int64_t key = first + static_cast<int>(threadIdx.x / 32) * 16 + lane / 4 + 8 * h;
      const bool there = key < in.last && key != in.fresh;
      const K* from = in.keys + key * in.key_token;
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        const int column = 32 * j + lane % 4 * 8;
        keys_[h][j] = there && column < in.d ? *reinterpret_cast<const uint4*>(from + column) : uint4{0, 0, 0, 0};
      }
    }
  }

  __device__ __forceinline__ void copy_values(const SplitKeys<K>& in, std::int64_t first, int stage) {
    const std::int64_t fresh = in.fresh - first;
    copy_tile<D, split_keys, split_threads, true>(shared_address(memory->values[stage]),
                                                  in.values + first * in.value_token, in.value_token,
                                                  clamp_count(in.last - first, split_keys), in.dv,
                                                  fresh >= 0 && fresh < split_keys ? static_cast<int>(fresh) : -1);
  }

  __device__ __forceinline__ void score_keys(const SplitKeys<K>& in, std::int64_t first,
                                             const uint4 (&queries)[D / 32]) {
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int at = 16 * warp + lane / 4;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      if (first + at + 8 * h != in.fresh) continue;
#pragma unroll
      for (int j = 0; j < D / 32; ++j) {
        keys_[h][j] = *reinterpret_cast<const uint4*>(&memory->fresh_key[32 * j + lane % 4 * 8]);
      }
    }
    __syncwarp();
    float even[4] = {};
    float odd[4] = {};
#pragma unroll
    for (int j = 0; j < D / 32; ++j) {
      const uint4 a = keys_[0][j];
      const uint4 b = keys_[1][j];
      multiply_add<K>(even, a.x, b.x, a.y, b.y, queries[j].x, queries[j].y);
      multiply_add<K>(odd, a.z, b.z, a.w, b.w, queries[j].z, queries[j].w);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) memory->scores[lane % 4 * 2 + e % 2][at + e / 2 * 8] = even[e] + odd[e];
  }

  /// The transposed product: sums (16 columns x 8 queries) += values (16 columns x keys) weights (keys x 8 queries).
  __device__ __forceinline__ void add_values(int count, int stage) {
    if (block() >= D / 16) return;
    const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float keep = memory->keep[lane % 4 * 2 + e % 2];
      high_sums_[e] *= keep;
      low_sums_[e] *= keep;
    }
    const unsigned tile =
        shared_address(memory->values[stage]) + tile_offset<D>(lane % 8 + lane / 16 * 8, 2 * block() + lane / 8 % 2);
#pragma unroll 4
    for (int i = 0; i < count; i += 16) {
      unsigned v[4];
      load_matrices_transposed(v, tile + static_cast<unsigned>(i) * D * 2);
      const unsigned* high = reinterpret_cast<const unsigned*>(&memory->high[lane / 4][i + lane % 4 * 2]);
      const unsigned* low = reinterpret_cast<const unsigned*>(&memory->low[lane / 4][i + lane % 4 * 2]);
      multiply_add<K>(high_sums_, v[0], v[1], v[2], v[3], high[0], high[4]);
      multiply_add<K>(low_sums_, v[0], v[1], v[2], v[3], low[0], low[4]);
    }
  }

  uint4 keys_[2][D / 32];
  float high_sums_[4] = {};
  float low_sums_[4] = {};
};

/// Sums over the lanes of a warp of 2 * Half numbers at once, for Half = 16: lane i gets the sum of number i in x[0].
template <int Half, class C>
__device__ __forceinline__ void warp_sums(C (&x)[32]) {
  const bool upper = (threadIdx.x & Half) != 0;
#pragma unroll
  for (int i = 0; i < Half; ++i) {
    const C send = upper ? x[i] : x[i + Half];
    x[i] = (upper ? x[i + Half] : x[i]) + __shfl_xor_sync(whole_warp, send, Half);
  }
  if constexpr (Half > 1) warp_sums<Half / 2>(x);
}

/// The same for any type and strides, d and dv up to 256.
template <class K>
class SplitPlain {
 public:
  using Element = K;
  using C = compute_t<K>;
  static constexpr int columns = 0;
  struct Memory {
    C queries[split_rows][256];
    C fresh_key[256], fresh_value[256];
    C scores[split_rows][split_keys + 4];
    alignas(4 * sizeof(C)) C weights[split_rows][split_keys];
    C sums[split_rows * split_threads];
    C keep[split_rows], top[split_rows], sum[split_rows];
    unsigned flag, again;
  };

  __device__ __forceinline__ explicit SplitPlain(unsigned char* memory) : memory(reinterpret_cast<Memory*>(memory)) {}
  __device__ __forceinline__ void set_query(int row, int column, K x) { memory->queries[row][column] = widen(x); }
  __device__ __forceinline__ void set_fresh_key(int column, K x) { memory->fresh_key[column] = widen(x); }
  __device__ __forceinline__ void set_fresh_value(int column, K x) { memory->fresh_value[column] = widen(x); }
  __device__ __forceinline__ C* table() { return memory->sums; }
  __device__ __forceinline__ void start(const SplitKeys<K>&) {}

  __device__ __forceinline__ void run(const SplitKeys<K>& in, SplitRow<C>& row) {
    __syncthreads();
    const int warp = static_cast<int>(threadIdx.x / 32);
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int width = row_width(in.dv);
    const int column = static_cast<int>(threadIdx.x) % width;
    const int slice = static_cast<int>(threadIdx.x) / width;  // which of the keys, where a row has fewer columns
    C sums[split_rows] = {};
    for (std::int64_t first = in.first; first < in.last; first += split_keys) {
      const int count = clamp_count(in.last - first, split_keys);
      for (int i = 4 * warp; i < count; i += 4 * split_rows) score_keys(in, first, i, count);
      __syncthreads();  // the scores are there, and the weights of the step before have been read
      C weights[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[i] = memory->scores[warp][4 * lane + i];
      const C keep = row.weigh(weights, first, in.last, in.scale, C(0));
      store_pack(&memory->weights[warp][4 * lane], Pack<C, 4>{weights[0], weights[1], weights[2], weights[3]});
      if (lane == 0) memory->keep[warp] = keep;
      __syncthreads();
#pragma unroll
      for (int r = 0; r < split_rows; ++r) sums[r] *= memory->keep[r];
      if (column < in.dv) {
        const K* from = in.values + first * in.value_token + column * in.value_column;
#pragma unroll 2
        for (int i = 4 * slice; i < count; i += 4 * split_threads / width) {
          C values[4];
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            values[k] = first + i + k == in.fresh ? memory->fresh_value[column]
                        : i + k < count           ? widen(from[(i + k) * in.value_token])
                                                  : C(0);
          }
#pragma unroll
          for (int r = 0; r < split_rows; ++r) {
            const Pack<C, 4> w = load_pack<4>(&memory->weights[r][i]);
#pragma unroll
            for (int k = 0; k < 4; ++k) sums[r] += w.value[k] * values[k];
          }
        }
      }
    }
#pragma unroll
    for (int r = 0; r < split_rows; ++r) memory->sums[(slice * split_rows + r) * width + column] = sums[r];
    if (lane == 0) {
      memory->top[warp] = row.top;
      memory->sum[warp] = row.sum;
    }
    __syncthreads();
  }

  template <class Store>
  __device__ __forceinline__ void each(int dv, Store&& store) const {
    const int width = row_width(dv);
    for (int i = static_cast<int>(threadIdx.x); i < split_rows * width; i += split_threads) {
      C sum = memory->sums[i];
      for (int slice = 1; slice < split_threads / width; ++slice) sum += memory->sums[slice * split_rows * width + i];
      store(i / width, i % width, sum);
    }
  }

  Memory* const memory;

 private:
  __device__ __forceinline__ static int row_width(int dv) {
    return dv <= 32 ? 32 : dv <= 64 ? 64 : dv <= 128 ? 128 : 256;
  }

  /// Scores of keys i to i + 3 of a step.
  __device__ __forceinline__ void score_keys(const SplitKeys<K>& in, std::int64_t first, int i, int count) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    C sums[32] = {};  // 8 queries of each key
    const K* from = in.keys + (first + i) * in.key_token;
#pragma unroll(sizeof(C) == 4 ? 4 : 2)
    for (int c = lane; c < in.d; c += 32) {
      C keys[4];
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        keys[k] = first + i + k == in.fresh ? memory->fresh_key[c]
                  : i + k < count           ? widen(from[k * in.key_token + c * in.key_column])
                                            : C(0);
      }
#pragma unroll
      for (int r = 0; r < split_rows; ++r) {
        const C q = memory->queries[r][c];
#pragma unroll
        for (int k = 0; k < 4; ++k) sums[8 * k + r] += q * keys[k];
      }
    }
    warp_sums<16>(sums);
    memory->scores[lane % 8][i + lane / 8] = sums[0];
  }
};

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
