// The attention of a decoding step, for tenon::cuda_kernels.
#pragma once

#include <cstdint>

#include <tenon/cuda/decode_attention.cuh>

TENON_NAMESPACE_BEGIN

#define TENON_INSTANTIATE(T)                                                                                  \
  template void detail::decode_attention<T>(Context<Cuda>&, T*, const T*, T*, T*, const float*, const float*, \
                                            const std::int64_t*, const DecodeAttentionShape&,                 \
                                            const DecodeAttentionScratch&);

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)

#undef TENON_INSTANTIATE

TENON_NAMESPACE_END
