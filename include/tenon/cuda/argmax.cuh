// argmax on CUDA. Candidates are ordered by value and then by index, so any order of comparing them finds the same one.
// Long rows are split over several blocks, whose winners a second kernel compares.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/argmax.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// The index of a candidate that is none: it loses to every other.
inline constexpr std::int64_t no_index = std::numeric_limits<std::int64_t>::max();

template <class C>
struct Candidate {
  C value;
  std::int64_t index;
};

/// Whether a comes before b: a NaN before every number, then the larger value, then the lower index.
template <class C>
__device__ __forceinline__ bool precedes(const Candidate<C>& a, const Candidate<C>& b) {
  const bool a_nan = a.value != a.value;
  const bool b_nan = b.value != b.value;
  if (a_nan != b_nan) return a_nan;
  if (a_nan || a.value == b.value) return a.index < b.index;
  return a.value > b.value;
}

template <class C>
__device__ __forceinline__ Candidate<C> warp_first(Candidate<C> best) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) {
    Candidate<C> other;
    other.value = __shfl_xor_sync(whole_warp, best.value, offset);
    other.index = __shfl_xor_sync(whole_warp, best.index, offset);
    if (precedes(other, best)) best = other;
  }
  return best;
}
/// Over blockDim.x threads, 32 or one block; valid in thread 0 of them. `scratch` may be used again after a barrier.
template <class C>
__device__ __forceinline__ Candidate<C> block_first(Candidate<C> best, Candidate<C>* scratch) {
  best = warp_first(best);
  if (blockDim.x == 32) return best;
  const int warps = static_cast<int>(blockDim.x) / 32;
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x < 32) {
    best = scratch[static_cast<int>(threadIdx.x) < warps ? threadIdx.x : 0];
    best = warp_first(best);
  }
  return best;
}

template <class C>
__device__ __forceinline__ C lowest_value() {
  return -static_cast<C>(INFINITY);
}

inline constexpr int argmax_threads = 256;

/// Units are the splits of rows: unit = row * splits + split. A block is (256, 1) threads for a unit, or (32, 8) for 8 of
/// them. Elements are read in packs of P; with P = 1 they may have any stride. One split writes the result, more write
/// their indices to `partial`.
template <class K, int P>
__global__ void __launch_bounds__(argmax_threads)
    argmax_kernel(const __grid_constant__ Walk<3> rows, std::int64_t units, std::int64_t splits, std::int64_t n,
                  std::int64_t stride, const K* in, std::int64_t* index, K* value, std::int64_t* partial) {
  using C = compute_t<K>;
  wait_for_previous();
  __shared__ Candidate<C> scratch[argmax_threads / 32];
  const std::int64_t packs = n / P;
  const std::int64_t length = ceil_div(packs, splits);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.y;
  for (std::int64_t unit = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; unit < units;
       unit += step) {
    const std::int64_t row = unit / splits;
    const std::int64_t split = unit - row * splits;
    const Offsets<3> at = locate(rows, row);
    const K* from = in + at.of[2];
    const std::int64_t begin = split * length + threadIdx.x;
    const std::int64_t end = min(packs, (split + 1) * length);
    const std::int64_t tail = packs * P + threadIdx.x;  // behind the packs, for the last split
    const bool has_tail = P > 1 && split == splits - 1 && tail < n;
    Candidate<C> best{lowest_value<C>(), begin < end ? begin * P : has_tail ? tail : no_index};
#pragma unroll 4
    for (std::int64_t p = begin; p < end; p += blockDim.x) {
      const Pack<K, P> pack = load_pack<P>(from + p * P * stride);
#pragma unroll
      for (int i = 0; i < P; ++i) {
        const C x = widen(pack.value[i]);
        if (x > best.value || (x != x && best.value == best.value)) best = {x, p * P + i};
      }
    }
    if (has_tail) {
      const Candidate<C> last{widen(from[tail]), tail};
      if (precedes(last, best)) best = last;
    }
    best = block_first(best, scratch);
    if (threadIdx.x == 0) {
      if (splits == 1) {
        index[at.of[0]] = best.index;
        value[at.of[1]] = from[best.index * stride];
      } else {
        partial[unit] = best.index;
      }
    }
    if (blockDim.x > 32) __syncthreads();  // scratch is used again
  }
}

/// The first of the splits' winners, one block a row.
template <class K>
__global__ void __launch_bounds__(argmax_threads)
    argmax_join_kernel(const __grid_constant__ Walk<3> rows, std::int64_t row_count, std::int64_t splits,
                       std::int64_t stride, const K* in, std::int64_t* index, K* value, const std::int64_t* partial) {
  using C = compute_t<K>;
  wait_for_previous();
  __shared__ Candidate<C> scratch[argmax_threads / 32];
  for (std::int64_t row = blockIdx.x; row < row_count; row += gridDim.x) {
    const Offsets<3> at = locate(rows, row);
    const K* from = in + at.of[2];
    Candidate<C> best{lowest_value<C>(), no_index};
    for (std::int64_t i = threadIdx.x; i < splits; i += argmax_threads) {
      const std::int64_t found = partial[row * splits + i];
      if (found == no_index) continue;
      const Candidate<C> candidate{widen(from[found * stride]), found};
      if (precedes(candidate, best)) best = candidate;
    }
    best = block_first(best, scratch);
    if (threadIdx.x == 0) {
      index[at.of[0]] = best.index;
      value[at.of[1]] = from[best.index * stride];
    }
    __syncthreads();
  }
}

/// `rows` holds the layouts of index, value and in without their last dimension.
template <class K>
void argmax_rows(Context<Cuda>& ctx, const StridedLayout (&layouts)[3], std::int64_t* index, K* value, const K* in,
                 std::int64_t n, std::int64_t stride) {
  constexpr int pack = pack_size<K>;
  constexpr std::int64_t short_row = 1024;  // elements that a warp looks through
  constexpr std::int64_t split_length = 2048;
  constexpr std::int64_t most_blocks = std::int64_t{1} << 30;
  const Walk<3> rows = collapse<3>(layouts);
  const std::int64_t row_count = rows.count();
  bool packed = stride == 1 && n >= pack && is_aligned(in, 16);
  for (int i = 0; i < rows.rank; ++i) packed = packed && keeps_packs(rows.sizes[i], rows.strides[2][i], pack);
  const bool by_warp = n <= short_row;
  const std::int64_t wanted = 2 * std::int64_t{ctx.properties().multiprocessors} / row_count;
  const std::int64_t splits = std::clamp<std::int64_t>(wanted, 1, ceil_div(n, split_length));
  const std::int64_t units = row_count * splits;

  auto scope = ctx.workspace().scope();
  auto* partial = splits > 1 ? scope.template allocate<std::int64_t>(units) : nullptr;
  LaunchShape shape;
  shape.block = by_warp ? dim3(32, argmax_threads / 32) : dim3(argmax_threads);
  shape.grid = dim3(grid_blocks(units, shape.block.y, most_blocks));
  shape.dependent = true;
  launch(ctx, "argmax", shape, packed ? argmax_kernel<K, pack> : argmax_kernel<K, 1>, rows, units, splits, n, stride,
         in, index, value, partial);
  if (splits == 1) return;
  shape.block = dim3(argmax_threads);
  shape.grid = dim3(grid_blocks(row_count, 1, most_blocks));
  launch(ctx, "argmax", shape, argmax_join_kernel<K>, rows, row_count, splits, stride, in, index, value, partial);
}

/// A layout without its last dimension.
template <std::size_t Rank>
StridedLayout row_layout(const Layout<Rank>& layout) {
  StridedLayout result = strided(layout);
  --result.rank;
  return result;
}

}  // namespace detail

template <FloatElement T, std::size_t Rank>
void argmax(Context<Cuda>& ctx, View<std::int64_t, Rank, Cuda> index, View<T, Rank, Cuda> value,
            std::type_identity_t<View<const T, Rank, Cuda>> in) {
  detail::check_argmax(index.sizes(), value.sizes(), in.sizes());
  detail::check_output("argmax", "index", index.layout());
  detail::check_output("argmax", "value", value.layout());
  detail::check_devices(ctx, "argmax", index.data(), value.data(), in.data());
  if (index.empty()) return;
  detail::argmax_rows(
      ctx, {detail::row_layout(index.layout()), detail::row_layout(value.layout()), detail::row_layout(in.layout())},
      index.data(), detail::kernel_pointer(value.data()), detail::kernel_pointer(in.data()), in.size(Rank - 1),
      in.stride(Rank - 1));
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
