// copy, fill and rearrange, for tenon::cuda_kernels.
#pragma once

#include <cstdint>

#include <tenon/cuda/copy.cuh>
#include <tenon/cuda/rearrange.cuh>

TENON_NAMESPACE_BEGIN

template void detail::copy_strided<Cuda>(Context<Cuda>&, const StridedView&, const ConstStridedView&);
template void detail::fill_strided<Cuda>(Context<Cuda>&, const StridedView&, const void*);

#define TENON_INSTANTIATE_RANK(T, Rank) \
  template void rearrange<T, Rank>(Context<Cuda>&, View<T, Rank, Cuda>, View<const T, Rank, Cuda>);
#define TENON_INSTANTIATE(T)   \
  TENON_INSTANTIATE_RANK(T, 1) \
  TENON_INSTANTIATE_RANK(T, 2) \
  TENON_INSTANTIATE_RANK(T, 3) \
  TENON_INSTANTIATE_RANK(T, 4) \
  TENON_INSTANTIATE_RANK(T, 5)

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)
TENON_INSTANTIATE(float8_e4m3)
TENON_INSTANTIATE(std::int8_t)
TENON_INSTANTIATE(std::int16_t)
TENON_INSTANTIATE(std::int32_t)
TENON_INSTANTIATE(std::int64_t)
TENON_INSTANTIATE(std::uint8_t)
TENON_INSTANTIATE(bool)

#undef TENON_INSTANTIATE
#undef TENON_INSTANTIATE_RANK

TENON_NAMESPACE_END
