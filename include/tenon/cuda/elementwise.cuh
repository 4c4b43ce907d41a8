// What element-wise kernels share: the walk over strided operands, and one kernel for any number of inputs, which moves
// 16 bytes at a time where rows lie side by side and single elements elsewhere.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/strided.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// The shape of an operation on N operands: dimensions of size 1 dropped, the others ordered by the strides of operand 0
/// (the output), neighbours merged where all operands allow it. A row is the last dimension. Kernels take it by value.
template <int N>
struct Walk {
  int rank = 1;
  bool narrow = true;  ///< items are counted with 32 bits, which divide several times faster than 64
  std::int64_t sizes[max_strided_rank] = {};
  std::int64_t strides[N][max_strided_rank] = {};

  [[nodiscard]] std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= sizes[i];
    return product;
  }
  [[nodiscard]] bool rows_are_contiguous() const {
    for (int k = 0; k < N; ++k) {
      if (strides[k][rank - 1] != 1) return false;
    }
    return true;
  }
};

/// The walk over operands of one shape, which is that of the first and not empty.
template <int N>
Walk<N> collapse(const StridedLayout (&operands)[N]) {
  const StridedLayout& shape = operands[0];
  int order[max_strided_rank] = {};
  int rank = 0;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape.sizes[i] == 1) continue;
    // Insertion keeps equal strides in order.
    int at = rank++;
    for (; at > 0 && std::abs(shape.strides[order[at - 1]]) < std::abs(shape.strides[i]); --at) {
      order[at] = order[at - 1];
    }
    order[at] = i;
  }
  Walk<N> walk;
  walk.rank = 0;
  for (int i = 0; i < rank; ++i) {
    const int dim = order[i];
    const std::int64_t size = shape.sizes[dim];
    const int last = walk.rank - 1;
    bool merges = walk.rank > 0;
    for (int k = 0; merges && k < N; ++k) {
      merges = walk.strides[k][last] == wrapping_mul(size, operands[k].strides[dim]);
    }
    const int to = merges ? last : walk.rank++;
    walk.sizes[to] = merges ? walk.sizes[to] * size : size;
    for (int k = 0; k < N; ++k) walk.strides[k][to] = operands[k].strides[dim];
  }
  if (walk.rank == 0) {
    walk.rank = 1;
    walk.sizes[0] = 1;
    for (int k = 0; k < N; ++k) walk.strides[k][0] = 1;
  }
  walk.narrow = walk.count() <= std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  return walk;
}

inline bool is_aligned(const void* data, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(data) % bytes == 0;
}
/// Whether `stride` keeps packs of `pack` elements aligned, in a dimension where it may not count.
inline bool keeps_packs(std::int64_t size, std::int64_t stride, std::int64_t pack) {
  return size <= 1 || stride % pack == 0;
}

/// Whether operand k of a walk can be read in packs of `pack` elements of `bytes` bytes. The last row may end with a part
/// of a pack where there is only one row.
template <int N>
bool has_packs(const Walk<N>& walk, int k, const void* data, std::size_t bytes, std::int64_t pack) {
  const int last = walk.rank - 1;
  if (walk.strides[k][last] != 1 || !is_aligned(data, bytes * static_cast<std::size_t>(pack))) return false;
  for (int i = 0; i < last; ++i) {
    if (walk.strides[k][i] % pack != 0) return false;
  }
  return last == 0 || walk.sizes[last] % pack == 0;
}

/// The same walk with packs for elements; what is left of a single row is dropped.
template <int N>
Walk<N> in_packs(Walk<N> walk, std::int64_t pack) {
  const int last = walk.rank - 1;
  walk.sizes[last] /= pack;
  for (int k = 0; k < N; ++k) {
    for (int i = 0; i < last; ++i) walk.strides[k][i] /= pack;
  }
  return walk;
}

/// Distance of an item from the first one, for each operand.
template <int N>
struct Offsets {
  std::int64_t of[N];
};

template <class Index, int N>
__device__ __forceinline__ Offsets<N> locate_with(const Walk<N>& walk, Index rest) {
  Offsets<N> at{};
  for (int dim = walk.rank - 1; dim > 0; --dim) {
    const Index size = static_cast<Index>(walk.sizes[dim]);
    const Index next = rest / size;
    const std::int64_t i = static_cast<std::int64_t>(rest - next * size);
#pragma unroll
    for (int k = 0; k < N; ++k) at.of[k] += i * walk.strides[k][dim];
    rest = next;
  }
#pragma unroll
  for (int k = 0; k < N; ++k) at.of[k] += static_cast<std::int64_t>(rest) * walk.strides[k][0];
  return at;
}
template <int N>
__device__ __forceinline__ Offsets<N> locate(const Walk<N>& walk, std::int64_t item) {
  return walk.narrow ? locate_with(walk, static_cast<std::uint32_t>(item))
                     : locate_with(walk, static_cast<std::uint64_t>(item));
}

inline constexpr int map_threads = 256;

template <int P, class Op, class Out, class... In>
__device__ __forceinline__ void map_packs(const Op& op, Out* out, const Pack<In, P>&... in) {
  Pack<Out, P> result;
#pragma unroll
  for (int i = 0; i < P; ++i) result.value[i] = op(in.value[i]...);
  store_pack(out, result);
}
template <int P, class Op, int N, std::size_t... K, class Out, class... In>
__device__ __forceinline__ void map_item(const Op& op, const Offsets<N>& at, std::index_sequence<K...>, Out* out,
                                         const In*... in) {
  map_packs<P>(op, out + at.of[0] * P, load_pack<P>(in + at.of[K + 1] * P)...);
}

/// out = op(in...) for every pack of a walk in packs, and for `tail` elements behind a single row of them. An output may
/// be an input: a thread reads its elements before it writes them.
template <int P, class Op, class Out, class... In>
__global__ void __launch_bounds__(map_threads)
    map_kernel(Op op, const __grid_constant__ Walk<1 + static_cast<int>(sizeof...(In))> walk, std::int64_t packs,
               std::int64_t tail, Out* out, const In*... in) {
  wait_for_previous();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * map_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x; i < packs; i += step) {
    map_item<P>(op, locate(walk, i), std::index_sequence_for<In...>{}, out, in...);
  }
  if constexpr (P > 1) {
    if (blockIdx.x == 0 && threadIdx.x < tail) {
      const std::int64_t i = packs * P + threadIdx.x;
      map_packs<1>(op, out + i, load_pack<1>(in + i)...);
    }
  }
}

/// out = op(in...) for all elements of a walk over `out` and every input, in this order.
template <class Op, class Out, class... In>
void map_walk(Context<Cuda>& ctx, std::string_view name, Op op, const Walk<1 + static_cast<int>(sizeof...(In))>& walk,
              Out* out, const In*... in) {
  using Kernel =
      void (*)(Op, Walk<1 + static_cast<int>(sizeof...(In))>, std::int64_t, std::int64_t, Out*, const In*...);
  constexpr int pack = static_cast<int>(16 / std::max({sizeof(Out), sizeof(In)...}));
  LaunchShape shape;
  shape.block = dim3(map_threads);
  shape.dependent = true;
  const auto start = [&](Kernel kernel, const auto& items, std::int64_t tail) {
    const std::int64_t count = items.count();
    shape.grid = dim3(grid_blocks(std::max<std::int64_t>(count, 1), map_threads, std::int64_t{1} << 30));
    launch(ctx, name, shape, kernel, op, items, count, tail, out, in...);
  };
  int k = 0;
  bool packs = pack > 1 && has_packs(walk, k++, out, sizeof(Out), pack);
  ((packs = packs && has_packs(walk, k++, in, sizeof(In), pack)), ...);
  if (packs) {
    const std::int64_t tail = walk.rank == 1 ? walk.sizes[0] % pack : 0;
    start(map_kernel<pack, Op, Out, In...>, in_packs(walk, pack), tail);
  } else {
    start(map_kernel<1, Op, Out, In...>, walk, 0);
  }
}

/// The same for operands of one shape that is not empty.
template <class Op, class Out, class... In>
void map_elements(Context<Cuda>& ctx, std::string_view name, Op op, const StridedLayout (&layouts)[1 + sizeof...(In)],
                  Out* out, const In*... in) {
  map_walk(ctx, name, op, collapse<1 + static_cast<int>(sizeof...(In))>(layouts), out, in...);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
