// Attention without tensor cores: for any dtype, size and strides. A kernel of tiles, one with a warp for each query for
// what does not fit into tiles, and what the other kernels of attention share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

struct AttentionStrides {
  std::int64_t token = 0;
  std::int64_t head = 0;
  std::int64_t column = 1;
};

/// A call of self_attention. Kernels take it by value.
template <class K>
struct AttentionArguments {
  K* out = nullptr;
  const K* q = nullptr;
  const K* k = nullptr;
  const K* v = nullptr;
  AttentionStrides out_strides, q_strides, k_strides, v_strides;
  std::int64_t tokens = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t heads = 0;
  std::int64_t group = 1;  ///< heads of q for each of k
  std::int64_t d = 0;
  std::int64_t dv = 0;
  std::int64_t window = 0;  ///< keys that a query sees at most: tokens + kv_tokens where there is no window
  compute_t<K> scale = 0;   ///< times the logarithm of e to base 2, since kernels raise 2 to the scores

  /// Query `token` sees the keys [begin, end). end may be 0 or less: it sees none.
  [[nodiscard]] __host__ __device__ std::int64_t end(std::int64_t token) const {
    return kv_tokens - tokens + token + 1;
  }
  [[nodiscard]] __host__ __device__ std::int64_t begin(std::int64_t token) const {
    const std::int64_t first = end(token) - window;
    return first > 0 ? first : 0;
  }
};

/// The largest score so far where there is none. It is never subtracted from a score.
template <class C>
inline constexpr C no_score = -std::numeric_limits<C>::infinity();

/// 2 to a power.
__device__ __forceinline__ float power_of_two(float x) { return exp2f(x); }
__device__ __forceinline__ double power_of_two(double x) { return exp2(x); }

/// The larger one, where NaN counts as none: it is to reach the sum through its weight, not the maximum.
template <class C>
__device__ __forceinline__ C larger_score(C top, C score) {
  return score > top ? score : top;
}
template <class C>
__device__ __forceinline__ C score_base(C top) {
  return top == no_score<C> ? C(0) : top;
}

/// An integer between 0 and `most`.
__device__ __forceinline__ int clamp_count(std::int64_t x, int most) {
  return x <= 0 ? 0 : (x < most ? static_cast<int>(x) : most);
}

/// One query of one head by one warp: nothing but what the query sees is read, whatever the sizes are.
template <class K>
__device__ void attend_row(const AttentionArguments<K>& a, std::int64_t token, std::int64_t head) {
  using C = compute_t<K>;
  constexpr int columns = 4;  // of a lane
  const int lane = static_cast<int>(threadIdx.x % 32);
  const std::int64_t begin = a.begin(token);
  const std::int64_t end = a.end(token);
  const std::int64_t kv_head = head / a.group;
  const K* q = a.q + token * a.q_strides.token + head * a.q_strides.head;
  const K* k = a.k + kv_head * a.k_strides.head;
  const K* v = a.v + kv_head * a.v_strides.head;
  K* out = a.out + token * a.out_strides.token + head * a.out_strides.head;
  for (std::int64_t first_column = 0; first_column < a.dv; first_column += 32 * columns) {
    C top = no_score<C>;
    C sum = C(0);
    C sums[columns] = {};
    for (std::int64_t first = begin; first < end; first += 32) {
      const int count = clamp_count(end - first, 32);
      C score = no_score<C>;  // of key first + lane
      for (int i = 0; i < count; ++i) {
        const K* key = k + (first + i) * a.k_strides.token;
        C dot = C(0);
        for (std::int64_t c = lane; c < a.d; c += 32) {
          dot += widen(q[c * a.q_strides.column]) * widen(key[c * a.k_strides.column]);
        }
        dot = warp_sum(dot);
        if (lane == i) score = dot * a.scale;
      }
      const C next = warp_max(larger_score(top, score));
      const C base = score_base(next);
      const C weight = lane < count ? power_of_two(score - base) : C(0);
      const C keep = power_of_two(top - base);
      top = next;
      sum = sum * keep + warp_sum(weight);
#pragma unroll
      for (int j = 0; j < columns; ++j) sums[j] *= keep;
      for (int i = 0; i < count; ++i) {
        const C w = __shfl_sync(whole_warp, weight, i);
        const K* value = v + (first + i) * a.v_strides.token;
#pragma unroll
        for (int j = 0; j < columns; ++j) {
          const std::int64_t c = first_column + lane + 32 * j;
          if (c < a.dv) sums[j] += w * widen(value[c * a.v_strides.column]);
        }
      }
    }
#pragma unroll
    for (int j = 0; j < columns; ++j) {
      const std::int64_t c = first_column + lane + 32 * j;
      if (c < a.dv) out[c * a.out_strides.column] = narrow<K>(end > 0 ? sums[j] / sum : C(0));
    }
  }
}

inline constexpr int attention_row_threads = 128;

template <class K>
__global__ void __launch_bounds__(attention_row_threads, 4)
    attention_row_kernel(const __grid_constant__ AttentionArguments<K> a) {
  wait_for_previous();
  constexpr int warps = attention_row_threads / 32;
  const std::int64_t rows = a.tokens * a.heads;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32; row < rows; row += step) {
    attend_row(a, row / a.heads, row % a.heads);
  }
}

template <class K>
void launch_attention_rows(Context<Cuda>& ctx, const AttentionArguments<K>& a) {
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(a.tokens * a.heads, attention_row_threads / 32, std::int64_t{1} << 20));
  shape.block = dim3(attention_row_threads);
  shape.dependent = true;
  launch(ctx, "self_attention", shape, attention_row_kernel<K>, a);
}

/// Queries and keys of a tile.
inline constexpr int attention_tile = 32;
inline constexpr int attention_tile_threads = 256;

/// Elements of a tile's rows in shared memory: four more than needed, so that threads that read 16 bytes of neighbouring
/// rows meet different banks.
struct AttentionTileRows {
  int q, kv;
  static constexpr int weights = attention_tile + 4;

  __host__ __device__ AttentionTileRows(std::int64_t d, std::int64_t dv)
      : q(static_cast<int>(align_up(d, std::int64_t{4})) + 4),
        kv(static_cast<int>(align_up(d > dv ? d : dv, std::int64_t{4})) + 4) {}
  [[nodiscard]] __host__ __device__ int elements() const { return attention_tile * (q + kv + weights); }
};

/// `count` rows, widened, with zeros in the rows and columns that are missing up to whole tiles and packs.
template <class K, class C>
__device__ __forceinline__ void load_tile(C* to, int to_row, const K* from, std::int64_t row, std::int64_t column,
                                          int count, int columns) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  constexpr int warps = attention_tile_threads / 32;
  for (int c = lane; c < (columns + 3) / 4 * 4; c += 32) {
#pragma unroll
    for (int r = 0; r < attention_tile; r += warps) {
      const int i = r + warp;
      const bool there = i < count && c < columns;
      to[i * to_row + c] = there ? widen(from[i * row + c * column]) : C(0);
    }
  }
}

/// A block has 32 queries of a head and takes 32 keys at a time; thread (y, x) has scores of queries y and y + 16 with
/// keys x and x + 16, and 4 columns of values in each of `Groups` groups of 64. d is at most 256, dv 64 Groups. The
/// queries that see most keys come first.
template <class K, int Groups>
__global__ void __launch_bounds__(attention_tile_threads, Groups == 4 ? 1 : 4 - Groups)
    attention_tile_kernel(const __grid_constant__ AttentionArguments<K> a, std::int64_t tiles) {
  using C = compute_t<K>;
  using Vector = Pack<C, 4>;
  extern __shared__ __align__(1024) unsigned char attention_memory[];
  wait_for_previous();
  const AttentionTileRows row_of(a.d, a.dv);
  C* const queries = reinterpret_cast<C*>(attention_memory);
  C* const tile = queries + attention_tile * row_of.q;  // keys, then values
  C* const weights = tile + attention_tile * row_of.kv;
  const int x = static_cast<int>(threadIdx.x % 16);
  const int y = static_cast<int>(threadIdx.x / 16);
  const int d = static_cast<int>(a.d);
  const int dv = static_cast<int>(a.dv);

  const std::int64_t head = blockIdx.x % a.heads;
  const std::int64_t first_token = (tiles - 1 - blockIdx.x / a.heads) * attention_tile;
  const int tokens = clamp_count(a.tokens - first_token, attention_tile);
  const std::int64_t end = a.end(first_token + tokens - 1);
  load_tile(queries, row_of.q, a.q + first_token * a.q_strides.token + head * a.q_strides.head, a.q_strides.token,
            a.q_strides.column, tokens, d);

  C top[2] = {no_score<C>, no_score<C>};
  C sum[2] = {C(0), C(0)};
  C sums[2][Groups][4] = {};
  for (std::int64_t key = a.begin(first_token) / attention_tile * attention_tile; key < end; key += attention_tile) {
    const int count = clamp_count(end - key, attention_tile);
    // Of this tile, the thread's queries see the keys [low, high).
    int low[2];
    int high[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t token = first_token + y + 16 * i;
      low[i] = clamp_count(a.begin(token) - key, attention_tile);
      high[i] = token < a.tokens ? clamp_count(a.end(token) - key, attention_tile) : 0;
    }
    __syncthreads();  // the queries are there; the values have been read
    load_tile(tile, row_of.kv, a.k + key * a.k_strides.token + head / a.group * a.k_strides.head, a.k_strides.token,
              a.k_strides.column, count, d);
    __syncthreads();
    C scores[2][2] = {};
    for (int c = 0; c < d; c += 4) {
      Vector q[2];
      Vector k[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        q[i] = load_pack<4>(queries + (y + 16 * i) * row_of.q + c);
        k[i] = load_pack<4>(tile + (x + 16 * i) * row_of.kv + c);
      }
#pragma unroll
      for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int j = 0; j < 2; ++j) scores[i][j] += q[i].value[e] * k[j].value[e];
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      C next = top[i];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int at = x + 16 * j;
        scores[i][j] = at >= low[i] && at < high[i] ? scores[i][j] * a.scale : no_score<C>;
        next = larger_score(next, scores[i][j]);
      }
#pragma unroll
      for (int offset = 8; offset > 0; offset /= 2) {
        next = larger_score(next, __shfl_xor_sync(whole_warp, next, offset));
      }
      const C base = score_base(next);
      const C keep = power_of_two(top[i] - base);
      top[i] = next;
      C part = C(0);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const C weight = power_of_two(scores[i][j] - base);
        weights[(y + 16 * i) * AttentionTileRows::weights + x + 16 * j] = weight;
        part += weight;
      }
#pragma unroll
      for (int offset = 8; offset > 0; offset /= 2) part += __shfl_xor_sync(whole_warp, part, offset);
      sum[i] = sum[i] * keep + part;
#pragma unroll
      for (int g = 0; g < Groups; ++g) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[i][g][e] *= keep;
      }
    }
    __syncthreads();  // the keys have been read
    load_tile(tile, row_of.kv, a.v + key * a.v_strides.token + head / a.group * a.v_strides.head, a.v_strides.token,
              a.v_strides.column, count, dv);
    __syncthreads();  // the values and the weights are there
    const auto add_value = [&](int at, auto&& each) {
#pragma unroll
      for (int g = 0; g < Groups; ++g) {
        if (64 * g + 4 * x >= dv) continue;
        const Vector value = load_pack<4>(tile + at * row_of.kv + 64 * g + 4 * x);
        each(g, value);
      }
    };
    if (low[0] <= 0 && low[1] <= 0 && high[0] == attention_tile && high[1] == attention_tile) {
      for (int at = 0; at < attention_tile; at += 4) {
        const Vector w0 = load_pack<4>(weights + y * AttentionTileRows::weights + at);
        const Vector w1 = load_pack<4>(weights + (y + 16) * AttentionTileRows::weights + at);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          add_value(at + k, [&](int g, const Vector& value) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
              sums[0][g][e] += w0.value[k] * value.value[e];
              sums[1][g][e] += w1.value[k] * value.value[e];
            }
          });
        }
      }
    } else {
      // A weight of 0 would not do where the value is not finite.
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        for (int at = low[i]; at < high[i]; ++at) {
          const C w = weights[(y + 16 * i) * AttentionTileRows::weights + at];
          add_value(at, [&](int g, const Vector& value) {
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][g][e] += w * value.value[e];
          });
        }
      }
    }
  }

#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::int64_t token = first_token + y + 16 * i;
    if (token >= a.tokens) continue;
    K* out = a.out + token * a.out_strides.token + head * a.out_strides.head;
    const bool sees = a.end(token) > 0;
#pragma unroll
    for (int g = 0; g < Groups; ++g) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int c = 64 * g + 4 * x + e;
        if (c < dv) out[c * a.out_strides.column] = narrow<K>(sees ? sums[i][g][e] / sum[i] : C(0));
      }
    }
  }
}

/// Tiles where they fit, else rows.
template <class K>
void launch_attention_plain(Context<Cuda>& ctx, const AttentionArguments<K>& a) {
  const std::int64_t tiles = ceil_div(a.tokens, std::int64_t{attention_tile});
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  if (a.d > 256 || a.dv > 256 || a.heads > most / tiles) return launch_attention_rows(ctx, a);
  LaunchShape shape;
  shape.shared_bytes = static_cast<std::size_t>(AttentionTileRows(a.d, a.dv).elements()) * sizeof(compute_t<K>);
  if (shape.shared_bytes > ctx.properties().shared_bytes_per_block) return launch_attention_rows(ctx, a);
  shape.grid = dim3(static_cast<unsigned>(tiles * a.heads));
  shape.block = dim3(attention_tile_threads);
  shape.dependent = true;
  if constexpr (std::is_same_v<K, float>) {
    if (a.dv <= 64) return launch(ctx, "self_attention", shape, attention_tile_kernel<K, 1>, a, tiles);
    if (a.dv <= 128) return launch(ctx, "self_attention", shape, attention_tile_kernel<K, 2>, a, tiles);
  }
  launch(ctx, "self_attention", shape, attention_tile_kernel<K, 4>, a, tiles);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
