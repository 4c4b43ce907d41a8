// The cut of the token sampler: which ids top-k and top-p leave.
#pragma once

#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/token_sampler.hpp>
#include <tenon/cuda/token_sampler_grid.cuh>
#include <tenon/cuda/token_sampler_row.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// What each block leaves for all: rows of TokenSamplerMemory::partials.
enum class TokenPartial : int {
  best,     // ranked() of the largest logit after the penalty
  maximum,  // largest logit before it, as the bits of a float
  sum,      // of exp(logit - maximum), as the bits of a double
  mass,     // of the weights of candidates above the cut
  ties,     // ids at the cut
};

__device__ __forceinline__ Wide* partial(const TokenSamplerMemory& memory, TokenPartial which, unsigned block) {
  return memory.partials + static_cast<int>(which) * token_sampler_blocks + block;
}
/// This thread's one of the blocks' partial results, or `otherwise` in threads beyond the number of blocks.
__device__ __forceinline__ Wide partial_of_thread(const TokenSamplerMemory& memory, TokenPartial which,
                                                  Wide otherwise) {
  return threadIdx.x < gridDim.x ? load_fresh(partial(memory, which, threadIdx.x)) : otherwise;
}

/// Where the candidates of a draw end: all ids with a larger key, and of those with this key the `keep` lowest. Of these,
/// the ones below min_p fall away.
struct TokenCut {
  unsigned key = 0;
  Wide keep = ~Wide{0};
  Wide tie_weight = 0;  // of each id at the cut
};

/// Border of top-k or top-p.
struct TokenBorder {
  unsigned key;  // of the k-th largest logit, or of the last one that the mass needs
  Wide rest;     // how much of the count or mass the ids with this key have to bring, at least 1
};

/// Finds the border among the ids with keys from `floor` on. ByMass: by weights, `top_p` of their sum; otherwise by
/// count, `top_k` of them. `expected`: arrivals at the grid's barrier, counted on.
template <bool ByMass>
__device__ __forceinline__ TokenBorder find_border(const TokenSamplerMemory& memory, const LogitRow& row,
                                                   const TokenWeights& weights, unsigned floor, std::int64_t top_k,
                                                   double top_p, unsigned& expected) {
  // A mass is the pair (low, high) of 32-bit halves: shared memory adds 32 bits at once, and a carry is added by whoever
  // caused it.
  __shared__ unsigned low[token_sampler_bins];
  __shared__ unsigned high[ByMass ? token_sampler_bins : 1];
  __shared__ unsigned found_bin;
  __shared__ Wide found_before;

  unsigned prefix = 0;
  unsigned prefix_mask = 0;
  Wide goal = static_cast<Wide>(top_k);
  for (int pass = 0; pass < token_sampler_passes; ++pass) {
    const int shift = pass == 0 ? 21 : pass == 1 ? 10 : 0;
    const unsigned bin_mask = pass == 2 ? 0x3ffu : 0x7ffu;
    for (unsigned bin = threadIdx.x; bin < token_sampler_bins; bin += token_sampler_threads) {
      low[bin] = 0;
      if constexpr (ByMass) high[bin] = 0;
    }
    __syncthreads();
    row.for_each_group(static_cast<int>(blockIdx.x), [&](std::int64_t i) {
      const Pack<float, 4> values = row.penalised(i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned key = ordered_key(values.value[k]);
        if (key < floor || (key & prefix_mask) != prefix) continue;
        const unsigned bin = (key >> shift) & bin_mask;
        if constexpr (ByMass) {
          const Wide weight = weights.fixed(weights.of(values.value[k]));
          if (weight == 0) continue;
          const unsigned added = static_cast<unsigned>(weight);
          const unsigned before = atomicAdd(&low[bin], added);
          const unsigned upper = static_cast<unsigned>(weight >> 32) + (before + added < before ? 1u : 0u);
          if (upper != 0) atomicAdd(&high[bin], upper);
        } else {
          atomicAdd(&low[bin], 1u);
        }
      }
    });
    __syncthreads();
    Wide* const masses = memory.masses + pass * token_sampler_bins;
    unsigned* const counts = memory.counts + pass * token_sampler_bins;
    for (unsigned bin = threadIdx.x; bin < token_sampler_bins; bin += token_sampler_threads) {
      if constexpr (ByMass) {
        const Wide mass = (static_cast<Wide>(high[bin]) << 32) | low[bin];
        if (mass != 0) atomicAdd(masses + bin, mass);
      } else {
        if (low[bin] != 0) atomicAdd(counts + bin, low[bin]);
      }
    }
    grid_barrier(&memory.state->arrived, expected += gridDim.x);

    // Every block finds the bin for itself, from the largest keys down; each thread has two bins.
    const unsigned upper_bin = token_sampler_bins - 1 - 2 * threadIdx.x;
    Wide mine[2];
#pragma unroll
    for (unsigned k = 0; k < 2; ++k) {
      if constexpr (ByMass) {
        mine[k] = load_fresh(masses + (upper_bin - k));
      } else {
        mine[k] = load_fresh(counts + (upper_bin - k));
      }
    }
    const BlockScan scan = block_scan(mine[0] + mine[1]);
    if (ByMass && pass == 0) {
      const Wide wanted = __double2ull_ru(top_p * static_cast<double>(scan.total));
      goal = wanted < 1 ? 1 : wanted < scan.total ? wanted : scan.total;
    }
    Wide before = scan.before;
#pragma unroll
    for (unsigned k = 0; k < 2; ++k) {
      if (before < goal && goal <= before + mine[k]) {
        found_bin = upper_bin - k;
        found_before = before;
      }
      before += mine[k];
    }
    __syncthreads();
    prefix |= found_bin << shift;
    prefix_mask |= bin_mask << shift;
    goal -= found_before;
  }
  return {prefix, goal};
}

/// Top-k, then top-p among what it leaves. The same in every block.
__device__ __forceinline__ TokenCut find_cut(const TokenSamplerMemory& memory, const LogitRow& row,
                                             const TokenWeights& weights, const TokenSamplerOptions& options,
                                             bool top_k, bool top_p, unsigned& expected) {
  TokenCut cut;
  if (!top_k && !top_p) return cut;
  if (top_k) cut.key = find_border<false>(memory, row, weights, 0, options.top_k, 1.0, expected).key;
  TokenBorder border{};
  if (top_p) {
    border = find_border<true>(memory, row, weights, cut.key, 0, options.top_p, expected);
    cut.key = border.key;
  }
  const float weight = weights.of(value_of_key(cut.key));
  const Wide fixed = weights.fixed(weight);
  if (top_p && fixed != 0) cut.keep = (border.rest + fixed - 1) / fixed;
  cut.tie_weight = static_cast<double>(weight) < options.min_p ? 0 : fixed;
  return cut;
}

/// The weight of an id that is above the cut; 0 for others.
__device__ __forceinline__ Wide weight_above(const TokenCut& cut, const TokenWeights& weights, double min_p, float x,
                                             unsigned key) {
  if (key <= cut.key) return 0;
  const float weight = weights.of(x);
  return static_cast<double>(weight) < min_p ? 0 : weights.fixed(weight);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
