// pointwise on CUDA: a kernel that interprets the program, 16 bytes of each operand at a time. All loads of a pack are under
// way before its first step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>
#include <type_traits>

#include <tenon/core/math.hpp>
#include <tenon/cuda/elementwise.cuh>
#include <tenon/cuda/gemv_operands.cuh>
#include <tenon/cuda/pointwise_steps.cuh>
#include <tenon/ops/pointwise.hpp>

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

/// P elements as they were loaded: converting them would wait for them.
template <class K, int P>
struct PointwiseGroup {
  static constexpr bool whole = P > 1 && sizeof(K) * P == sizeof(Words);
  using Data = std::conditional_t<whole, Words, Pack<K, P>>;
  Data data;

  __device__ __forceinline__ void load(const K* from, PointwiseAccess access, std::int64_t step) {
    if (whole && access == PointwiseAccess::packs) {
      data = *reinterpret_cast<const Data*>(from);
      return;
    }
    Pack<K, P> elements{};
    elements.value[0] = *from;
    if (P > 1 && access != PointwiseAccess::repeat) {
#pragma unroll
      for (int e = 1; e < P; ++e) elements.value[e] = from[e * step];
    }
    data = __builtin_bit_cast(Data, elements);
  }
  __device__ __forceinline__ void take(pointwise_t<K> (&to)[P], PointwiseAccess access) const {
    if constexpr (whole && sizeof(K) == 2) {
      unpack<K>(to, data);
    } else {
      const auto elements = __builtin_bit_cast(Pack<K, P>, data);
#pragma unroll
      for (int e = 0; e < P; ++e) to[e] = pointwise_value(elements.value[e]);
    }
    if (P > 1 && access == PointwiseAccess::repeat) {
#pragma unroll
      for (int e = 1; e < P; ++e) to[e] = to[0];
    }
  }
};

inline constexpr int pointwise_threads = 256;
/// Blocks of a multiprocessor, which limits the registers of each: enough loads must be under way.
template <class K, int N>
inline constexpr int pointwise_blocks = N > 4 || sizeof(K) == 2   ? 2
                                        : N < 3 && sizeof(K) == 4 ? 4
                                                                  : 3;

/// The program for one group of P elements.
template <int P, class K, int N>
__device__ __forceinline__ void pointwise_group(const PointwiseOperands<K, N>& operands,
                                                const PointwiseProgram& program, const Offsets<N + 1>& at) {
  PointwiseGroup<K, P> held[N];
#pragma unroll
  for (int k = 0; k < N; ++k) {
    if (k < operands.used) held[k].load(operands.in[k] + at.of[k + 1], operands.access[k], operands.steps[k]);
  }
  const auto load = [&](int operand, pointwise_t<K>(&to)[P]) {
    PointwiseGroup<K, P> chosen = held[0];
#pragma unroll
    for (int k = 1; k < N; ++k) {
      if (k == operand) chosen = held[k];
    }
    chosen.take(to, operands.access[operand]);
  };
  pointwise_t<K> result[P];
  run_steps<K, P>(program, load, result);
  Pack<K, P> elements;
#pragma unroll
  for (int e = 0; e < P; ++e) elements.value[e] = pointwise_element<K>(result[e]);
  K* out = operands.out + at.of[0];
  if (P == 1 || (PointwiseGroup<K, P>::whole && operands.out_packs)) {
    store_pack(out, elements);
  } else {
#pragma unroll
    for (int e = 0; e < P; ++e) out[e * operands.out_step] = elements.value[e];
  }
}

/// For every group of a walk, of which a row has that many, and for `tail` elements behind the only row. The output may be
/// an operand: a thread reads its elements before it writes them.
template <class K, int N, int P>
__global__ void __launch_bounds__(pointwise_threads, pointwise_blocks<K, N>)
    pointwise_kernel(const __grid_constant__ PointwiseProgram program, const __grid_constant__ Walk<N + 1> walk,
                     const __grid_constant__ PointwiseOperands<K, N> operands, std::int64_t groups, std::int64_t tail) {
  wait_for_previous();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * pointwise_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * pointwise_threads + threadIdx.x; i < groups;
       i += step) {
    pointwise_group<P>(operands, program, locate(walk, i));
  }
  if constexpr (P > 1) {
    if (blockIdx.x == 0 && threadIdx.x < tail) {
      Offsets<N + 1> at{};
      const std::int64_t i = groups * P + threadIdx.x;
      at.of[0] = i * operands.out_step;
#pragma unroll
      for (int k = 0; k < N; ++k) at.of[k + 1] = i * operands.steps[k];
      pointwise_group<1>(operands, program, at);
    }
  }
}

/// As collapse, for operands whose last dimension has two elements that stay neighbours.
template <int N>
Walk<N> collapse_pairs(const StridedLayout (&operands)[N]) {
  StridedLayout outer[N];
  for (int k = 0; k < N; ++k) {
    outer[k] = operands[k];
    --outer[k].rank;
  }
  const int pair = outer[0].rank;
  Walk<N> walk = collapse<N>(outer);
  int last = walk.rank - 1;
  bool merges = true;
  for (int k = 0; k < N; ++k) merges = merges && walk.strides[k][last] == wrapping_mul(2, operands[k].strides[pair]);
  merges = merges || walk.sizes[last] == 1;
  if (!merges) walk.sizes[last = walk.rank++] = 1;
  walk.sizes[last] *= 2;
  for (int k = 0; k < N; ++k) walk.strides[k][last] = operands[k].strides[pair];
  walk.narrow = walk.count() <= std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  return walk;
}

/// Launches the kernel for up to N operands. With Packs the one that stores packs; false where the output does not allow
/// that. Without, elements one by one, and pairs of them where N is 8.
template <bool Packs, int N, class T>
bool pointwise_operands(Context<Cuda>& ctx, std::string_view op, const PointwiseView<T, Cuda>& out,
                        std::span<const PointwiseView<const T, Cuda>> in, const PointwiseProgram& program) {
  using K = kernel_t<T>;
  constexpr int pack = pack_size<K>;
  PointwiseOperands<K, N> operands;
  StridedLayout layouts[N + 1];
  layouts[0] = strided(out.layout());
  operands.out = kernel_pointer(out.data());
  operands.used = program.operands();
  for (int k = 0; k < N; ++k) {
    const bool used = k < operands.used;
    layouts[k + 1] = used ? strided(in[static_cast<std::size_t>(k)].layout()) : layouts[0];
    operands.in[k] = used ? kernel_pointer(in[static_cast<std::size_t>(k)].data()) : nullptr;
  }
  Walk<N + 1> walk = program.is_complex() ? collapse_pairs<N + 1>(layouts) : collapse<N + 1>(layouts);
  const int last = walk.rank - 1;
  operands.out_step = walk.strides[0][last];
  for (int k = 0; k < N; ++k) operands.steps[k] = walk.strides[k + 1][last];

  const auto start = [&]<int P>() {
    LaunchShape shape;
    shape.block = dim3(pointwise_threads);
    shape.dependent = true;
    const std::int64_t tail = walk.rank == 1 ? walk.sizes[last] % P : 0;
    walk.sizes[last] /= P;
    for (int k = 0; k <= N; ++k) walk.strides[k][last] *= P;
    const std::int64_t groups = walk.count();
    shape.grid = dim3(grid_blocks(std::max<std::int64_t>(groups, 1), pointwise_threads, std::int64_t{1} << 30));
    launch(ctx, op, shape, pointwise_kernel<K, N, P>, program, walk, operands, groups, tail);
  };

  operands.out_packs = Packs && has_packs(walk, 0, operands.out, sizeof(K), pack) &&
                       !(program.is_complex() && walk.sizes[last] % pack != 0);
  for (int k = 0; k < N; ++k) {
    const bool packs =
        operands.out_packs && k < operands.used && has_packs(walk, k + 1, operands.in[k], sizeof(K), pack);
    operands.access[k] = packs                    ? PointwiseAccess::packs
                         : operands.steps[k] == 0 ? PointwiseAccess::repeat
                                                  : PointwiseAccess::steps;
  }
  if constexpr (Packs) {
    if (operands.out_packs) start.template operator()<pack>();
    return operands.out_packs;
  } else if (!program.is_complex()) {
    start.template operator()<1>();
  } else if constexpr (N == PointwiseProgram::max_operands && !std::is_same_v<T, std::int64_t>) {
    start.template operator()<2>();
  }
  return true;
}

/// The program on views that are not empty and have been checked.
template <class T>
void pointwise_checked(Context<Cuda>& ctx, std::string_view op, const PointwiseView<T, Cuda>& out,
                       std::span<const PointwiseView<const T, Cuda>> in, const PointwiseProgram& program) {
  const auto packs = [&] {
    switch (program.operands()) {
      case 1: return pointwise_operands<true, 1, T>(ctx, op, out, in, program);
      case 2: return pointwise_operands<true, 2, T>(ctx, op, out, in, program);
      case 3: return pointwise_operands<true, 3, T>(ctx, op, out, in, program);
      case 4: return pointwise_operands<true, 4, T>(ctx, op, out, in, program);
      default: return pointwise_operands<true, PointwiseProgram::max_operands, T>(ctx, op, out, in, program);
    }
  };
  if (packs()) return;
  if (program.operands() <= 2 && !program.is_complex()) {
    pointwise_operands<false, 2, T>(ctx, op, out, in, program);
  } else {
    pointwise_operands<false, PointwiseProgram::max_operands, T>(ctx, op, out, in, program);
  }
}

}  // namespace detail

template <PointwiseElement T>
void pointwise(Context<Cuda>& ctx, PointwiseView<T, Cuda> out,
               std::type_identity_t<std::span<const PointwiseView<const T, Cuda>>> operands,
               const PointwiseProgram& program) {
  detail::check_pointwise<T, Cuda>(out, operands, program);
  detail::check_devices(ctx, "pointwise", out.data());
  for (const auto& operand : operands) detail::check_devices(ctx, "pointwise", operand.data());
  if (out.empty()) return;
  detail::pointwise_checked<T>(ctx, "pointwise", out, operands, program);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
