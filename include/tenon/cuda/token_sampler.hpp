// TokenSampler: chooses the next token on the device, as the Sampler of generate/ does on the CPU.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// What SamplingOptions says, as plain values for kernels. They are taken as they are: whoever fills them validates.
struct TokenSamplerOptions {
  bool greedy = false;           ///< the largest logit, the lowest id on a tie
  float scale = 1;               ///< 1 / temperature, kept finite and above 0
  std::int64_t top_k = 0;        ///< off where not above 0
  double top_p = 1;              ///< off at 1
  double min_p = 0;              ///< off at 0
  float repetition_penalty = 1;  ///< off at 1
  std::uint64_t seed = 0;
  std::int64_t vocab_limit = 0;  ///< ids from here on are never chosen; 0 is off
  bool log_probabilities = true;
};

/// The outcome of one draw. With a status other than 0 nothing was drawn, and `id` is where the trouble is; it is an id of
/// the vocabulary in every case.
struct TokenSample {
  std::int64_t id = 0;
  float log_probability = 0;  ///< as in Sample; NaN where off, and with a status other than 0
  std::int32_t status = 0;    ///< 0: chosen; 1: the logit of `id` is NaN; 2: it is +inf; 3: all logits are -inf
  std::int64_t step = -1;     ///< number of the draw since start, from 0; -1: not drawn yet
};

/// How many draws the host may be behind.
inline constexpr std::int64_t token_sampler_results = 4;

inline constexpr int token_sampler_threads = 1024;
inline constexpr int token_sampler_passes = 3;
inline constexpr int token_sampler_bins = 2048;
/// Most blocks of a launch. All of them must be on the device at once, at most one for each multiprocessor.
inline constexpr int token_sampler_blocks = 128;

/// What lasts from draw to draw, in device memory. The history follows it, so that one copy sets both.
struct alignas(16) TokenSamplerState {
  TokenSamplerOptions options;
  std::int64_t draw = 0;
  std::uint32_t arrived = 0;                      // of the grid's barrier; 0 between launches
  TokenSample no_results[token_sampler_results];  // what start puts into the ring
};
static_assert(std::is_trivially_copyable_v<TokenSamplerState>);

/// Device pointers of a sampler, for its kernel.
struct TokenSamplerMemory {
  TokenSamplerState* state;
  std::uint32_t* history;  // (vocabulary / 32, rounded up): a bit for each id
  TokenSample* results;    // (token_sampler_results): pinned memory of the host
  // Working space of one launch.
  unsigned long long* partials;  // (5, token_sampler_blocks)
  unsigned long long* masses;    // (token_sampler_passes, token_sampler_bins)
  std::uint32_t* counts;         // (token_sampler_passes, token_sampler_bins)
  std::int64_t vocabulary;
  std::int64_t per_thread;  // consecutive ids that one thread looks at, a multiple of 4
  int blocks;
  int fixed_point;  // weights are integers: 1 is 2^fixed_point
};

/// Defined in cuda/token_sampler.cuh: one cooperative launch.
template <std::same_as<Cuda> Device>
void launch_token_sampler(Context<Device>& ctx, const TokenSamplerMemory& memory, const float* logits,
                          std::int64_t* next_id, std::int64_t* position);

/// Chooses tokens for one sequence at a time. The semantics are those of Sampler: penalty, temperature, top-k, top-p and
/// min-p in this order, and equal seeds give equal draws. Ids equal those of Sampler but where a draw, or the border of
/// top-p or min-p, lies within rounding (about 1e-7 of the probability). Equal logits give equal results bit for bit.
///
/// All memory is allocated here, and options live in device memory, so a CUDA graph that holds `enqueue` serves every
/// sequence. One thread at a time; every call with the context of the constructor, which must outlive this.
class TokenSampler {
 public:
  /// For logits (vocabulary,). Throws ShapeError where that is not between 1 and 2^31 - 1, and DeviceError for a device
  /// without cooperative launches.
  TokenSampler(Context<Cuda>& ctx, std::int64_t vocabulary) : ctx_(ctx) {
    if (vocabulary < 1 || vocabulary > std::numeric_limits<std::int32_t>::max()) {
      throw ShapeError("token sampler: the vocabulary has " + std::to_string(vocabulary) +
                       " ids, not between 1 and 2147483647");
    }
    const auto device = ctx.activate();
    int cooperative = 0;
    check_cuda(cudaDeviceGetAttribute(&cooperative, cudaDevAttrCooperativeLaunch, ctx.ordinal()),
               "asking for cooperative launches");
    if (cooperative == 0) {
      throw DeviceError("cuda: device " + std::to_string(ctx.ordinal()) +
                        " has no cooperative launches, which the token sampler needs");
    }
    uploaded_.emplace();

    const int multiprocessors = ctx.properties().multiprocessors;
    const std::int64_t most = multiprocessors < token_sampler_blocks ? multiprocessors : token_sampler_blocks;
    memory_.vocabulary = vocabulary;
    memory_.per_thread = align_up(ceil_div<std::int64_t>(vocabulary, most * token_sampler_threads), std::int64_t{4});
    memory_.blocks = static_cast<int>(ceil_div(vocabulary, memory_.per_thread * token_sampler_threads));
    memory_.fixed_point = 62;  // the sum of the weights stays below 2^63
    while ((std::int64_t{1} << (62 - memory_.fixed_point)) < vocabulary) --memory_.fixed_point;

    history_bytes_ = static_cast<std::size_t>(ceil_div<std::int64_t>(vocabulary, 128)) * 16;
    constexpr std::size_t bins = std::size_t{token_sampler_passes} * token_sampler_bins;
    constexpr std::size_t partials = std::size_t{5} * token_sampler_blocks;
    const std::size_t state_bytes = sizeof(TokenSamplerState) + history_bytes_;
    device_ = allocate_storage(ctx, state_bytes + 8 * partials + (8 + 4) * bins);
    std::byte* at = device_.data();
    memory_.state = reinterpret_cast<TokenSamplerState*>(at);
    memory_.history = reinterpret_cast<std::uint32_t*>(at + sizeof(TokenSamplerState));
    at += state_bytes;
    memory_.partials = reinterpret_cast<unsigned long long*>(at);
    memory_.masses = memory_.partials + partials;
    memory_.counts = reinterpret_cast<std::uint32_t*>(memory_.masses + bins);

    constexpr std::size_t ring_bytes = align_up(sizeof(TokenSample) * token_sampler_results, std::size_t{64});
    pinned_ = Runtime<Cuda>::allocate_pinned(ring_bytes + state_bytes);
    results_ = reinterpret_cast<TokenSample*>(pinned_.data());
    image_ = pinned_.data() + ring_bytes;
    void* ring = nullptr;
    check_cuda(cudaHostGetDevicePointer(&ring, results_, 0), "asking for the device's address of pinned memory");
    memory_.results = static_cast<TokenSample*>(ring);
    start(ctx, {}, {});
  }
  TokenSampler(const TokenSampler&) = delete;
  TokenSampler& operator=(const TokenSampler&) = delete;
  /// Waits: what is in the stream still writes results.
  ~TokenSampler() { static_cast<void>(cudaStreamSynchronize(ctx_.stream())); }

  /// Begins a sequence: draw 0 comes next, no result is left, and the history is the ids given (used only where the
  /// penalty is not 1; ids beyond the vocabulary do not matter). Throws IndexError for a negative id, and then changes
  /// nothing. Not for graphs.
  void start(Context<Cuda>& ctx, const TokenSamplerOptions& options, std::span<const std::int64_t> history) {
    for (const std::int64_t id : history) {
      if (id < 0) throw IndexError("sampler history: id " + std::to_string(id) + " is negative");
    }
    const auto device = ctx.activate();
    uploaded_->synchronize();  // the image may still be on its way
    TokenSamplerState state;
    state.options = options;
    std::memcpy(image_, &state, sizeof state);
    std::size_t bytes = sizeof state;
    if (options.repetition_penalty != 1.0f) {
      auto* bits = reinterpret_cast<std::uint32_t*>(image_ + sizeof state);
      std::memset(bits, 0, history_bytes_);
      for (const std::int64_t id : history) {
        if (id < memory_.vocabulary) bits[id / 32] |= std::uint32_t{1} << (id % 32);
      }
      bytes += history_bytes_;
    }
    Stream<Cuda>& stream = ctx.stream_object();
    Runtime<Cuda>::copy_async(memory_.state, image_, bytes, CopyKind::host_to_device, stream);
    Runtime<Cuda>::copy_async(results_, memory_.state->no_results, sizeof state.no_results, CopyKind::device_to_host,
                              stream);
    uploaded_->record(stream);
  }

  /// Puts one draw into the stream, for `logits` (vocabulary,): the id goes to *next_id, 1 is added to *position unless
  /// that is nullptr, the id joins the history, and the outcome goes to the ring. All three are device memory. A draw
  /// with a status other than 0 counts as a draw, and leaves the history as it is. Allocates nothing, waits for nothing,
  /// and does the same whatever the options are, so graphs may hold it.
  void enqueue(Context<Cuda>& ctx, const float* logits, std::int64_t* next_id, std::int64_t* position) {
    launch_token_sampler(ctx, memory_, logits, next_id, position);
  }

  /// The outcome of draw number `step`. To be read once an event recorded behind that draw has been reached, and before
  /// draw `step + token_sampler_results` is put into the stream.
  [[nodiscard]] const TokenSample& result(std::int64_t step) const noexcept {
    return results_[static_cast<std::size_t>(step % token_sampler_results)];
  }

 private:
  Context<Cuda>& ctx_;
  Storage<Cuda> device_;
  Storage<Cpu> pinned_;                  // results, then the image of state and history that start copies
  std::optional<Event<Cuda>> uploaded_;  // the image may be changed
  TokenSample* results_ = nullptr;
  std::byte* image_ = nullptr;
  std::size_t history_bytes_ = 0;
  TokenSamplerMemory memory_{};
};

}  // namespace detail
TENON_NAMESPACE_END
