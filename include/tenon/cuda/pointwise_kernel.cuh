// The kernel of point-wise programs: it brings operands to shared memory and interprets the program there. Any operand is
// at hand by its number; and packs of the next group come while this one is computed, without holding registers.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/cuda/pointwise_steps.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// How the elements of an operand are read along a row.
enum class PointwiseAccess : std::uint8_t {
  packs,   ///< contiguous and aligned to packs
  repeat,  ///< one for the whole row
  steps    ///< one by one
};

/// The output and N operands, of which `used` count.
template <class K, int N>
struct PointwiseOperands {
  K* out = nullptr;
  const K* in[N] = {};
  int used = 0;
  bool out_packs = false;
  PointwiseAccess access[N] = {};
  std::int64_t out_step = 0;   ///< elements from one of a row to the next
  std::int64_t steps[N] = {};  ///< the same of the operands
};

inline constexpr int pointwise_threads = 128;
/// Blocks of a multiprocessor, which limits the registers of each thread.
template <class K, int N>
inline constexpr int pointwise_blocks = N > 4            ? 4
                                        : sizeof(K) == 4 ? 8
                                                         : 6;

/// What a block of the kernel keeps in shared memory, of which every thread has its own column: P elements of each operand
/// for the group at hand and the next one, and the values of the stack.
template <class K, int N, int P>
struct PointwiseShared {
  using C = pointwise_t<K>;
  static constexpr int piece = P < 16 / static_cast<int>(sizeof(C)) ? P : 16 / static_cast<int>(sizeof(C));
  static constexpr int pieces = P / piece;

  Pack<K, P> operand[2][N][pointwise_threads];
  Pack<C, piece> stack[PointwiseProgram::max_depth - 1][pieces][pointwise_threads];
};

/// Values below the top of a program's stack, in shared memory.
template <class K, int N, int P>
class SharedStack {
 public:
  using Shared = PointwiseShared<K, N, P>;
  using C = typename Shared::C;

  explicit __device__ __forceinline__ SharedStack(Shared& shared) : shared_(shared) {}

  __device__ __forceinline__ void push(const C (&value)[P]) {
#pragma unroll
    for (int q = 0; q < Shared::pieces; ++q) {
      Pack<C, Shared::piece> values;
#pragma unroll
      for (int e = 0; e < Shared::piece; ++e) values.value[e] = value[q * Shared::piece + e];
      shared_.stack[depth_][q][threadIdx.x] = values;
    }
    ++depth_;
  }
  __device__ __forceinline__ void pop(C (&value)[P]) {
    --depth_;
#pragma unroll
    for (int q = 0; q < Shared::pieces; ++q) {
      const Pack<C, Shared::piece> values = shared_.stack[depth_][q][threadIdx.x];
#pragma unroll
      for (int e = 0; e < Shared::piece; ++e) value[q * Shared::piece + e] = values.value[e];
    }
  }

 private:
  Shared& shared_;
  int depth_ = 0;
};

/// A group of P neighbours of a row, or, behind the last whole group of the only row, a single element.
template <int N>
struct PointwiseGroup {
  Offsets<N> at;
  bool single;
};

/// Of `groups` whole ones and single elements after them.
template <int P, class K, int N>
__device__ __forceinline__ PointwiseGroup<N + 1> locate_group(const Walk<N + 1>& walk,
                                                              const PointwiseOperands<K, N>& operands,
                                                              std::int64_t groups, std::int64_t item) {
  if (P == 1 || item < groups) return {locate(walk, item), false};
  PointwiseGroup<N + 1> group{{}, true};
  const std::int64_t element = groups * (P - 1) + item;
  group.at.of[0] = element * operands.out_step;
#pragma unroll
  for (int k = 0; k < N; ++k) group.at.of[k + 1] = element * operands.steps[k];
  return group;
}

/// Brings a group of each operand to shared memory: packs in the background, others through registers, which waits for
/// them; all loads are under way before that. A single element is repeated.
template <class K, int N, int P>
__device__ __forceinline__ void stage_group(PointwiseShared<K, N, P>& shared, int stage,
                                            const PointwiseOperands<K, N>& operands,
                                            const PointwiseGroup<N + 1>& group) {
  constexpr bool whole = sizeof(Pack<K, P>) == sizeof(Words);
  const auto in_background = [&](int k) {
    return whole && operands.access[k] == PointwiseAccess::packs && !group.single;
  };
  Pack<K, P> held[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k >= operands.used) continue;
    const K* from = operands.in[k] + group.at.of[k + 1];
    if (in_background(k)) {
      copy_async(shared_address(&shared.operand[stage][k][threadIdx.x]), from, true);
      continue;
    }
    const bool repeats = operands.access[k] == PointwiseAccess::repeat || group.single;
    held[k].value[0] = *from;
#pragma unroll
    for (int e = 1; e < P; ++e) held[k].value[e] = repeats ? held[k].value[0] : from[e * operands.steps[k]];
  }
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k < operands.used && !in_background(k)) shared.operand[stage][k][threadIdx.x] = held[k];
  }
}

/// The program for a group that is in shared memory.
template <class K, int N, int P>
__device__ __forceinline__ void run_group(PointwiseShared<K, N, P>& shared, int stage,
                                          const PointwiseOperands<K, N>& operands, const PointwiseProgram& program,
                                          std::int64_t at, bool single) {
  const auto load = [&](int operand, pointwise_t<K>(&to)[P]) {
    const Pack<K, P>& from = shared.operand[stage][operand][threadIdx.x];
    if constexpr (sizeof(K) == 2 && P == pack_size<K>) {
      unpack<K>(to, reinterpret_cast<const Words&>(from));
    } else {
      const Pack<K, P> elements = from;
#pragma unroll
      for (int e = 0; e < P; ++e) to[e] = pointwise_value(elements.value[e]);
    }
  };
  SharedStack<K, N, P> stack(shared);
  pointwise_t<K> result[P];
  run_steps<K, P>(program, load, stack, result);
  K* out = operands.out + at;
  if constexpr (P == pack_size<K> && P > 1) {
    if (operands.out_packs && !single) {
      if constexpr (sizeof(K) == 2) {
        *reinterpret_cast<Words*>(out) = to_words<K>(result);
      } else {
        Pack<K, P> elements;
#pragma unroll
        for (int e = 0; e < P; ++e) elements.value[e] = result[e];
        store_pack(out, elements);
      }
      return;
    }
  }
#pragma unroll
  for (int e = 0; e < P; ++e) {
    if (e == 0 || !single) out[e * operands.out_step] = pointwise_element<K>(result[e]);
  }
}

/// For every group of a walk, of which a row has that many, and for `tail` elements behind the only row. The output may be
/// an operand: a thread reads the elements that it writes before it writes them, and no others of them.
template <class K, int N, int P>
__global__ void __launch_bounds__(pointwise_threads, pointwise_blocks<K, N>)
    pointwise_kernel(const __grid_constant__ PointwiseProgram program, const __grid_constant__ Walk<N + 1> walk,
                     const __grid_constant__ PointwiseOperands<K, N> operands, std::int64_t groups, std::int64_t tail) {
  __shared__ PointwiseShared<K, N, P> shared;
  wait_for_previous();
  const std::int64_t end = groups + tail;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * pointwise_threads;
  std::int64_t item = static_cast<std::int64_t>(blockIdx.x) * pointwise_threads + threadIdx.x;
  std::int64_t next_at = 0;
  bool next_single = false;
  const auto stage_next = [&](int stage) {
    if (item < end) {
      const PointwiseGroup<N + 1> group = locate_group<P>(walk, operands, groups, item);
      stage_group(shared, stage, operands, group);
      next_at = group.at.of[0];
      next_single = group.single;
    }
    commit_copies();
  };
  stage_next(0);
#pragma unroll 1
  for (int stage = 0; item < end; stage ^= 1) {
    const std::int64_t at = next_at;
    const bool single = next_single;
    item += step;
    stage_next(stage ^ 1);
    wait_for_copies<1>();
    run_group(shared, stage, operands, program, at, single);
  }
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
