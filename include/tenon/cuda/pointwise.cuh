// pointwise on CUDA: as many blocks as the device holds at once walk over the output, 16 bytes at a time where they can.
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
#include <tenon/cuda/pointwise_kernel.cuh>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

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
    shape.grid = dim3(grid_blocks(groups + tail, pointwise_threads,
                                  std::int64_t{pointwise_blocks<K, N>} * ctx.properties().multiprocessors));
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
