// The operators of graphs that others have built, for tenon::cuda_kernels.
#pragma once

#include <cstdint>
#include <span>

#include <tenon/cuda/matmul.cuh>
#include <tenon/cuda/pointwise.cuh>
#include <tenon/cuda/replace_slice.cuh>
#include <tenon/cuda/sliced_softmax.cuh>

TENON_NAMESPACE_BEGIN

#define TENON_INSTANTIATE(T)                                                                                        \
  template void pointwise<T>(Context<Cuda>&, PointwiseView<T, Cuda>, std::span<const PointwiseView<const T, Cuda>>, \
                             const PointwiseProgram&);                                                              \
  template void replace_slice<T>(Context<Cuda>&, View<T, 4, Cuda>, View<const T, 4, Cuda>,                          \
                                 View<const std::int64_t, 1, Cuda>, View<const std::int64_t, 1, Cuda>);

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)
TENON_INSTANTIATE(std::int64_t)

#undef TENON_INSTANTIATE

#define TENON_INSTANTIATE(T)                                                                                \
  template void matmul<T>(Context<Cuda>&, View<T, 3, Cuda>, View<const T, 3, Cuda>, View<const T, 3, Cuda>, \
                          const MatmulEpilogue<T, Cuda>&);                                                  \
  template void sliced_softmax<T>(Context<Cuda>&, View<T, 3, Cuda>, View<const T, 3, Cuda>,                 \
                                  View<const std::int64_t, 1, Cuda>);

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)

#undef TENON_INSTANTIATE

TENON_NAMESPACE_END
