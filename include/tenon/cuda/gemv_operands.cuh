// What gemv.cuh multiplies and where its results go: a few rows with any strides, and the output of linear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

inline constexpr int gemv_warps = 16;
inline constexpr int gemv_threads = 32 * gemv_warps;

/// Loads what is read once and never written, past the caches' order of use, if `active`; else nothing changes. Stays where
/// it is among other such loads and waits.
__device__ __forceinline__ void load_words_once(Words& to, const void* from, bool active) {
  asm volatile(
      "{\n"
      ".reg .pred active;\n"
      "setp.ne.s32 active, %5, 0;\n"
      "@active ld.global.cs.v4.u32 {%0, %1, %2, %3}, [%4];\n"
      "}"
      : "+r"(to.value[0]), "+r"(to.value[1]), "+r"(to.value[2]), "+r"(to.value[3])
      : "l"(__cvta_generic_to_global(from)), "r"(static_cast<int>(active)));
}

/// 16-byte pieces of T beside one vector of the matrix: two where 16-bit weights meet float.
template <class T, class W>
inline constexpr int staged_pieces = pack_size<kernel_t<W>> / pack_size<kernel_t<T>>;

/// Where pack q of row j lies. Pieces for one vector lie `pitch` apart, so that the lanes of a warp read neighbours; a pitch
/// has at least as many slots as a row of the matrix has vectors.
template <class T, class W>
__device__ __forceinline__ int staged_slot(int j, int q, int pitch) {
  constexpr int P = staged_pieces<T, W>;
  return (j * P + q % P) * pitch + q / P;
}

/// The elements of row j that meet vector v of a row of the matrix.
template <class T, class W, int V>
__device__ __forceinline__ void load_staged(compute_t<kernel_t<T>> (&x)[V], const Words* staged, int j, int v,
                                            int pitch) {
  constexpr int P = staged_pieces<T, W>;
  static_assert(V == pack_size<kernel_t<W>>);
#pragma unroll
  for (int h = 0; h < P; ++h) {
    compute_t<kernel_t<T>> part[V / P];
    unpack<kernel_t<T>>(part, staged[(j * P + h) * pitch + v]);
#pragma unroll
    for (int i = 0; i < V / P; ++i) x[h * (V / P) + i] = part[i];
  }
}

/// Rows as they are, with any strides, or contiguous and aligned to 16 bytes in any case.
template <class T, bool Vectorized = false>
struct RowsInput {
  using K = kernel_t<T>;
  /// What may be read before the kernel before this one has ended: nothing.
  struct Early {};
  /// What general kernels compute once: nothing.
  struct State {};

  const K* data;
  std::int64_t row_stride;
  std::int64_t column_stride;
  int rows;
  bool vectorized;  ///< rows are contiguous (column_stride is 1) and start at multiples of 16 bytes

  __device__ __forceinline__ Early early() const { return {}; }

  /// Puts M rows into shared memory, zeros after the last. Threads must meet before they read it.
  template <int M, class W>
  __device__ __forceinline__ void stage(Words* staged, compute_t<K>*, int vectors, int pitch, Early) const {
    constexpr int at_once = 4;
    const int packs = vectors * staged_pieces<T, W>;
    for (int start = static_cast<int>(threadIdx.x); start < M * packs; start += at_once * gemv_threads) {
      Words held[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int at = start + u * gemv_threads;
        const int j = M == 1 ? 0 : at / packs;
        if (at < M * packs) held[u] = load(j, at - j * packs);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        const int at = start + u * gemv_threads;
        const int j = M == 1 ? 0 : at / packs;
        if (at < M * packs) staged[staged_slot<T, W>(j, at - j * packs, pitch)] = held[u];
      }
    }
  }

  __device__ __forceinline__ State prepare(std::int64_t, compute_t<K>*) const { return {}; }
  __device__ __forceinline__ compute_t<K> value(int j, std::int64_t column, State) const {
    return widen(data[j * row_stride + column * column_stride]);
  }

 private:
  __device__ __forceinline__ Words load(int j, int q) const {
    constexpr int N = pack_size<K>;
    if (j >= rows) return {};
    const K* from = data + j * row_stride + static_cast<std::int64_t>(q) * N * column_stride;
    if constexpr (Vectorized) {
      return *reinterpret_cast<const Words*>(from);
    } else {
      if (vectorized) return *reinterpret_cast<const Words*>(from);
      Pack<K, N> pack;
#pragma unroll
      for (int i = 0; i < N; ++i) pack.value[i] = from[i * column_stride];
      return __builtin_bit_cast(Words, pack);
    }
  }
};

/// The output of linear: the sum and the bias, rounded to T.
template <class T, class W>
struct LinearOutput {
  using K = kernel_t<T>;
  using KW = kernel_t<W>;
  using Acc = compute_t<K>;
  static constexpr int streams = 1;
  /// As it was loaded: converting it would wait for it.
  struct Extra {
    KW bias;
  };

  K* out;
  std::int64_t row_stride;
  std::int64_t column_stride;
  const KW* bias;  ///< may be nullptr
  std::int64_t bias_stride;
  int rows;

  /// What a result needs besides its sum, as far as it is weights.
  __device__ __forceinline__ Extra early(std::int64_t column, int) const {
    return {bias == nullptr ? narrow<KW>(0) : bias[column * bias_stride]};
  }
  /// And as far as the kernels before may have written it: nothing.
  __device__ __forceinline__ void late(Extra&, std::int64_t, int) const {}
  __device__ __forceinline__ void write(std::int64_t column, int j, const Acc (&sums)[1], Extra with) const {
    if (j < rows) out[j * row_stride + column * column_stride] = narrow<K>(sums[0] + widen(with.bias));
  }
};

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
