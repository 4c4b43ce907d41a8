// What kernels are written in: CUDA's own 16-bit types, 16-byte loads and stores, reductions in a fixed order, and the
// wait of dependent launches.
#pragma once

#ifndef __CUDACC__
#error \
    "tenon/cuda/*.cuh needs nvcc: include it from a .cu file, or include <tenon/cuda.hpp> and link tenon::cuda_kernels"
#endif

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// CUDA's type of the same bits.
template <class T>
struct KernelType {
  using type = T;
};
template <>
struct KernelType<float16> {
  using type = __half;
};
template <>
struct KernelType<bfloat16> {
  using type = __nv_bfloat16;
};
template <class T>
using kernel_t = typename KernelType<std::remove_cv_t<T>>::type;

template <class T>
kernel_t<T>* kernel_pointer(T* data) noexcept requires(!std::is_const_v<T>) {
  return reinterpret_cast<kernel_t<T>*>(data);
}
template <class T>
const kernel_t<T>* kernel_pointer(const T* data) noexcept {
  return reinterpret_cast<const kernel_t<T>*>(data);
}

/// The type in which kernels of T compute: double for double, float for everything else.
template <class K>
using compute_t = std::conditional_t<std::is_same_v<K, double>, double, float>;

template <class K>
__device__ __forceinline__ compute_t<K> widen(K value) {
  if constexpr (std::is_same_v<K, __half>) {
    return __half2float(value);
  } else if constexpr (std::is_same_v<K, __nv_bfloat16>) {
    return __bfloat162float(value);
  } else {
    return value;
  }
}

/// To nearest even.
template <class K>
__device__ __forceinline__ K narrow(compute_t<K> value) {
  if constexpr (std::is_same_v<K, __half>) {
    return __float2half_rn(value);
  } else if constexpr (std::is_same_v<K, __nv_bfloat16>) {
    return __float2bfloat16_rn(value);
  } else {
    return value;
  }
}

/// Rounds to K and back, where an algorithm rounds in between.
template <class K>
__device__ __forceinline__ compute_t<K> rounded(compute_t<K> value) {
  return widen(narrow<K>(value));
}

/// Two elements in a word, the first one in the lower half.
template <class Pair>
__device__ __forceinline__ unsigned word_of(const Pair& pair) {
  static_assert(sizeof(Pair) == sizeof(unsigned));
  return *reinterpret_cast<const unsigned*>(&pair);
}
/// The same of two numbers, each to nearest even.
template <class K>
__device__ __forceinline__ unsigned pack_pair(float x, float y) {
  if constexpr (std::is_same_v<K, __half>) {
    return word_of(__floats2half2_rn(x, y));
  } else {
    return word_of(__floats2bfloat162_rn(x, y));
  }
}

/// N elements that are loaded and stored as one: 16 bytes where N fills them.
template <class K, int N>
struct alignas(sizeof(K) * N) Pack {
  K value[N];
};
/// Elements of K in 16 bytes.
template <class K>
inline constexpr int pack_size = static_cast<int>(16 / sizeof(K));

template <int N, class K>
__device__ __forceinline__ Pack<K, N> load_pack(const K* from) {
  return *reinterpret_cast<const Pack<K, N>*>(from);
}
template <class K, int N>
__device__ __forceinline__ void store_pack(K* to, const Pack<K, N>& pack) {
  *reinterpret_cast<Pack<K, N>*>(to) = pack;
}

/// 16 bytes of elements as the registers that hold them. Elements of 16 bits, as in Pack, would be moved one by one, and
/// each move waits for the load.
struct alignas(16) Words {
  unsigned value[4];
};

/// The elements of K in the type to compute in.
template <class K, int N>
__device__ __forceinline__ void unpack(compute_t<K> (&to)[N], const Words& words) {
  static_assert(N == pack_size<K>);
  if constexpr (std::is_same_v<K, __half>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __half2float(__ushort_as_half(static_cast<unsigned short>(words.value[i])));
      to[2 * i + 1] = __half2float(__ushort_as_half(static_cast<unsigned short>(words.value[i] >> 16)));
    }
  } else if constexpr (std::is_same_v<K, __nv_bfloat16>) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(words.value[i] << 16);
      to[2 * i + 1] = __uint_as_float(words.value[i] & 0xffff0000u);
    }
  } else {
    const auto pack = __builtin_bit_cast(Pack<K, N>, words);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = pack.value[i];
  }
}

/// The inverse, each element rounded to nearest even.
template <class K, int N>
__device__ __forceinline__ Words to_words(const compute_t<K> (&from)[N]) {
  static_assert(N == pack_size<K>);
  if constexpr (sizeof(K) == 2) {
    Words words;
#pragma unroll
    for (int i = 0; i < 4; ++i) words.value[i] = pack_pair<K>(from[2 * i], from[2 * i + 1]);
    return words;
  } else {
    Pack<K, N> elements;
#pragma unroll
    for (int i = 0; i < N; ++i) elements.value[i] = narrow<K>(from[i]);
    return __builtin_bit_cast(Words, elements);
  }
}

/// Waits until the kernels before this one have ended and their writes are visible. The first thing that a kernel of a
/// dependent launch does, in every thread, before it reads or writes anything but weights.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

inline constexpr unsigned whole_warp = 0xffffffffu;

/// Sum over the 32 lanes of a warp, the same bits in every lane.
template <class C>
__device__ __forceinline__ C warp_sum(C value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(whole_warp, value, offset);
  return value;
}
template <class C>
__device__ __forceinline__ C warp_max(C value) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    const C other = __shfl_xor_sync(whole_warp, value, offset);
    value = value > other ? value : other;
  }
  return value;
}

/// Sum over a block of whole warps, at most 1024 threads, in a fixed order; the same bits in every thread. `scratch` has
/// 32 elements of shared memory, which may be used again after the next barrier.
template <class C>
__device__ __forceinline__ C block_sum(C value, C* scratch) {
  value = warp_sum(value);
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  C sum = static_cast<int>(threadIdx.x % 32) < warps ? scratch[threadIdx.x % 32] : C(0);
  return warp_sum(sum);
}

// Tensor cores and asynchronous copies, for compute capability 8.0 and later, which tenon's CMake targets insist on.

/// An address in shared memory as the instructions below take it.
__device__ __forceinline__ unsigned shared_address(const void* pointer) {
  return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

/// Copies 16 bytes to shared memory in the background, or writes zeros there where `valid` is false; then `from` is not
/// read. Both addresses are multiples of 16.
__device__ __forceinline__ void copy_async(unsigned to, const void* from, bool valid) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
               :
               : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(valid ? 16 : 0)
               : "memory");
#else
  __trap();
#endif
}
/// Ends a group of copies.
__device__ __forceinline__ void commit_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/// Waits for this thread's groups of copies but the last `Pending` ones. A barrier makes them visible to other threads.
template <int Pending>
__device__ __forceinline__ void wait_for_copies() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

/// Four matrices of 8 x 8 elements of 2 bytes from shared memory. Lane 8 i + r gives the address of row r of matrix i;
/// lane 4 r + c gets columns 2 c and 2 c + 1 of row r of each.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], unsigned address) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}
/// The same of the transposed matrices: lane 4 c + r gets rows 2 r and 2 r + 1 of column c.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&to)[4], unsigned address) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(address)
               : "memory");
#else
  __trap();
#endif
}

/// c (16 x 8) += a (16 x 16) b (16 x 8) of a warp, sums in float. With r = lane / 4 and t = 2 (lane % 4), two elements
/// that lie side by side in each word: a has (r, t), (r + 8, t), (r, t + 8), (r + 8, t + 8), b has rows t, t + 1 and then
/// t + 8, t + 9 of column r, and c has (r, t), (r, t + 1), (r + 8, t), (r + 8, t + 1).
template <class K>
__device__ __forceinline__ void multiply_add(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                             unsigned b0, unsigned b1) {
  static_assert(std::is_same_v<K, __half> || std::is_same_v<K, __nv_bfloat16>);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<K, __half>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
#else
  __trap();
#endif
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
