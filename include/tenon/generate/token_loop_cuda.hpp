// TokenLoop on CUDA: the decode step and the sampler of the device, one step ahead of the host.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/token_sampler.hpp>
#include <tenon/generate/sampler.hpp>
#include <tenon/generate/sampling_options.hpp>
#include <tenon/generate/token_loop.hpp>
#include <tenon/models/decode_step_cuda.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The chosen id stays on the device, where the next step reads it. So that step is put into the stream before the host
/// has seen the id: the device does not wait while the host looks at it, turns it into text, and decides whether to go on.
/// A step that turns out not to be wanted has written behind the cache's end, and is forgotten.
template <class Model>
class TokenLoop<Model, Cuda> {
  using T = typename Model::value_type;

 public:
  TokenLoop(Context<Cuda>& ctx, const Model& model, std::int64_t capacity)
      : ctx_(ctx), model_(model), state_(make_state(ctx, model, capacity)) {}
  TokenLoop(TokenLoop&&) noexcept = default;
  /// Waits: what is in the stream still uses the cache.
  ~TokenLoop() {
    if (state_) static_cast<void>(cudaStreamSynchronize(ctx_.stream()));
  }

  [[nodiscard]] const typename Model::Cache& cache() const noexcept { return state_->cache; }
  void truncate(std::int64_t length) { state_->cache.truncate(length); }

  void start(const SamplingOptions& options, std::span<const std::int64_t> history) {
    options.validate();
    TokenSamplerOptions values;
    values.greedy = options.is_greedy();
    values.scale = options.is_greedy() ? 1.0f : sampling_scale(options.temperature);
    values.top_k = options.top_k;
    values.top_p = options.top_p;
    values.min_p = options.min_p;
    values.repetition_penalty = static_cast<float>(options.repetition_penalty);
    values.seed = options.seed;
    values.vocab_limit = options.vocab_limit;
    values.log_probabilities = options.log_probabilities;
    state_->sampler.start(ctx_, values, history);
    put_in_ = 0;
    chosen_ = 0;
  }

  void read(std::span<const std::int64_t> tokens) {
    State& state = *state_;
    // The position first: setting it waits for what is in the stream, which then is no more than a step nobody wants.
    state.step.set_position(ctx_, state.cache.length() + static_cast<std::int64_t>(tokens.size()));
    model_.forward(ctx_, state.cache, tokens, state.step.logits());
    state.sampler.enqueue(ctx_, state.step.logits().data(), state.step.id(), nullptr);
    mark();
    ctx_.synchronize();
  }

  [[nodiscard]] Sample choose(bool more) {
    State& state = *state_;
    if (more) {
      state.step.run(ctx_);
      mark();
    }
    event(chosen_).synchronize();
    const TokenSample sample = state.sampler.result(chosen_);
    check(sample);
    ++chosen_;
    return {sample.id, sample.log_probability};
  }

  void append(const Sample&) { state_->cache.commit(1); }

 private:
  struct State {
    State(Context<Cuda>& ctx, const Model& model, std::int64_t capacity)
        : cache(model.make_cache(ctx, capacity)),
          sampler(ctx, model.config().vocab_size),
          step(ctx, model, cache,
               [this](Context<Cuda>& c) { sampler.enqueue(c, step.logits().data(), step.id(), step.position()); }) {}

    typename Model::Cache cache;
    TokenSampler sampler;
    DecodeStep<T> step;
    std::array<Event<Cuda>, 2> events;  // of the last two draws: reached when their results are there
  };

  /// Events belong to the device that is current when they are made.
  static std::unique_ptr<State> make_state(Context<Cuda>& ctx, const Model& model, std::int64_t capacity) {
    const auto device = ctx.activate();
    return std::make_unique<State>(ctx, model, capacity);
  }

  Event<Cuda>& event(std::int64_t draw) { return state_->events[static_cast<std::size_t>(draw % 2)]; }

  /// Marks the point behind the draw that was put into the stream last.
  void mark() { event(put_in_++).record(ctx_.stream()); }

  void check(const TokenSample& sample) const {
    if (sample.status == 0) return;
    const std::string id = "id " + std::to_string(sample.id);
    throw NumericError("the logits of sampled token " + std::to_string(chosen_) + " are not finite: " +
                       (sample.status == 1   ? id + " is NaN"
                        : sample.status == 2 ? id + " is infinite"
                                             : "all are minus infinity"));
  }

  Context<Cuda>& ctx_;
  const Model& model_;
  std::unique_ptr<State> state_;
  std::int64_t put_in_ = 0;  // draws in the stream since start
  std::int64_t chosen_ = 0;  // draws that the host has seen
};

}  // namespace detail
TENON_NAMESPACE_END
