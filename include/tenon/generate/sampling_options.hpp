// How the next token is chosen from the logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>

TENON_NAMESPACE_BEGIN

/// The defaults draw from the model's own distribution: temperature 1, every filter off. None of them is greedy, so
/// changing one option never has its effect hidden by another. Filters combine freely and are applied in the order of
/// Hugging Face transformers: repetition penalty, temperature, top-k, top-p, min-p.
struct SamplingOptions {
  /// Divides the logits; 0 means greedy. From about 1e38 on a larger temperature changes nothing more.
  double temperature = 1.0;

  /// Always take the largest logit (the lowest id on a tie), whatever the temperature says. The repetition penalty
  /// still counts; the filters change nothing.
  bool greedy = false;

  /// Keep the k largest logits, and what ties with the smallest of them; 0 or -1 is off, more than the vocabulary too.
  std::int64_t top_k = 0;

  /// Keep the smallest set of most probable tokens whose probabilities sum to at least this, never less than one
  /// token; 1 is off. Among equal logits the lower id counts as more probable.
  double top_p = 1.0;

  /// Keep tokens at least this fraction as probable as the most probable one; 0 is off.
  double min_p = 0.0;

  /// Divides positive and multiplies negative logits of ids already seen, once per distinct id; 1 is off. Between 0.001
  /// and 1000: values in use are near 1, and far from it the products would leave the range of float.
  double repetition_penalty = 1.0;

  /// Equal seeds give equal draws.
  std::uint64_t seed = 0;

  /// Ids at or above this are never chosen: checkpoints pad their output layer past the tokenizer's vocabulary.
  /// 0 means no limit.
  std::int64_t vocab_limit = 0;

  /// Also report the log-probability of the chosen token. Off saves one pass over the logits.
  bool log_probabilities = true;

  /// Also report this many of the most probable tokens; see `Sampler::top_log_probabilities`. A Sequence has no use for it.
  std::int64_t top_log_probabilities = 0;

  /// Throws ValueError that names the option, its value and what is allowed.
  void validate() const {
    if (!std::isfinite(temperature) || temperature < 0) {
      refuse("temperature", detail::number_text(temperature), "a finite number not below 0");
    }
    if (top_k < -1) refuse("top_k", std::to_string(top_k), "0 or -1 (off), or a positive count");
    if (!(top_p >= 0 && top_p <= 1)) refuse("top_p", detail::number_text(top_p), "between 0 and 1");
    if (!(min_p >= 0 && min_p <= 1)) refuse("min_p", detail::number_text(min_p), "between 0 and 1");
    if (!(repetition_penalty >= 1e-3 && repetition_penalty <= 1e3)) {
      refuse("repetition_penalty", detail::number_text(repetition_penalty), "between 0.001 and 1000");
    }
    if (vocab_limit < 0) refuse("vocab_limit", std::to_string(vocab_limit), "0 (off) or a positive count");
    if (top_log_probabilities < 0) {
      refuse("top_log_probabilities", std::to_string(top_log_probabilities), "a count not below 0");
    }
  }

  /// True where the largest logit is taken and nothing is drawn.
  bool is_greedy() const noexcept { return greedy || temperature == 0; }

 private:
  [[noreturn]] static void refuse(const char* name, const std::string& value, const char* allowed) {
    throw ValueError(std::string("sampling option ") + name + " is " + value + " but must be " + allowed);
  }
};

namespace detail {

/// 1 / temperature, kept away from infinity and zero, because 0 * infinity is NaN. With the upper bound any logit but the
/// largest is still out of reach; with the lower one -inf, and a distance beyond float, still get the weight 0.
inline float sampling_scale(double temperature) noexcept {
  constexpr auto least = static_cast<double>(std::numeric_limits<float>::min());
  return static_cast<float>(std::clamp(1.0 / temperature, least, 1e30));
}

}  // namespace detail
TENON_NAMESPACE_END
