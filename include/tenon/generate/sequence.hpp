// Sequence: one conversation with a model. Keeps the cache and the ids in it, reads prompts, and generates tokens.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/generate/sampler.hpp>
#include <tenon/generate/stop.hpp>
#include <tenon/generate/token_loop.hpp>

TENON_NAMESPACE_BEGIN

/// Why generation ended.
enum class FinishReason : std::uint8_t {
  stop,      ///< a stop id, or a stop string, came
  length,    ///< max_new_tokens are there, or the context is full
  cancelled  ///< the callback said so
};

constexpr std::string_view finish_reason_name(FinishReason reason) noexcept {
  switch (reason) {
    case FinishReason::stop: return "stop";
    case FinishReason::length: return "length";
    default: return "cancelled";
  }
}

/// What to generate, and when to end.
struct GenerateOptions {
  SamplingOptions sampling;
  StopIds stop_ids;
  std::int64_t max_new_tokens = 0;  ///< 0: as many as the context holds
};

/// What came of it. Times are wall-clock seconds.
struct GenerateResult {
  std::vector<std::int64_t> ids;         ///< generated, the stop id included
  std::vector<float> log_probabilities;  ///< one per id, as Sample defines them
  FinishReason finish_reason = FinishReason::length;
  std::int64_t prompt_tokens = 0;  ///< length of the prompt
  std::int64_t reused_tokens = 0;  ///< how many of them the cache held already
  double prompt_seconds = 0;       ///< reading the rest, up to the first token's logits
  double generate_seconds = 0;     ///< everything after that
};

/// Returns true to go on, false to end with FinishReason::cancelled. Not called for a stop id.
using TokenCallback = std::function<bool(const Sample&)>;

/// One sequence on a model that others may use at the same time. The model and the context must outlive it; one thread
/// at a time, like the context.
template <class Model>
class Sequence {
 public:
  using Device = typename Model::device_type;

  /// `capacity`: tokens that fit, 0 meaning the model's max_position_embeddings. Throws ValueError as KvCache does.
  Sequence(Context<Device>& ctx, const Model& model, std::int64_t capacity = 0)
      : model_(model), loop_(ctx, model, capacity) {}
  Sequence(Context<Device>& ctx, const Model&& model, std::int64_t capacity = 0) = delete;  // it would not outlive this

  [[nodiscard]] const Model& model() const noexcept { return model_; }
  /// The ids whose keys and values the cache holds.
  [[nodiscard]] const std::vector<std::int64_t>& ids() const noexcept { return ids_; }
  [[nodiscard]] std::int64_t capacity() const noexcept { return loop_.cache().capacity(); }

  /// Forgets every id from position `length` on. Throws ValueError as KvCache does.
  void truncate(std::int64_t length) {
    loop_.truncate(length);
    ids_.resize(static_cast<std::size_t>(length));
  }

  /// Generates what follows `prompt`, the whole text so far. Ids that the cache holds already are not read again: it is
  /// cut back to what it shares with the prompt, so a chat may go on, or be edited anywhere.
  ///
  /// Throws ValueError for an empty prompt or one that is longer than the capacity, IndexError for ids outside the
  /// vocabulary, NumericError for logits that are not finite. The sequence stays usable.
  GenerateResult generate(std::span<const std::int64_t> prompt, const GenerateOptions& options,
                          const TokenCallback& on_token = {});

 private:
  const Model& model_;
  detail::TokenLoop<Model> loop_;
  std::vector<std::int64_t> ids_;
};

template <class Model>
GenerateResult Sequence<Model>::generate(std::span<const std::int64_t> prompt, const GenerateOptions& options,
                                         const TokenCallback& on_token) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto prompt_tokens = static_cast<std::int64_t>(prompt.size());
  if (prompt_tokens == 0) throw ValueError("the prompt has no tokens");
  if (prompt_tokens > capacity()) {
    throw ValueError("the prompt has " + std::to_string(prompt_tokens) + " tokens, but the context holds " +
                     std::to_string(capacity()));
  }
  if (options.max_new_tokens < 0) {
    throw ValueError("max_new_tokens is " + std::to_string(options.max_new_tokens) + ", not 0 or more");
  }
  loop_.start(options.sampling, prompt);

  GenerateResult result;
  result.prompt_tokens = prompt_tokens;
  const auto shared = std::mismatch(ids_.begin(), ids_.end(), prompt.begin(), prompt.end()).first - ids_.begin();
  result.reused_tokens = std::min<std::int64_t>(shared, prompt_tokens - 1);  // the last id must be read for its logits
  truncate(result.reused_tokens);
  const auto prompt_start = Clock::now();
  const auto unread = prompt.subspan(static_cast<std::size_t>(result.reused_tokens));
  loop_.read(unread);
  ids_.insert(ids_.end(), unread.begin(), unread.end());
  result.prompt_seconds = seconds_since(prompt_start);

  const auto generate_start = Clock::now();
  while (true) {
    const auto chosen = static_cast<std::int64_t>(result.ids.size()) + 1;
    const bool is_last = chosen == options.max_new_tokens || loop_.cache().length() == capacity();
    const Sample sample = loop_.choose(!is_last);
    result.ids.push_back(sample.id);
    result.log_probabilities.push_back(sample.log_probability);
    if (options.stop_ids.contains(sample.id)) {
      result.finish_reason = FinishReason::stop;
      break;
    }
    if (on_token && !on_token(sample)) {
      result.finish_reason = FinishReason::cancelled;
      break;
    }
    if (is_last) {
      result.finish_reason = FinishReason::length;
      break;
    }
    loop_.append(sample);
    ids_.push_back(sample.id);
  }
  result.generate_seconds = seconds_since(generate_start);
  return result;
}

TENON_NAMESPACE_END
