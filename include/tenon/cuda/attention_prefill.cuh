// Attention of many queries with tensor cores, for 16-bit types: tiles of queries against tiles of keys with a running
// softmax (Dao et al. 2022, Dao 2023).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/attention_plain.cuh>
#include <tenon/cuda/attention_tile.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Keys of a tile.
inline constexpr int prefill_keys = 64;
inline constexpr int prefill_threads = 128;

template <int D>
inline constexpr int prefill_tile_bytes = prefill_keys* D * 2;
/// Keys and values, of the tile in work and the one on its way. Where a warp has one block of queries these stay in
/// registers, else in shared memory.
template <int D, int Blocks>
inline constexpr int prefill_shared_bytes = (4 + (Blocks > 1 ? Blocks : 0)) * prefill_tile_bytes<D>;
template <int D, int Blocks>
inline constexpr int prefill_residents = Blocks > 1 ? 2 : (D == 32 ? 4 : 3);

/// Work in the order in which it should end evenly: heavy before light, and where the blocks that run at once deal it to
/// multiprocessors one by one, every second round in the opposite order.
__device__ __forceinline__ std::int64_t dealt_rank(std::int64_t block, std::int64_t blocks, std::int64_t wave) {
  const std::int64_t round = block / wave;
  if (round % 2 == 0) return block;
  const std::int64_t first = round * wave;
  const std::int64_t count = blocks - first < wave ? blocks - first : wave;
  return first + count - 1 - (block - first);
}

/// A block has 64 Blocks queries of a head, a warp 16 Blocks of them; lane 4 r + t has columns 2 t and 2 t + 1 of every 8,
/// of queries r and r + 8 of each 16. d and dv are multiples of 8 up to D, rows lie at multiples of 16 bytes. `scale` is
/// the positive one, `flip` has the sign bits of two elements where it is to be negative: then queries change sign.
template <class K, int D, int Blocks>
__global__ void __launch_bounds__(prefill_threads, (prefill_residents<D, Blocks>))
    attention_prefill_kernel(const __grid_constant__ AttentionArguments<K> a, float scale, unsigned flip,
                             std::int64_t tiles, int wave) {
  extern __shared__ __align__(1024) unsigned char attention_memory[];
  wait_for_previous();
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = lane / 4;
  const int pair = lane % 4;
  const unsigned memory = shared_address(attention_memory);
  constexpr unsigned tile_bytes = prefill_tile_bytes<D>;
  constexpr float infinity = -no_score<float>;
  constexpr int rows = 64 * Blocks;

  const std::int64_t rank = dealt_rank(blockIdx.x, gridDim.x, wave);
  const std::int64_t head = rank % a.heads;
  const std::int64_t first_token = (tiles - 1 - rank / a.heads) * rows;
  const int tokens = clamp_count(a.tokens - first_token, rows);
  const int d = static_cast<int>(a.d);
  const int dv = static_cast<int>(a.dv);
  const std::int64_t end = a.end(first_token + tokens - 1);
  const std::int64_t first_key = a.begin(first_token) / prefill_keys * prefill_keys;
  const K* keys = a.k + head / a.group * a.k_strides.head + first_key * a.k_strides.token;
  const K* values = a.v + head / a.group * a.v_strides.head + first_key * a.v_strides.token;
  int left = static_cast<int>(end - first_key);  // keys from the first one of the tile in work on

  // A single block of queries passes through where the second tile of keys will lie.
  const unsigned query_tile = memory + (Blocks > 1 ? 4 : 2) * tile_bytes;
  copy_tile<D, rows, prefill_threads>(query_tile, a.q + head * a.q_strides.head + first_token * a.q_strides.token,
                                      a.q_strides.token, tokens, d);
  commit_copies();
  if (left > 0) {
    copy_tile<D, prefill_keys, prefill_threads>(memory, keys, a.k_strides.token, left, d);
    copy_tile<D, prefill_keys, prefill_threads>(memory + tile_bytes, values, a.v_strides.token, left, dv);
  }
  commit_copies();
  wait_for_copies<1>();
  __syncthreads();
  const unsigned query_lane = query_tile + tile_offset<D>(16 * Blocks * warp + lane % 16, lane / 16);
  const unsigned key_lane = tile_offset<D>(lane % 8 + lane / 16 * 8, lane / 8 % 2);
  const unsigned value_lane = tile_offset<D>(lane % 16, lane / 16);
  constexpr unsigned next_rows = 16 * D * 2;  // bytes
  const auto load_queries = [&](unsigned(&to)[4], int block, int i) {
    load_matrices(to, chunks_further(query_lane, i) + block * next_rows);
#pragma unroll
    for (int j = 0; j < 4; ++j) to[j] ^= flip;
  };
  unsigned queries[D / 16][4];
  if constexpr (Blocks == 1) {
#pragma unroll
    for (int i = 0; i < D / 16; ++i) load_queries(queries[i], 0, i);
  }

  // The warp's first query sees keys up to first_end, its last one up to last_end, counted from the tile in work on.
  const std::int64_t warp_token = first_token + 16 * Blocks * warp;
  const bool has_queries = warp_token < a.tokens;
  const int window = static_cast<int>(a.window);
  int first_end = static_cast<int>(a.end(warp_token) - first_key);

  // Of rows 2 b + i: queries r + 8 i of block b.
  float top[2 * Blocks];
  float sum[2 * Blocks];  // of the lane's columns
#pragma unroll
  for (int i = 0; i < 2 * Blocks; ++i) {
    top[i] = -infinity;
    sum[i] = 0.0f;
  }
  float sums[Blocks][D / 8][4] = {};
  for (unsigned stage = 0; left > 0; left -= prefill_keys, first_end -= prefill_keys, stage ^= 1u) {
    wait_for_copies<0>();
    __syncthreads();  // the tile is there, and the one before it has been read
    if (left > prefill_keys) {
      keys += prefill_keys * a.k_strides.token;
      values += prefill_keys * a.v_strides.token;
      const int count = left - prefill_keys;
      const unsigned to = memory + (stage ^ 1u) * 2 * tile_bytes;
      copy_tile<D, prefill_keys, prefill_threads>(to, keys, a.k_strides.token, count, d);
      copy_tile<D, prefill_keys, prefill_threads>(to + tile_bytes, values, a.v_strides.token, count, dv);
    }
    commit_copies();
    const int last_end = first_end + 16 * Blocks - 1;
    if (!has_queries || last_end <= 0 || first_end - window >= prefill_keys) continue;

    const unsigned key_tile = memory + stage * 2 * tile_bytes + key_lane;
    const unsigned value_tile = memory + stage * 2 * tile_bytes + tile_bytes + value_lane;
    float scores[Blocks][prefill_keys / 8][4] = {};
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      unsigned q[Blocks][4];
#pragma unroll
      for (int b = 0; b < Blocks; ++b) {
        if constexpr (Blocks == 1) {
#pragma unroll
          for (int j = 0; j < 4; ++j) q[b][j] = queries[i][j];
        } else {
          load_queries(q[b], b, i);
        }
      }
#pragma unroll
      for (int j = 0; j < prefill_keys / 16; ++j) {
        unsigned k[4];
        load_matrices(k, chunks_further(key_tile, i) + j * next_rows);
#pragma unroll
        for (int b = 0; b < Blocks; ++b) {
          multiply_add<K>(scores[b][2 * j], q[b][0], q[b][1], q[b][2], q[b][3], k[0], k[1]);
          multiply_add<K>(scores[b][2 * j + 1], q[b][0], q[b][1], q[b][2], q[b][3], k[2], k[3]);
        }
      }
    }
    if (first_end < prefill_keys || last_end > window) {
#pragma unroll
      for (int i = 0; i < 2 * Blocks; ++i) {
        const int high = first_end + row + 8 * i;
        const int low = high - window;
#pragma unroll
        for (int j = 0; j < prefill_keys / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            const int at = 8 * j + 2 * pair + e;
            if (at < low || at >= high) scores[i / 2][j][i % 2 * 2 + e] = -infinity;
          }
        }
      }
    }

    bool rescale = false;
    float keep[2 * Blocks];
    float base[2 * Blocks];  // what is subtracted from scores, before the scale: a product would be rounded beside it
#pragma unroll
    for (int i = 0; i < 2 * Blocks; ++i) {
      float next = top[i];  // fmaxf takes the other one where one is NaN
#pragma unroll
      for (int j = 0; j < prefill_keys / 8; ++j) {
        next = fmaxf(next, fmaxf(scores[i / 2][j][i % 2 * 2], scores[i / 2][j][i % 2 * 2 + 1]));
      }
      next = fmaxf(next, __shfl_xor_sync(whole_warp, next, 1));
      next = fmaxf(next, __shfl_xor_sync(whole_warp, next, 2));
      base[i] = next == -infinity ? 0.0f : next;
      keep[i] = weight_of((top[i] - base[i]) * scale);
      top[i] = next;
      sum[i] *= keep[i];
      rescale = rescale || keep[i] != 1.0f;
    }
    if (__any_sync(whole_warp, rescale)) {
#pragma unroll
      for (int b = 0; b < Blocks; ++b) {
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
#pragma unroll
          for (int e = 0; e < 4; ++e) sums[b][j][e] *= keep[2 * b + e / 2];
        }
      }
    }

#pragma unroll
    for (int i = 0; i < prefill_keys / 16; ++i) {
      unsigned high[Blocks][4];
      unsigned low[Blocks][4];
#pragma unroll
      for (int b = 0; b < Blocks; ++b) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {  // rows r and r + 8 of the first 8 keys, then of the others
          const float* two = &scores[b][2 * i + j / 2][j % 2 * 2];
          const float w0 = weight_of(fmaf(two[0] - base[2 * b + j % 2], scale, weight_shift<K>));
          const float w1 = weight_of(fmaf(two[1] - base[2 * b + j % 2], scale, weight_shift<K>));
          sum[2 * b + j % 2] += w0 + w1;
          split_pair<K>(w0, w1, high[b][j], low[b][j]);
        }
      }
      constexpr int together = 3 - Blocks;  // products that do not wait for each other
#pragma unroll
      for (int j = 0; j < D / 16; j += together) {
        unsigned v[together][4];
#pragma unroll
        for (int k = 0; k < together; ++k) {
          load_matrices_transposed(v[k], chunks_further(value_tile, j + k) + i * next_rows);
        }
#pragma unroll
        for (int b = 0; b < Blocks; ++b) {
          const unsigned(&p)[4] = high[b];
#pragma unroll
          for (int k = 0; k < together; ++k) {
            multiply_add<K>(sums[b][2 * (j + k)], p[0], p[1], p[2], p[3], v[k][0], v[k][1]);
            multiply_add<K>(sums[b][2 * (j + k) + 1], p[0], p[1], p[2], p[3], v[k][2], v[k][3]);
          }
        }
#pragma unroll
        for (int b = 0; b < Blocks; ++b) {
          const unsigned(&p)[4] = low[b];
#pragma unroll
          for (int k = 0; k < together; ++k) {
            multiply_add<K>(sums[b][2 * (j + k)], p[0], p[1], p[2], p[3], v[k][0], v[k][1]);
            multiply_add<K>(sums[b][2 * (j + k) + 1], p[0], p[1], p[2], p[3], v[k][2], v[k][3]);
          }
        }
      }
    }
  }

  // What a query does not see went into its sums with a weight of 0, which keeps everything out but NaN and infinity.
  // Where a result is not finite, it is computed again from what the query sees alone.
  unsigned again = 0;  // bit 4 r + i: query r + 8 i
#pragma unroll
  for (int i = 0; i < 2 * Blocks; ++i) {
    float total = sum[i];
    total += __shfl_xor_sync(whole_warp, total, 1);
    total += __shfl_xor_sync(whole_warp, total, 2);
    const std::int64_t token = warp_token + row + 8 * i;
    const bool sees = a.end(token) > 0;
    const float factor = 1.0f / total;
    K* out = a.out + token * a.out_strides.token + head * a.out_strides.head + 2 * pair;
    bool finite = true;
#pragma unroll
    for (int j = 0; j < D / 8; ++j) {
      const float x = sees ? sums[i / 2][j][i % 2 * 2] * factor : 0.0f;
      const float y = sees ? sums[i / 2][j][i % 2 * 2 + 1] * factor : 0.0f;
      finite = finite && fabsf(x) < infinity && fabsf(y) < infinity;
      if (token < a.tokens && 8 * j < dv) *reinterpret_cast<unsigned*>(out + 8 * j) = pack_pair<K>(x, y);
    }
    unsigned lanes = __ballot_sync(whole_warp, !finite && token < a.tokens);
    lanes |= lanes >> 2;
    lanes |= lanes >> 1;
    again |= (lanes & 0x11111111u) << i;
  }
  __syncwarp();
  for (; again != 0; again &= again - 1) {
    const int bit = __ffs(static_cast<int>(again)) - 1;
    attend_row(a, warp_token + bit / 4 + 8 * (bit % 4), head);
  }
}

template <int D, int Blocks, class K>
bool launch_attention_prefill(Context<Cuda>& ctx, const AttentionArguments<K>& a) {
  const std::int64_t tiles = ceil_div(a.tokens, std::int64_t{64 * Blocks});
  if (a.heads > std::numeric_limits<std::int32_t>::max() / tiles) return false;
  const auto device = ctx.activate();
  const auto kernel = attention_prefill_kernel<K, D, Blocks>;
  if (!built_for(kernel, 80)) return false;
  LaunchShape shape;
  shape.grid = dim3(static_cast<unsigned>(tiles * a.heads));
  shape.block = dim3(prefill_threads);
  shape.shared_bytes = prefill_shared_bytes<D, Blocks>;
  shape.dependent = true;
  if (shape.shared_bytes > ctx.properties().shared_bytes_per_block) return false;
  const bool negative = a.scale < 0;
  launch(ctx, "self_attention", shape, kernel, a, negative ? -a.scale : a.scale, negative ? 0x80008000u : 0u, tiles,
         ctx.properties().multiprocessors);
  return true;
}

/// Warps with two blocks of queries read keys and values half as often from shared memory, but only where there is so
/// much work that large tiles end evenly.
inline constexpr std::int64_t prefill_wide_rounds = 3;

/// false where the sizes or the device do not fit. Rows lie at multiples of 16 bytes.
template <class K>
bool launch_attention_prefill(Context<Cuda>& ctx, const AttentionArguments<K>& a) {
  if (a.d % 8 != 0 || a.dv % 8 != 0 || a.d == 0 || a.d > 128 || a.dv > 128 || a.scale == 0) return false;
  if (a.tokens + a.kv_tokens > std::int64_t{1} << 30) return false;  // the kernel counts keys in int
  const std::int64_t most = a.d > a.dv ? a.d : a.dv;
  if (most <= 32) return launch_attention_prefill<32, 1>(ctx, a);
  const bool wide = ceil_div(a.tokens, std::int64_t{128}) * a.heads >=
                    prefill_wide_rounds * std::int64_t{ctx.properties().multiprocessors};
  if (most <= 64) {
    if (wide && launch_attention_prefill<64, 2>(ctx, a)) return true;
    return launch_attention_prefill<64, 1>(ctx, a);
  }
  if (wide && launch_attention_prefill<128, 2>(ctx, a)) return true;
  return launch_attention_prefill<128, 1>(ctx, a);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
