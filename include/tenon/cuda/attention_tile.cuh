// Tiles of 16-bit elements in shared memory for attention with tensor cores: how they lie, how they get there, and how
// weights become elements.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Where 16 bytes of a row lie in a tile of rows of D elements of 2 bytes. They change places by row, so that 8 rows that
/// are read at once lie in different banks.
template <int D>
__device__ __forceinline__ int tile_swizzle(int row) {
  return D == 32 ? (row >> 1) & 3 : row & 7;
}
template <int D>
__device__ __forceinline__ unsigned tile_offset(int row, int chunk) {
  return static_cast<unsigned>(row * D * 2 + (chunk ^ tile_swizzle<D>(row)) * 16);
}

/// The address of chunk c + 2 i of a row from that of chunk c < 2, in a tile at a multiple of 256 bytes.
__device__ __forceinline__ unsigned chunks_further(unsigned address, int i) {
  return address ^ static_cast<unsigned>(32 * i);
}

/// Begins to copy a tile of `Rows` rows: the first `count` rows and `columns` columns, zeros elsewhere. With `Skips`
/// row `skip` is left as it is.
template <int D, int Rows, int Threads, bool Skips = false, class K>
__device__ __forceinline__ void copy_tile(unsigned to, const K* from, std::int64_t stride, int count, int columns,
                                          int skip = -1) {
  constexpr int chunks = D / 8;
  constexpr int step = Threads / chunks;
  static_assert(step % 8 == 0 && Rows % step == 0);
  const int chunk = static_cast<int>(threadIdx.x) % chunks;
  const int row = static_cast<int>(threadIdx.x) / chunks;
  const K* source = from + row * stride + chunk * 8;
  to += tile_offset<D>(row, chunk);
#pragma unroll
  for (int i = 0; i < Rows; i += step) {
    const bool valid = row + i < count && chunk * 8 < columns;
    if (!Skips || row + i != skip) copy_async(to + static_cast<unsigned>(i * D * 2), source, valid);
    source += step * stride;
  }
}

/// 2 to a power, to 2 units of the last place like exp2f, with results below 2^-126 flushed to 0.
__device__ __forceinline__ float weight_of(float x) {
#ifdef __CUDA_ARCH__
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
#else
  return exp2f(x);
#endif
}

/// Weights go into products as two elements, whose sum has twice the digits: float16 then keeps 22 bits of a weight,
/// bfloat16 16.
template <class K>
__device__ __forceinline__ void split_pair(float x, float y, unsigned& high, unsigned& low) {
  if constexpr (std::is_same_v<K, __half>) {
    const __half2 rounded_pair = __floats2half2_rn(x, y);
    const float2 back = __half22float2(rounded_pair);
    high = word_of(rounded_pair);
    low = pack_pair<K>(x - back.x, y - back.y);
  } else {
    const unsigned x_bits = __float_as_uint(x);
    const unsigned y_bits = __float_as_uint(y);
    high = __byte_perm(x_bits, y_bits, 0x7632);  // cut off: the rest is exact
    low = pack_pair<K>(x - __uint_as_float(x_bits & 0xffff0000u), y - __uint_as_float(y_bits & 0xffff0000u));
  }
}

/// Weights are kept as 2^weight_shift times their size, which leaves with the sum: small ones would be lost in float16,
/// which ends at 2^-24.
template <class K>
inline constexpr float weight_shift = std::is_same_v<K, __half> ? 12.0f : 0.0f;

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
