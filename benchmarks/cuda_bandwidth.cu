#include "cuda_bandwidth.hpp"

#include <algorithm>
#include <cstdint>

namespace limits {
namespace {

constexpr int threads = 256;
constexpr int loads = 4;  // in flight in each thread
constexpr int blocks_per_multiprocessor = 2048 / threads;
constexpr std::int64_t tile = std::int64_t{threads} * loads;  // of 16 bytes, a block's share of one round

__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
    read_tiles(const uint4* data, std::int64_t tiles, unsigned* sums) {
  uint4 sum = make_uint4(0, 0, 0, 0);
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const uint4* from = data + i * tile + threadIdx.x;
    uint4 values[loads];
#pragma unroll
    for (int j = 0; j < loads; ++j) values[j] = __ldcs(from + j * threads);
#pragma unroll
    for (int j = 0; j < loads; ++j) {
      sum.x ^= values[j].x;
      sum.y ^= values[j].y;
      sum.z ^= values[j].z;
      sum.w ^= values[j].w;
    }
  }
  // Without a use of every word nothing would have to be read.
  sums[static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x] = sum.x ^ sum.y ^ sum.z ^ sum.w;
}

__global__ void __launch_bounds__(threads, blocks_per_multiprocessor)
    copy_tiles(uint4* to, const uint4* from, std::int64_t tiles) {
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t first = i * tile + threadIdx.x;
    uint4 values[loads];
#pragma unroll
    for (int j = 0; j < loads; ++j) values[j] = __ldcs(from + first + j * threads);
#pragma unroll
    for (int j = 0; j < loads; ++j) __stcs(to + first + j * threads, values[j]);
  }
}

/// Whole tiles of so many bytes, the same number for every block where there is one for each.
std::int64_t whole_tiles(std::int64_t bytes, std::int64_t blocks) {
  const std::int64_t tiles = bytes / (tile * 16);
  return tiles < blocks ? tiles : tiles - tiles % blocks;
}

std::int64_t block_count(int multiprocessors) { return std::int64_t{multiprocessors} * blocks_per_multiprocessor; }

}  // namespace

static_assert(threads * blocks_per_multiprocessor == 2048, "read_sums says so");

std::int64_t launch_read(const void* data, std::int64_t bytes, unsigned* sums, int multiprocessors,
                         cudaStream_t stream) {
  const std::int64_t tiles = whole_tiles(bytes, block_count(multiprocessors));
  const auto blocks = static_cast<unsigned>(std::min(tiles, block_count(multiprocessors)));
  if (tiles > 0) read_tiles<<<blocks, threads, 0, stream>>>(static_cast<const uint4*>(data), tiles, sums);
  return tiles * tile * 16;
}

std::int64_t launch_copy(void* to, const void* from, std::int64_t bytes, int multiprocessors, cudaStream_t stream) {
  const std::int64_t tiles = whole_tiles(bytes, block_count(multiprocessors));
  const auto blocks = static_cast<unsigned>(std::min(tiles, block_count(multiprocessors)));
  if (tiles > 0) {
    copy_tiles<<<blocks, threads, 0, stream>>>(static_cast<uint4*>(to), static_cast<const uint4*>(from), tiles);
  }
  return tiles * tile * 16;
}

}  // namespace limits
