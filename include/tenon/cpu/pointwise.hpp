// pointwise on the CPU: the program runs over tiles that stay in the first-level cache, one loop for each step.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cpu/pointwise_tile.hpp>
#include <tenon/ops/pointwise.hpp>
#include <tenon/runtime/parallel.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// An output of at least so many bytes goes past the caches, and is not read before it is written: none would hold it.
/// What the system says about caches is of no use here: in a virtual machine it may be ten times what there is.
inline constexpr std::int64_t pointwise_stream_bytes = std::int64_t{32} << 20;

/// Elements that a chain works on in one piece where nothing is copied.
inline constexpr std::int64_t pointwise_piece = 4096;

/// The shape of a program's operands, of which the output is number 0, as RowLoop has it for a number of operands that is
/// known at compile time: dimensions of size 1 dropped, the others ordered by the strides of the output, neighbours
/// merged where all operands allow it. With products of complex numbers the last dimension stays the last.
struct PointwiseLoop {
  static constexpr int max_operands = PointwiseProgram::max_operands + 1;

  struct Dim {
    std::int64_t size = 1;
    std::int64_t strides[max_operands];
  };

  template <class T>
  PointwiseLoop(const PointwiseView<T, Cpu>& out, std::span<const PointwiseView<const T, Cpu>> inputs,
                const PointwiseProgram& program)
      : operands(program.operands() + 1) {
    std::size_t order[pointwise_rank];
    std::size_t used = 0;
    const auto distance = [&](std::size_t i) {
      return program.is_complex() && i + 1 == pointwise_rank ? 0 : std::abs(out.strides()[i]);
    };
    for (std::size_t i = 0; i < pointwise_rank; ++i) {
      if (out.sizes()[i] == 1) continue;
      std::size_t at = used++;
      for (; at > 0 && distance(order[at - 1]) < distance(i); --at) order[at] = order[at - 1];
      order[at] = i;
    }
    for (std::size_t i = 0; i < used; ++i) {
      Dim& dim = dims[rank];
      dim.size = out.sizes()[order[i]];
      dim.strides[0] = out.strides()[order[i]];
      for (int k = 1; k < operands; ++k) dim.strides[k] = inputs[static_cast<std::size_t>(k - 1)].strides()[order[i]];
      bool merges = rank > 0;
      for (int k = 0; merges && k < operands; ++k) {
        merges = dims[rank - 1].strides[k] == wrapping_mul(dim.size, dim.strides[k]);
      }
      if (merges) {
        dim.size *= dims[rank - 1].size;
        dims[rank - 1] = dim;
      } else {
        ++rank;
      }
    }
    if (rank == 0) {
      rank = 1;
      for (int k = 0; k < operands; ++k) dims[0].strides[k] = 1;
    }
  }

  int operands = 0;
  int rank = 0;
  Dim dims[pointwise_rank + 1];
};

/// Tiles are stretches of a row, or several rows where they are short.
template <class Level, class T>
void pointwise_tiles(Level level, Context<Cpu>& ctx, const PointwiseView<T, Cpu>& out,
                     std::span<const PointwiseView<const T, Cpu>> operands, const PointwiseProgram& program) {
  const PointwiseLoop loop(out, operands, program);
  const int last = loop.rank - 1;
  const PointwiseLoop::Dim& columns = loop.dims[last];
  const bool by_row = last == 0 || columns.size > pointwise_tile_size / 2;
  const int split = by_row ? last : last - 1;  // the dimension that tiles cut into pieces
  const PointwiseLoop::Dim& rows = loop.dims[split];

  const std::int64_t tile_rows = by_row ? 1 : rows.size;
  PointwiseSource<T> tile[PointwiseLoop::max_operands];
  bool in_place = false;
  bool strided = false;
  for (int k = 0; k < loop.operands; ++k) {
    const T* data = k == 0 ? out.data() : operands[static_cast<std::size_t>(k - 1)].data();
    in_place = in_place || (k > 0 && data == out.data());
    tile[k] = PointwiseSource<T>(data, rows.strides[k], columns.strides[k], tile_rows, columns.size);
    strided = strided || tile[k].form == PointwiseForm::strided;
  }
  const PointwiseChain chain = has_float_vectors<T> ? PointwiseChain(program) : PointwiseChain();
  const bool direct = tile[0].form == PointwiseForm::contiguous;
  const bool stream =
      direct && !in_place && out.numel() >= pointwise_stream_bytes / static_cast<std::int64_t>(sizeof(T));
  const std::int64_t tile_size = chain.size() > 0 && by_row && !strided ? pointwise_piece : pointwise_tile_size;
  const std::int64_t piece = std::min(rows.size, by_row ? tile_size : tile_size / columns.size);
  const std::int64_t pieces = piece == rows.size ? 1 : ceil_div(rows.size, piece);
  std::int64_t units = pieces;
  for (int i = 0; i < split; ++i) units *= loop.dims[i].size;

  constexpr std::int64_t grain = 32768;  // elements that are worth a thread
  parallel_for(ctx, units, ceil_div(grain, by_row ? piece : piece * columns.size),
               [&](std::int64_t begin, std::int64_t end) {
                 alignas(64) T scratch[pointwise_scratch];
                 PointwiseSource<T> at[PointwiseLoop::max_operands];
                 for (int k = 0; k < loop.operands; ++k) at[k] = tile[k];
                 for (std::int64_t unit = begin; unit < end; ++unit) {
                   const std::int64_t first = unit % pieces * piece;
                   const std::int64_t count = std::min(piece, rows.size - first);
                   if (units > 1) {
                     for (int k = 0; k < loop.operands; ++k) at[k].data = tile[k].data + first * rows.strides[k];
                     std::int64_t rest = unit / pieces;
                     for (int i = split; i-- > 0;) {
                       const std::int64_t index = rest % loop.dims[i].size;
                       rest /= loop.dims[i].size;
                       for (int k = 0; k < loop.operands; ++k) at[k].data += index * loop.dims[i].strides[k];
                     }
                   }
                   T* to = out.data() + (at[0].data - out.data());
                   const std::int64_t m = by_row ? 1 : count;
                   const std::int64_t n = by_row ? count : columns.size;
                   if (stream) {
                     stream_pointwise(level, program, chain, at + 1, to, m, n, scratch);
                   } else if (direct) {
                     run_pointwise(level, program, chain, at + 1, to, m, n, scratch);
                   } else {
                     T* result = scratch + pointwise_result;
                     run_pointwise(level, program, chain, at + 1, result, m, n, scratch);
                     for (std::int64_t i = 0; i < m; ++i) {
                       for (std::int64_t k = 0; k < n; ++k) to[i * at[0].row + k * at[0].step] = result[i * n + k];
                     }
                   }
                 }
                 if (stream) stream_fence(level);
               });
}

}  // namespace detail

template <PointwiseElement T>
void pointwise(Context<Cpu>& ctx, PointwiseView<T, Cpu> out,
               std::type_identity_t<std::span<const PointwiseView<const T, Cpu>>> operands,
               const PointwiseProgram& program) {
  detail::check_pointwise<T, Cpu>(out, operands, program);
  if (out.empty()) return;
  detail::visit_pointwise_level<T>(ctx.simd_level(), [&](auto level) {
    detail::pointwise_tiles<decltype(level), T>(level, ctx, out, operands, program);
  });
}

TENON_NAMESPACE_END
