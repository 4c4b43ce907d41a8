// The products of one token in a decode step, each a single kernel with what stands before and after it. Defined in
// cuda/decode_linear.cuh.
//
// T is float, double, float16 or bfloat16, and W is T, or float16 or bfloat16 where T is float. Rows of the weights are
// contiguous; everything else is a contiguous vector on the device of the context. A bias may be nullptr. The values are
// those of the separate operators, rounded at the same points. Work is put into the stream; nothing is allocated, so CUDA
// graphs may hold it.
//
// The kernels are launched dependently and read weights and biases while the kernel before them still runs: none of these
// may be the output of that kernel.
#pragma once

#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Weights that the product after this one reads. Bringing what that will load first into the L2 cache, behind the last
/// loads of this one, keeps the memory busy while one kernel gives way to the next. A hint: results do not depend on it.
struct NextWeights {
  const void* data = nullptr;
  std::int64_t results = 0;    ///< rows of the weights, or half of them where they are gate and up
  std::int64_t row_bytes = 0;  ///< from row to row
  std::int64_t per_block = 0;  ///< results of a block
  std::int64_t extra = 0;      ///< so many first blocks have one more
  int streams = 1;             ///< 2 where the rows are gate and up
  unsigned bytes = 0;          ///< to bring of each row
};

/// `streams` is 2 for the weights of decode_norm_swiglu and 1 for others.
template <class W>
NextWeights next_weights(const Context<Cuda>& ctx, const View<const W, 2, Cuda>& weight, int streams = 1) {
  NextWeights next;
  next.results = weight.size(0) / streams;
  next.row_bytes = weight.stride(0) * static_cast<std::int64_t>(sizeof(W));
  const std::int64_t used = weight.size(1) * static_cast<std::int64_t>(sizeof(W)) / 16 * 16;
  const std::int64_t first_batch = 4096 / streams;
  const bool aligned = reinterpret_cast<std::uintptr_t>(weight.data()) % 16 == 0 && next.row_bytes % 16 == 0;
  if (next.results == 0 || used == 0 || !aligned) return {};
  const std::int64_t blocks =
      next.results < ctx.properties().multiprocessors ? next.results : ctx.properties().multiprocessors;
  next.data = weight.data();
  next.per_block = next.results / blocks;
  next.extra = next.results % blocks;
  next.streams = streams;
  next.bytes = static_cast<unsigned>(used < first_batch ? used : first_batch);
  return next;
}

/// out (n) = linear(rms_norm(x)): x (k), norm_weight (k), weight (n, k), bias (n).
template <class T, class W>
void decode_norm_linear(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias, const NextWeights& next = {});

/// out (n) = swiglu(gate, up) with gate and up the halves of linear(rms_norm(x)): x (k), norm_weight (k), weight (2 n, k)
/// with the rows of gate before those of up, bias (2 n).
template <class T, class W>
void decode_norm_swiglu(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias, const NextWeights& next = {});

/// x (n) = x + linear(in), in place: in (k), weight (n, k), bias (n). `in` must not overlap x.
template <class T, class W>
void decode_add_linear(Context<Cuda>& ctx, T* x, const T* in, View<const W, 2, Cuda> weight, const W* bias,
                       const NextWeights& next = {});

/// logits (n) = linear(rms_norm(x)), rounded to T and widened: x (k), norm_weight (k), weight (n, k).
template <class T, class W>
void decode_logits(Context<Cuda>& ctx, float* logits, const T* x, const T* norm_weight, double eps,
                   View<const W, 2, Cuda> weight, const NextWeights& next = {});

}  // namespace detail
TENON_NAMESPACE_END
