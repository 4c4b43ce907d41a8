// Reading and copying device memory as fast as it goes: the kernels of cuda_bandwidth.cu, which know nothing of tenon.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace limits {

/// Elements of the buffer that `launch_read` writes its sums to, on a device with so many multiprocessors.
constexpr std::int64_t read_sums(int multiprocessors) { return std::int64_t{multiprocessors} * 2048; }

/// Puts a kernel into the stream that reads `bytes` bytes from `data` on, aligned to 16, with 16-byte loads, and writes a
/// sum for each of its threads. Returns how many bytes that are: as many as give every block the same work.
std::int64_t launch_read(const void* data, std::int64_t bytes, unsigned* sums, int multiprocessors,
                         cudaStream_t stream);

/// The same for copying; returns the bytes that are read, which are as many as those written.
std::int64_t launch_copy(void* to, const void* from, std::int64_t bytes, int multiprocessors, cudaStream_t stream);

}  // namespace limits
