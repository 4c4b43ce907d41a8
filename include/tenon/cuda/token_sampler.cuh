// The token sampler's kernel. Every block looks at a slice of the row; between the passes all blocks wait for each other.
//
// Greedy choice needs one pass. A draw needs the largest logit first, then the sum of the weights; top-k and top-p each
// put three passes between, which find the border among the keys of the logits eleven bits at a time from histograms of
// counts or weights. Weights are summed as integers, so nothing depends on the order in which threads add. The block
// that arrives last finishes alone.
#pragma once

#include <concepts>
#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/core/random.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/token_sampler.hpp>
#include <tenon/cuda/token_sampler_cut.cuh>
#include <tenon/cuda/token_sampler_grid.cuh>
#include <tenon/cuda/token_sampler_row.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// First pass: the best of the slice, and its part of the softmax of the raw logits.
__device__ __forceinline__ void scan_slice(const TokenSamplerMemory& memory, const LogitRow& row,
                                           bool log_probabilities) {
  Wide best = 0;
  float maximum = -float_infinity;
  row.for_each_group(static_cast<int>(blockIdx.x), [&](std::int64_t i) {
    const Pack<float, 4> raw = row.raw(i);
    const Pack<float, 4> values = row.penalised(i, raw);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const Wide candidate = ranked(values.value[k], i + k);
      best = candidate > best ? candidate : best;
      maximum = fmaxf(maximum, raw.value[k]);
    }
  });
  best = block_reduce<Larger>(best);
  if (threadIdx.x == 0) *partial(memory, TokenPartial::best, blockIdx.x) = best;
  if (!log_probabilities) return;

  maximum = block_reduce<Larger>(maximum);
  float sum = 0;
  if (maximum > -float_infinity) {
    row.for_each_group(static_cast<int>(blockIdx.x), [&](std::int64_t i) {
      const Pack<float, 4> raw = row.raw(i);
#pragma unroll
      for (int k = 0; k < 4; ++k) sum += expf(raw.value[k] - maximum);
    });
  }
  const double total = block_reduce<Plus>(static_cast<double>(sum));
  if (threadIdx.x == 0) {
    *partial(memory, TokenPartial::maximum, blockIdx.x) = __float_as_uint(maximum);
    *partial(memory, TokenPartial::sum, blockIdx.x) = static_cast<Wide>(__double_as_longlong(total));
  }
}

/// log softmax of the raw logits at one of them.
__device__ __forceinline__ float log_probability(const TokenSamplerMemory& memory, float logit) {
  const float maximum = __uint_as_float(
      static_cast<unsigned>(partial_of_thread(memory, TokenPartial::maximum, __float_as_uint(-float_infinity))));
  const double sum = __longlong_as_double(static_cast<long long>(partial_of_thread(memory, TokenPartial::sum, 0)));
  const float largest = block_reduce<Larger>(maximum);
  const double total =
      block_reduce<Plus>(sum > 0 ? sum * exp(static_cast<double>(maximum) - static_cast<double>(largest)) : 0.0);
  return static_cast<float>(static_cast<double>(logit) - static_cast<double>(largest) - log(total));
}

/// The sum of the slice's candidates above the cut, and the number of ids at it.
__device__ __forceinline__ void weigh_slice(const TokenSamplerMemory& memory, const LogitRow& row, const TokenCut& cut,
                                            const TokenWeights& weights, double min_p) {
  Wide mass = 0;
  Wide ties = 0;
  row.for_each_group(static_cast<int>(blockIdx.x), [&](std::int64_t i) {
    const Pack<float, 4> values = row.penalised(i);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const unsigned key = ordered_key(values.value[k]);
      mass += weight_above(cut, weights, min_p, values.value[k], key);
      ties += key == cut.key ? 1 : 0;
    }
  });
  mass = block_reduce<Plus>(mass);
  ties = block_reduce<Plus>(ties);
  if (threadIdx.x == 0) {
    *partial(memory, TokenPartial::mass, blockIdx.x) = mass;
    *partial(memory, TokenPartial::ties, blockIdx.x) = ties;
  }
}

__device__ __forceinline__ Wide kept_of(Wide ties, Wide before, Wide keep) {
  const Wide left = keep > before ? keep - before : 0;
  return ties < left ? ties : left;
}

/// The candidate at which the running sum of weights, by ascending id, passes `uniform` of the total. `best` is returned
/// where there is none, which cannot be.
__device__ __forceinline__ std::int64_t draw(const TokenSamplerMemory& memory, const LogitRow& row, const TokenCut& cut,
                                             const TokenWeights& weights, double min_p, double uniform,
                                             std::int64_t best) {
  __shared__ int slice;
  __shared__ Wide slice_target;
  __shared__ Wide slice_ties;
  __shared__ std::int64_t chosen;
  if (threadIdx.x == 0) {
    slice = 0;
    slice_target = 0;
    slice_ties = 0;
    chosen = best;
  }
  // The slice first: thread t has the one of block t.
  Wide ties = partial_of_thread(memory, TokenPartial::ties, 0);
  Wide ties_before = block_scan(ties).before;
  Wide mass = partial_of_thread(memory, TokenPartial::mass, 0) + kept_of(ties, ties_before, cut.keep) * cut.tie_weight;
  BlockScan sums = block_scan(mass);
  Wide target = __double2ull_rd(uniform * static_cast<double>(sums.total));
  if (target >= sums.total) target = sums.total - 1;
  if (sums.before <= target && target < sums.before + mass) {
    slice = static_cast<int>(threadIdx.x);
    slice_target = target - sums.before;
    slice_ties = ties_before;
  }
  __syncthreads();

  // Then the thread whose part of the slice has the id, and that one.
  target = slice_target;
  ties = 0;
  row.for_each_group(slice, [&](std::int64_t i) {
    const Pack<float, 4> values = row.penalised(i);
#pragma unroll
    for (int k = 0; k < 4; ++k) ties += ordered_key(values.value[k]) == cut.key ? 1 : 0;
  });
  ties_before = slice_ties + block_scan(ties).before;
  mass = kept_of(ties, ties_before, cut.keep) * cut.tie_weight;
  row.for_each_group(slice, [&](std::int64_t i) {
    const Pack<float, 4> values = row.penalised(i);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      mass += weight_above(cut, weights, min_p, values.value[k], ordered_key(values.value[k]));
    }
  });
  Wide sum = block_scan(mass).before;
  if (sum <= target && target < sum + mass) {
    bool done = false;
    row.for_each_group(slice, [&](std::int64_t i) {
      const Pack<float, 4> values = row.penalised(i);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const unsigned key = ordered_key(values.value[k]);
        if (key == cut.key) {
          sum += ties_before++ < cut.keep ? cut.tie_weight : 0;
        } else {
          sum += weight_above(cut, weights, min_p, values.value[k], key);
        }
        if (!done && sum > target) {
          chosen = i + k;
          done = true;
        }
      }
    });
  }
  __syncthreads();
  return chosen;
}

/// logits (memory.vocabulary,). Grid (memory.blocks), cooperative; block (token_sampler_threads).
template <class = void>
__global__ void __launch_bounds__(token_sampler_threads, 1)
    token_sampler_kernel(TokenSamplerMemory memory, const float* logits, std::int64_t* next_id,
                         std::int64_t* position) {
  wait_for_previous();
  TokenSamplerState& state = *memory.state;
  const TokenSamplerOptions options = state.options;
  const bool penalty = options.repetition_penalty != 1.0f;
  LogitRow row{logits,
               penalty ? memory.history : nullptr,
               memory.vocabulary,
               memory.per_thread,
               options.repetition_penalty,
               reinterpret_cast<std::uintptr_t>(logits) % 16 == 0};
  if (options.vocab_limit > 0 && options.vocab_limit < row.size) row.size = options.vocab_limit;
  const bool top_k = !options.greedy && options.top_k > 0 && options.top_k < row.size;
  const bool top_p = !options.greedy && options.top_p < 1;

  // Before the first barrier, so that they are 0 when the first block adds to them.
  for (unsigned i = blockIdx.x * token_sampler_threads + threadIdx.x; i < token_sampler_passes * token_sampler_bins;
       i += gridDim.x * token_sampler_threads) {
    if (top_k) memory.counts[i] = 0;
    if (top_p) memory.masses[i] = 0;
  }
  scan_slice(memory, row, options.log_probabilities);

  unsigned expected = 0;
  Wide best = 0;
  TokenCut cut;
  TokenWeights weights{};
  if (!options.greedy) {
    grid_barrier(&state.arrived, expected += gridDim.x);
    best = block_reduce<Larger>(partial_of_thread(memory, TokenPartial::best, 0));
    if (status_of(best) == 0) {
      weights = {value_of_key(key_of(best)), options.scale, static_cast<float>(Wide{1} << memory.fixed_point)};
      cut = find_cut(memory, row, weights, options, top_k, top_p, expected);
      weigh_slice(memory, row, cut, weights, options.min_p);
    }
  }
  if (!is_last_block(&state.arrived, expected += gridDim.x)) return;

  if (options.greedy) best = block_reduce<Larger>(partial_of_thread(memory, TokenPartial::best, 0));
  TokenSample sample;
  sample.status = status_of(best);
  sample.id = id_of(best);
  sample.log_probability = __uint_as_float(0x7fc00000u);
  sample.step = state.draw;
  if (sample.status == 0) {
    if (!options.greedy) {
      const double uniform = CounterRandom(options.seed, static_cast<std::uint64_t>(sample.step)).uniform();
      sample.id = draw(memory, row, cut, weights, options.min_p, uniform, sample.id);
    }
    if (options.log_probabilities) sample.log_probability = log_probability(memory, logits[sample.id]);
  }
  if (threadIdx.x != 0) return;
  if (next_id != nullptr) *next_id = sample.id;
  if (position != nullptr) *position += 1;
  if (penalty && sample.status == 0) memory.history[sample.id / 32] |= 1u << (sample.id % 32);
  memory.results[sample.step % token_sampler_results] = sample;
  state.draw = sample.step + 1;
  state.arrived = 0;
}

template <std::same_as<Cuda> Device>
void launch_token_sampler(Context<Device>& ctx, const TokenSamplerMemory& memory, const float* logits,
                          std::int64_t* next_id, std::int64_t* position) {
  const auto device = ctx.activate();
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(memory.blocks));
  config.blockDim = dim3(token_sampler_threads);
  config.stream = ctx.stream();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  config.attrs = &attribute;
  config.numAttrs = 1;
  check_cuda(cudaLaunchKernelEx(&config, token_sampler_kernel<>, memory, logits, next_id, position), "token_sampler");
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
