// pointwise on CUDA: about as many blocks as the device holds at once walk over the output, 16 bytes at a time where they
// can.
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

/// The operands of a call, up to N, and the walk over them.
template <class K, int N>
struct PointwiseCall {
  PointwiseOperands<K, N> operands;
  Walk<N + 1> walk;

  /// `packs`: the kernel is to read and write whole packs where rows allow it.
  template <class T>
  PointwiseCall(const PointwiseView<T, Cuda>& out, std::span<const PointwiseView<const T, Cuda>> in,
                const PointwiseProgram& program, bool packs) {
    constexpr int pack = pack_size<K>;
    StridedLayout layouts[N + 1];
    layouts[0] = strided(out.layout());
    operands.out = kernel_pointer(out.data());
    operands.used = program.operands();
    for (int k = 0; k < N; ++k) {
      const bool used = k < operands.used;
      layouts[k + 1] = used ? strided(in[static_cast<std::size_t>(k)].layout()) : layouts[0];
      operands.in[k] = used ? kernel_pointer(in[static_cast<std::size_t>(k)].data()) : nullptr;
    }
    walk = program.is_complex() ? collapse_pairs<N + 1>(layouts) : collapse<N + 1>(layouts);
    const int last = walk.rank - 1;
    operands.out_step = walk.strides[0][last];
    operands.out_packs = packs && has_packs(walk, 0, operands.out, sizeof(K), pack) &&
                         !(program.is_complex() && walk.sizes[last] % pack != 0);
    for (int k = 0; k < N; ++k) {
      operands.steps[k] = walk.strides[k + 1][last];
      const bool whole =
          operands.out_packs && k < operands.used && has_packs(walk, k + 1, operands.in[k], sizeof(K), pack);
      operands.access[k] = whole                    ? PointwiseAccess::packs
                           : operands.steps[k] == 0 ? PointwiseAccess::repeat
                                                    : PointwiseAccess::steps;
    }
  }
};

/// Starts the kernel on groups of P neighbours of a row.
template <int P, class K, int N>
void launch_pointwise(Context<Cuda>& ctx, std::string_view op, const PointwiseCall<K, N>& call,
                      const PointwiseProgram& program) {
  Walk<N + 1> walk = call.walk;
  const int last = walk.rank - 1;
  const std::int64_t tail = walk.rank == 1 ? walk.sizes[last] % P : 0;
  walk.sizes[last] /= P;
  for (int k = 0; k <= N; ++k) walk.strides[k][last] *= P;
  const std::int64_t groups = walk.count();
  LaunchShape shape;
  shape.block = dim3(pointwise_threads);
  shape.grid = dim3(grid_blocks(groups + tail, pointwise_threads,
                                std::int64_t{pointwise_blocks<K, N>} * ctx.properties().multiprocessors));
  shape.dependent = true;
  launch(ctx, op, shape, pointwise_kernel<K, N, P>, program, walk, call.operands, groups, tail);
}

/// Runs a program of up to N operands in packs. False where the output does not allow that.
template <int N, class T>
bool pointwise_in_packs(Context<Cuda>& ctx, std::string_view op, const PointwiseView<T, Cuda>& out,
                        std::span<const PointwiseView<const T, Cuda>> in, const PointwiseProgram& program) {
  const PointwiseCall<kernel_t<T>, N> call(out, in, program, true);
  if (call.operands.out_packs) launch_pointwise<pack_size<kernel_t<T>>>(ctx, op, call, program);
  return call.operands.out_packs;
}

/// Runs a program on single elements, or on pairs of them.
template <int N, int P, class T>
void pointwise_one_by_one(Context<Cuda>& ctx, std::string_view op, const PointwiseView<T, Cuda>& out,
                          std::span<const PointwiseView<const T, Cuda>> in, const PointwiseProgram& program) {
  const PointwiseCall<kernel_t<T>, N> call(out, in, program, false);
  launch_pointwise<P>(ctx, op, call, program);
}

/// The program on views that are not empty and have been checked.
template <class T>
void pointwise_checked(Context<Cuda>& ctx, std::string_view op, const PointwiseView<T, Cuda>& out,
                       std::span<const PointwiseView<const T, Cuda>> in, const PointwiseProgram& program) {
  constexpr int most = PointwiseProgram::max_operands;
  const auto in_packs = [&] {
    switch (program.operands()) {
      case 1: return pointwise_in_packs<1, T>(ctx, op, out, in, program);
      case 2: return pointwise_in_packs<2, T>(ctx, op, out, in, program);
      case 3: return pointwise_in_packs<3, T>(ctx, op, out, in, program);
      case 4: return pointwise_in_packs<4, T>(ctx, op, out, in, program);
      default: return pointwise_in_packs<most, T>(ctx, op, out, in, program);
    }
  };
  if (in_packs()) return;
  if constexpr (!std::is_same_v<T, std::int64_t>) {
    if (program.is_complex()) return pointwise_one_by_one<most, 2, T>(ctx, op, out, in, program);
  }
  if (program.operands() <= 2) {
    pointwise_one_by_one<2, 1, T>(ctx, op, out, in, program);
  } else {
    pointwise_one_by_one<most, 1, T>(ctx, op, out, in, program);
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
