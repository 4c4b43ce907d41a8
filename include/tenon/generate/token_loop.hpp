// TokenLoop: what generation repeats. Reads tokens into a cache, and chooses the next from the logits of the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/generate/sampler.hpp>
#include <tenon/generate/sampling_options.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Used by Sequence, in this order: `start`, `read`, and then `choose` and `append` in turn. One thread at a time; context
/// and model must outlive it. The one for Cuda is in token_loop_cuda.hpp.
template <class Model, DeviceTag Device = typename Model::device_type>
class TokenLoop;

template <class Model>
class TokenLoop<Model, Cpu> {
 public:
  TokenLoop(Context<Cpu>& ctx, const Model& model, std::int64_t capacity)
      : ctx_(ctx), model_(model), cache_(model.make_cache(ctx, capacity)) {}

  [[nodiscard]] const typename Model::Cache& cache() const noexcept { return cache_; }
  void truncate(std::int64_t length) { cache_.truncate(length); }

  /// Begins an answer: how to choose, and the ids that the repetition penalty knows from the start.
  void start(const SamplingOptions& options, std::span<const std::int64_t> history) {
    sampler_ = Sampler(options);
    sampler_.observe(history);
  }

  /// Reads tokens; returns when their logits are there.
  void read(std::span<const std::int64_t> tokens) {
    if (logits_.empty()) logits_ = empty<float>(ctx_, {1, model_.config().vocab_size});
    model_.forward(ctx_, cache_, tokens, logits_);
  }

  /// The next token. `more`: another one will be wanted after it, unless it says stop. Throws NumericError for logits
  /// that are not finite.
  [[nodiscard]] Sample choose(bool more) {
    static_cast<void>(more);
    return sampler_.sample(std::span<const float>(logits_.data(), static_cast<std::size_t>(logits_.numel())));
  }

  /// Reads the token that choose returned last.
  void append(const Sample& sample) { read(std::span<const std::int64_t>(&sample.id, 1)); }

 private:
  Context<Cpu>& ctx_;
  const Model& model_;
  typename Model::Cache cache_;
  Sampler sampler_;
  Tensor<float, 2, Cpu> logits_;  // (1, vocab_size)
};

}  // namespace detail
TENON_NAMESPACE_END
