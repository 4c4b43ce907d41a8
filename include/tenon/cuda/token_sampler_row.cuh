// A row of logits as the kernel of the token sampler reads it, the order of its values as integers, and reductions over
// a block.
#pragma once

#include <cstdint>
#include <limits>

#include <tenon/core/config.hpp>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/token_sampler.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// The 64-bit integer of CUDA's atomics.
using Wide = unsigned long long;

inline constexpr float float_infinity = std::numeric_limits<float>::infinity();

/// Integers in the order of the floats: -inf lowest, then the finite ones, -0 equal to +0, then +inf, then every NaN.
/// Never 0.
__device__ __forceinline__ unsigned ordered_key(float x) {
  const unsigned bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0xffffffffu;
  if (bits == 0x80000000u) return 0x80000000u;
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float value_of_key(unsigned key) {
  return __uint_as_float((key & 0x80000000u) != 0 ? key ^ 0x80000000u : ~key);
}

/// Key and id in one integer, so that the largest of many is the largest value, and among equal ones the lowest id.
__device__ __forceinline__ Wide ranked(float x, std::int64_t id) {
  return (static_cast<Wide>(ordered_key(x)) << 32) | static_cast<unsigned>(~static_cast<unsigned>(id));
}
__device__ __forceinline__ unsigned key_of(Wide ranked) { return static_cast<unsigned>(ranked >> 32); }
__device__ __forceinline__ std::int64_t id_of(Wide ranked) { return ~static_cast<unsigned>(ranked); }

/// TokenSample::status for the largest entry of a row.
__device__ __forceinline__ int status_of(Wide ranked) {
  const unsigned key = key_of(ranked);
  return key == 0xffffffffu ? 1 : key == ordered_key(float_infinity) ? 2 : key <= ordered_key(-float_infinity) ? 3 : 0;
}

/// The logits (size,) of the ids that may be chosen. They are looked at four at a time; `i` is a multiple of 4, and what
/// is beyond the end reads as -inf.
struct LogitRow {
  const float* logits;
  const std::uint32_t* history;  // nullptr: no penalty
  std::int64_t size;
  std::int64_t per_thread;
  float penalty;
  bool aligned;  // to 16 bytes

  __device__ __forceinline__ Pack<float, 4> raw(std::int64_t i) const {
    if (aligned && i + 4 <= size) return load_pack<4>(logits + i);
    Pack<float, 4> result;
#pragma unroll
    for (int k = 0; k < 4; ++k) result.value[k] = i + k < size ? logits[i + k] : -float_infinity;
    return result;
  }

  /// The same after the repetition penalty, to the bit as on the CPU.
  __device__ __forceinline__ Pack<float, 4> penalised(std::int64_t i, Pack<float, 4> values) const {
    if (history == nullptr) return values;
    const unsigned seen = history[i / 32] >> (i % 32);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float& x = values.value[k];
      if (((seen >> k) & 1u) == 0 || !(fabsf(x) < float_infinity)) continue;
      constexpr float largest = 3.402823466e+38f;
      x = x < 0 ? __fmul_rn(x, penalty) : __fdiv_rn(x, penalty);
      x = fminf(fmaxf(x, -largest), largest);
    }
    return values;
  }
  __device__ __forceinline__ Pack<float, 4> penalised(std::int64_t i) const { return penalised(i, raw(i)); }

  /// The first of the ids that this thread looks at in the slice of a block. Slices follow each other by ascending id, and
  /// so do the threads' parts of a slice.
  __device__ __forceinline__ std::int64_t first(int block) const {
    return (static_cast<std::int64_t>(block) * token_sampler_threads + threadIdx.x) * per_thread;
  }
  /// Calls visit(i) for each group of four in that part.
  template <class Visit>
  __device__ __forceinline__ void for_each_group(int block, const Visit& visit) const {
    const std::int64_t begin = first(block);
    const std::int64_t end = begin + per_thread < size ? begin + per_thread : size;
    for (std::int64_t i = begin; i < end; i += 4) visit(i);
  }
};

/// exp((x - largest) / temperature), at most 1, and the same as an integer, whose sums do not depend on their order.
struct TokenWeights {
  float largest;  // of the row, after the penalty
  float scale;
  float one;  // 2^fixed_point

  __device__ __forceinline__ float of(float x) const {
    return fminf(expf(__fmul_rn(__fsub_rn(x, largest), scale)), 1.0f);
  }
  __device__ __forceinline__ Wide fixed(float weight) const { return __float2ull_rn(__fmul_rn(weight, one)); }
};

struct Larger {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a > b ? a : b;
  }
};
struct Plus {
  template <class T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

/// Reduction over a block of 1024 threads in a fixed order, the same bits in every thread.
template <class Operation, class T>
__device__ __forceinline__ T block_reduce(T value) {
  __shared__ T scratch[32];
  const Operation combine;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(whole_warp, value, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[threadIdx.x % 32];
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(whole_warp, value, offset));
  __syncthreads();
  return value;
}

struct BlockScan {
  Wide before;  // sum over the threads before this one
  Wide total;   // over all of them
};

__device__ __forceinline__ Wide warp_scan(Wide value) {
  const unsigned lane = threadIdx.x % 32;
#pragma unroll
  for (unsigned offset = 1; offset < 32; offset *= 2) {
    const Wide lower = __shfl_up_sync(whole_warp, value, offset);
    if (lane >= offset) value += lower;
  }
  return value;
}

/// Prefix sums over a block of 1024 threads.
__device__ __forceinline__ BlockScan block_scan(Wide value) {
  __shared__ Wide scratch[32];
  const unsigned lane = threadIdx.x % 32;
  const unsigned warp = threadIdx.x / 32;
  const Wide inclusive = warp_scan(value);
  if (lane == 31) scratch[warp] = inclusive;
  __syncthreads();
  const Wide warps = warp_scan(scratch[lane]);
  const Wide before = __shfl_sync(whole_warp, warps, warp == 0 ? 0 : static_cast<int>(warp) - 1);
  const Wide total = __shfl_sync(whole_warp, warps, 31);
  __syncthreads();
  return {(warp == 0 ? 0 : before) + inclusive - value, total};
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
