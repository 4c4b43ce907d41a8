// add and swiglu, for tenon::cuda_kernels.
#pragma once

#include <tenon/cuda/add.cuh>
#include <tenon/cuda/swiglu.cuh>

TENON_NAMESPACE_BEGIN

#define TENON_INSTANTIATE_RANK(T, Rank)                                                         \
  template void add<T, Rank>(Context<Cuda>&, View<T, Rank, Cuda>, View<const T, Rank, Cuda>,    \
                             View<const T, Rank, Cuda>);                                        \
  template void swiglu<T, Rank>(Context<Cuda>&, View<T, Rank, Cuda>, View<const T, Rank, Cuda>, \
                                View<const T, Rank, Cuda>);
#define TENON_INSTANTIATE(T)   \
  TENON_INSTANTIATE_RANK(T, 1) \
  TENON_INSTANTIATE_RANK(T, 2) \
  TENON_INSTANTIATE_RANK(T, 3) \
  TENON_INSTANTIATE_RANK(T, 4)

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)

#undef TENON_INSTANTIATE
#undef TENON_INSTANTIATE_RANK

TENON_NAMESPACE_END
