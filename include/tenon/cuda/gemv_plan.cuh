// How the rows of a matrix are dealt out to the blocks and warps of gemv.cuh and gemv_tensor.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenon/core/math.hpp>
#include <tenon/cuda/gemv_operands.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// How a block's warps divide its units, the rows of the matrix that a warp takes at a time: whole rounds, then the units
/// that are left, each by as many warps as there are for it. Made on the host, because dividing takes a kernel long.
struct GemvShare {
  int rounds = 0;
  int rest = 0;           ///< units left
  int slices = 1;         ///< warps that share one of them
  int reciprocal = 0;     ///< warp * reciprocal / 256 is warp / slices
  int slice_vectors = 0;  ///< of such a unit's rows that a warp takes

  /// Slices are whole chunks of so many vectors.
  static GemvShare of(int units, int vectors, int chunk) {
    GemvShare share;
    share.rounds = units / gemv_warps;
    share.rest = units % gemv_warps;
    share.slices = share.rest == 0 ? 1 : gemv_warps / share.rest;
    share.reciprocal = 256 / share.slices + 1;
    share.slice_vectors = chunk * ceil_div(ceil_div(vectors, chunk), share.slices);
    return share;
  }
};

/// How the units are dealt out to blocks, and their rows loaded.
struct GemvPlan {
  int per_block = 0;  ///< units of a block
  int extra = 0;      ///< so many first blocks have one more
  int vectors = 0;    ///< 16-byte vectors in a row
  int step = 0;       ///< of which a batch takes so many, whole chunks
  GemvShare share;
  GemvShare extra_share;  ///< of the blocks with one more
};

/// Where a warp is: vectors [at, at + step) below `end` of the rows of one of the block's units.
struct GemvCursor {
  int piece;
  int unit;
  int at;
  int end;
  int step;
};

/// The batches of a warp, one after another, of at most C chunks.
template <int Chunk, int C>
struct GemvWalk {
  GemvShare share;
  int warp;
  int vectors;
  int step;

  /// Units of this warp, whole ones and slices.
  [[nodiscard]] __device__ __forceinline__ int pieces() const {
    return share.rounds + (warp < share.rest * share.slices ? 1 : 0);
  }
  /// Whether sums of several warps have to be put together.
  [[nodiscard]] __device__ __forceinline__ bool split() const { return share.slices > 1; }
  [[nodiscard]] __device__ __forceinline__ bool whole(const GemvCursor& cursor) const {
    return cursor.piece < share.rounds || !split();
  }
  [[nodiscard]] __device__ __forceinline__ GemvCursor start(int piece) const {
    if (piece < share.rounds || !split()) return {piece, piece * gemv_warps + warp, 0, vectors, step};
    const int unit = warp * share.reciprocal / 256;
    const int at = (warp - unit * share.slices) * share.slice_vectors;
    return {piece, share.rounds * gemv_warps + unit, at, min(at + share.slice_vectors, vectors), Chunk * C};
  }
  [[nodiscard]] __device__ __forceinline__ GemvCursor next(const GemvCursor& now) const {
    if (now.at + now.step < now.end) return {now.piece, now.unit, now.at + now.step, now.end, now.step};
    return start(now.piece + 1);
  }
};

/// Sums of N values over the lanes of a warp, N a power of two: every lane gets one, number lane / (32 / N).
template <int N, int Offset = 16, class C>
__device__ __forceinline__ C warp_sums(const C (&values)[N]) {
  static_assert(N >= 1 && N <= 32 && (N & (N - 1)) == 0);
  if constexpr (N > 1) {
    // Half of the lanes keep the first half of the values and give the second away, the other half the reverse.
    const bool upper = (threadIdx.x & static_cast<unsigned>(Offset)) != 0;
    C halves[N / 2];
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const C kept = upper ? values[i + N / 2] : values[i];
      const C sent = upper ? values[i] : values[i + N / 2];
      halves[i] = kept + __shfl_xor_sync(whole_warp, sent, Offset);
    }
    return warp_sums<N / 2, Offset / 2>(halves);
  } else {
    C sum = values[0];
#pragma unroll
    for (int rest = Offset; rest > 0; rest /= 2) sum += __shfl_xor_sync(whole_warp, sum, rest);
    return sum;
  }
}

/// Bytes of shared memory that the staged input may take.
inline std::size_t gemv_shared_bytes(const Context<Cuda>& ctx) noexcept {
  const std::size_t most = ctx.properties().shared_bytes_per_block;
  return most > 10240 ? most - 10240 : 0;  // the kernels have some of their own
}

/// Whether gemv_kernel takes M rows of `columns` elements of T and a matrix of W whose rows lie like this.
template <class T, class W>
bool gemv_fits(const Context<Cuda>& ctx, const W* weight, std::int64_t row_stride, std::int64_t results,
               std::int64_t columns, int M) {
  constexpr std::int64_t vector = 16 / sizeof(W);
  const bool rows = results <= 1 || row_stride % vector == 0;
  return rows && columns > 0 && columns % vector == 0 && reinterpret_cast<std::uintptr_t>(weight) % 16 == 0 &&
         static_cast<std::uint64_t>(columns) <= gemv_shared_bytes(ctx) / (sizeof(T) * static_cast<std::size_t>(M)) &&
         results <= std::int64_t{1} << 40;
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
