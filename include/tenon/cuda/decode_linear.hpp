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

/// out (n) = linear(rms_norm(x)): x (k), norm_weight (k), weight (n, k), bias (n).
template <class T, class W>
void decode_norm_linear(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias);

/// out (n) = swiglu(gate, up) with gate and up the halves of linear(rms_norm(x)): x (k), norm_weight (k), weight (2 n, k)
/// with the rows of gate before those of up, bias (2 n).
template <class T, class W>
void decode_norm_swiglu(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias);

/// x (n) = x + linear(in), in place: in (k), weight (n, k), bias (n). `in` must not overlap x.
template <class T, class W>
void decode_add_linear(Context<Cuda>& ctx, T* x, const T* in, View<const W, 2, Cuda> weight, const W* bias);

/// logits (n) = linear(rms_norm(x)), rounded to T and widened: x (k), norm_weight (k), weight (n, k).
template <class T, class W>
void decode_logits(Context<Cuda>& ctx, float* logits, const T* x, const T* norm_weight, double eps,
                   View<const W, 2, Cuda> weight);

}  // namespace detail
TENON_NAMESPACE_END
