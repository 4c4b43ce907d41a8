// linear, for tenon::cuda_kernels.
#pragma once

#include <optional>

#include <tenon/cuda/linear.cuh>

TENON_NAMESPACE_BEGIN

// Copies are instantiated with their own family.
extern template void detail::copy_strided<Cuda>(Context<Cuda>&, const StridedView&, const ConstStridedView&);

#define TENON_INSTANTIATE(T, W)                                                                                      \
  template void linear<T, W>(Context<Cuda>&, View<T, 2, Cuda>, View<const T, 2, Cuda>, View<W, 2, Cuda>,             \
                             std::optional<View<const W, 1, Cuda>>);                                                 \
  template void linear<T, const W>(Context<Cuda>&, View<T, 2, Cuda>, View<const T, 2, Cuda>, View<const W, 2, Cuda>, \
                                   std::optional<View<const W, 1, Cuda>>);

TENON_INSTANTIATE(float, float)
TENON_INSTANTIATE(float, float16)
TENON_INSTANTIATE(float, bfloat16)
TENON_INSTANTIATE(double, double)
TENON_INSTANTIATE(float16, float16)
TENON_INSTANTIATE(bfloat16, bfloat16)

#undef TENON_INSTANTIATE

TENON_NAMESPACE_END
