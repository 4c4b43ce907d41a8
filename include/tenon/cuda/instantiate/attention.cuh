// self_attention, for tenon::cuda_kernels.
#pragma once

#include <cstdint>

#include <tenon/cuda/self_attention.cuh>

TENON_NAMESPACE_BEGIN

#define TENON_INSTANTIATE(T)                                                                                        \
  template void self_attention<T>(Context<Cuda>&, View<T, 3, Cuda>, View<const T, 3, Cuda>, View<const T, 3, Cuda>, \
                                  View<const T, 3, Cuda>, double, std::int64_t);

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)

#undef TENON_INSTANTIATE

TENON_NAMESPACE_END
