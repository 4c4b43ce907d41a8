// decode_embedding: the first kernel of a decoding step, for steps that are captured in a CUDA graph.
#pragma once

#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/ops/weight.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// x = weight[*id] (columns of weight), as `embedding` gives it, and cos and sin (head_dim / 2 each) of *position, as
/// `rope_table` gives them. `id` and `position` are device memory, which is read when the kernel runs, so a captured step
/// may be replayed with others. They are not checked: *id is in [0, rows of weight). x, cos and sin have no gaps.
/// One launch; waits for nothing.
template <class T, class W>
void decode_embedding(Context<Cuda>& ctx, T* x, float* cos, float* sin, const std::int64_t* id,
                      const std::int64_t* position, View<const W, 2, Cuda> weight, std::int64_t head_dim, double theta);

}  // namespace detail
TENON_NAMESPACE_END
