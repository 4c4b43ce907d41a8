// What blocks of one launch tell each other through device memory: arrivals at a barrier, and values read past the L1
// cache. Needs a cooperative launch, which guarantees that all blocks run at once.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/cuda/primitives.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Counts one more arrival and returns how many there were before. What the block did before its last barrier is visible
/// to those who see the new number through `arrivals`, or who arrive later.
__device__ __forceinline__ unsigned arrive(unsigned* counter) {
  unsigned before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
__device__ __forceinline__ unsigned arrivals(const unsigned* counter) {
  unsigned number;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(number) : "l"(counter) : "memory");
  return number;
}

/// Reads what other blocks wrote before a barrier of this launch. Never moved across barriers, never from a cache that
/// does not see other multiprocessors' writes.
__device__ __forceinline__ unsigned load_fresh(const unsigned* from) {
  unsigned value;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ __forceinline__ unsigned long long load_fresh(const unsigned long long* from) {
  unsigned long long value;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(from) : "memory");
  return value;
}

/// Waits until `expected` blocks have arrived since the counter was 0: the number of blocks at the first barrier of a
/// launch, twice that at the second. Every thread of every block calls it.
__device__ __forceinline__ void grid_barrier(unsigned* counter, unsigned expected) {
  __syncthreads();
  if (threadIdx.x == 0) {
    arrive(counter);
    while (arrivals(counter) < expected) {
    }
  }
  __syncthreads();
}

/// The same without waiting: true in every thread of the block that is the last to arrive, which then sees what all others
/// wrote; the others are not needed any more.
__device__ __forceinline__ bool is_last_block(unsigned* counter, unsigned expected) {
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) last = arrive(counter) + 1 == expected;
  __syncthreads();
  return last;
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
