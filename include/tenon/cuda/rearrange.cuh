// rearrange on CUDA: elements are moved as they are, so one set of kernels, for elements of 1, 2, 4 and 8 bytes, serves
// every dtype and rank. Where the contiguous dimensions of the two tensors differ, square tiles go through shared memory,
// so that both sides of the copy are read and written in whole sectors.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/rearrange.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

struct MoveOp {
  template <class K>
  __device__ __forceinline__ K operator()(K value) const {
    return value;
  }
};

/// The case of a transposition: out[i][j] = in[i][j] for i < rows and j < columns, `out` contiguous in j and `in` in i.
struct Transposition {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t out_row = 0;
  std::int64_t in_column = 0;
  Walk<2> matrices;  ///< the other dimensions
};

inline constexpr int tile_side = 32;
inline constexpr int tile_rows = 8;  // of threads: each moves tile_side / tile_rows elements

template <class K>
__global__ void __launch_bounds__(tile_side* tile_rows)
    transpose_kernel(const __grid_constant__ Transposition shape, std::int64_t tiles, K* out, const K* in) {
  wait_for_previous();
  __shared__ K tile[tile_side][tile_side + 1];
  const int x = static_cast<int>(threadIdx.x);
  const int y = static_cast<int>(threadIdx.y);
  const std::int64_t across = ceil_div(shape.columns, std::int64_t{tile_side});
  const std::int64_t down = ceil_div(shape.rows, std::int64_t{tile_side});
  for (std::int64_t i = blockIdx.x; i < tiles; i += gridDim.x) {
    const std::int64_t strip = i / across;
    const std::int64_t column = (i - strip * across) * tile_side;
    const std::int64_t matrix = strip / down;
    const std::int64_t row = (strip - matrix * down) * tile_side;
    const Offsets<2> at = locate(shape.matrices, matrix);
    for (int j = y; j < tile_side; j += tile_rows) {
      if (row + x < shape.rows && column + j < shape.columns) {
        tile[j][x] = in[at.of[1] + row + x + (column + j) * shape.in_column];
      }
    }
    __syncthreads();
    for (int j = y; j < tile_side; j += tile_rows) {
      if (row + j < shape.rows && column + x < shape.columns) {
        out[at.of[0] + (row + j) * shape.out_row + column + x] = tile[x][j];
      }
    }
    __syncthreads();  // the next tile takes the same memory
  }
}

/// Whether a walk is a transposition whose sides are worth a tile, and which.
inline bool find_transposition(const Walk<2>& walk, Transposition& found) {
  constexpr std::int64_t shortest = 8;
  const int last = walk.rank - 1;
  if (walk.strides[0][last] != 1 || walk.strides[1][last] == 1 || walk.sizes[last] < shortest) return false;
  for (int dim = 0; dim < last; ++dim) {
    if (walk.strides[1][dim] != 1 || walk.sizes[dim] < shortest) continue;
    found.rows = walk.sizes[dim];
    found.columns = walk.sizes[last];
    found.out_row = walk.strides[0][dim];
    found.in_column = walk.strides[1][last];
    found.matrices = Walk<2>{};
    found.matrices.rank = 0;
    for (int i = 0; i < last; ++i) {
      if (i == dim) continue;
      const int to = found.matrices.rank++;
      found.matrices.sizes[to] = walk.sizes[i];
      for (int k = 0; k < 2; ++k) found.matrices.strides[k][to] = walk.strides[k][i];
    }
    if (found.matrices.rank == 0) {
      found.matrices.rank = 1;
      found.matrices.sizes[0] = 1;
    }
    found.matrices.narrow = walk.narrow;
    return true;
  }
  return false;
}

template <class K>
void move_walk(Context<Cuda>& ctx, std::string_view name, const Walk<2>& walk, void* to, const void* from) {
  auto* out = static_cast<K*>(to);
  const auto* in = static_cast<const K*>(from);
  Transposition shape;
  if (!find_transposition(walk, shape)) return map_walk(ctx, name, MoveOp{}, walk, out, in);
  const std::int64_t tiles = shape.matrices.count() * ceil_div(shape.rows, std::int64_t{tile_side}) *
                             ceil_div(shape.columns, std::int64_t{tile_side});
  LaunchShape launch_shape;
  launch_shape.grid = dim3(grid_blocks(tiles, 1, std::int64_t{1} << 30));
  launch_shape.block = dim3(tile_side, tile_rows);
  launch_shape.dependent = true;
  launch(ctx, name, launch_shape, transpose_kernel<K>, shape, tiles, out, in);
}

/// Copies elements of `bytes` bytes between layouts of one shape.
template <std::same_as<Cuda> Device>
void move_elements(Context<Device>& ctx, std::string_view name, void* to, const StridedLayout& to_layout,
                   const void* from, const StridedLayout& from_layout, std::size_t bytes) {
  for (int i = 0; i < to_layout.rank; ++i) {
    if (to_layout.sizes[i] == 0) return;
  }
  Walk<2> walk = collapse<2>({to_layout, from_layout});
  // Neighbours in both tensors move as one larger element where their addresses allow it.
  while (bytes < 8 && walk.rows_are_contiguous() && walk.sizes[walk.rank - 1] % 2 == 0 &&
         has_packs(walk, 0, to, bytes, 2) && has_packs(walk, 1, from, bytes, 2)) {
    walk = in_packs(walk, 2);
    bytes *= 2;
  }
  switch (bytes) {
    case 1: return move_walk<std::uint8_t>(ctx, name, walk, to, from);
    case 2: return move_walk<std::uint16_t>(ctx, name, walk, to, from);
    case 4: return move_walk<std::uint32_t>(ctx, name, walk, to, from);
    default: return move_walk<std::uint64_t>(ctx, name, walk, to, from);
  }
}

}  // namespace detail

template <Element T, std::size_t Rank>
void rearrange(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> in) {
  detail::check_shape("rearrange", "in", in.sizes(), out.sizes(), "as out");
  detail::check_output("rearrange", "out", out.layout());
  detail::check_devices(ctx, "rearrange", out.data(), in.data());
  detail::move_elements(ctx, "rearrange", out.data(), detail::strided(out.layout()), in.data(),
                        detail::strided(in.layout()), sizeof(T));
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
