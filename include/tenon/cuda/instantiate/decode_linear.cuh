// The products of the decode step, for tenon::cuda_kernels.
#pragma once

#include <tenon/cuda/decode_linear.cuh>

TENON_NAMESPACE_BEGIN
namespace detail {

#define TENON_INSTANTIATE(T, W)                                                                                  \
  template void decode_norm_linear<T, W>(Context<Cuda>&, T*, const T*, const T*, double, View<const W, 2, Cuda>, \
                                         const W*);                                                              \
  template void decode_norm_swiglu<T, W>(Context<Cuda>&, T*, const T*, const T*, double, View<const W, 2, Cuda>, \
                                         const W*);                                                              \
  template void decode_add_linear<T, W>(Context<Cuda>&, T*, const T*, View<const W, 2, Cuda>, const W*);         \
  template void decode_logits<T, W>(Context<Cuda>&, float*, const T*, const T*, double, View<const W, 2, Cuda>);

TENON_INSTANTIATE(float, float)
TENON_INSTANTIATE(float, float16)
TENON_INSTANTIATE(float, bfloat16)
TENON_INSTANTIATE(double, double)
TENON_INSTANTIATE(float16, float16)
TENON_INSTANTIATE(bfloat16, bfloat16)

#undef TENON_INSTANTIATE

}  // namespace detail
TENON_NAMESPACE_END
