// The token sampler, for programs without nvcc.
#pragma once

#include <tenon/cuda/token_sampler.cuh>

TENON_NAMESPACE_BEGIN
namespace detail {

template void launch_token_sampler<Cuda>(Context<Cuda>&, const TokenSamplerMemory&, const float*, std::int64_t*,
                                         std::int64_t*);

}  // namespace detail
TENON_NAMESPACE_END
