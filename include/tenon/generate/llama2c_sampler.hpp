// The sampler of llama2.c: the same seed, options and logits choose the same tokens as its programs do.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>

TENON_NAMESPACE_BEGIN

/// The random numbers of llama2.c: xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators,
/// scrambled", 2016) with its upper 32 bits as result. One integer of state; not shared between threads.
class Llama2cRandom {
 public:
  /// Throws ValueError for 0, which the generator would never leave.
  explicit Llama2cRandom(std::uint64_t seed) : state_(seed) {
    if (seed == 0) throw ValueError("random numbers of llama2.c: the seed is 0, expected a positive number");
  }

  std::uint32_t next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>((state_ * 0x2545F4914F6CDD1Dull) >> 32);
  }

  /// A multiple of 2^-24 in [0, 1).
  float uniform() noexcept { return static_cast<float>(next() >> 8) * 0x1p-24f; }

 private:
  std::uint64_t state_;
};

/// The options of llama2.c's `run`, with its defaults.
struct Llama2cSamplerOptions {
  float temperature = 1.0f;  ///< 0 chooses the first of the largest logits
  float topp = 0.9f;         ///< nucleus; 0 and 1 turn it off
  std::uint64_t seed = 1;
};

/// Draws tokens as llama2.c's `sample` does, in the same float32 operations and order. Equal probabilities are kept in the
/// order of their ids, as glibc's qsort keeps them. One object serves one sequence; it is not shared between threads.
class Llama2cSampler {
 public:
  /// Throws ValueError for a temperature that is negative or not finite, a topp outside 0 and 1, and a seed of 0.
  explicit Llama2cSampler(const Llama2cSamplerOptions& options = {}) : options_(options), random_(options.seed) {
    if (!std::isfinite(options.temperature) || options.temperature < 0.0f) {
      throw ValueError("sampler: temperature is " + detail::number_text(static_cast<double>(options.temperature)) +
                       ", expected 0 or more");
    }
    if (!(options.topp >= 0.0f && options.topp <= 1.0f)) {
      throw ValueError("sampler: topp is " + detail::number_text(static_cast<double>(options.topp)) +
                       ", expected 0 to 1");
    }
  }

  [[nodiscard]] const Llama2cSamplerOptions& options() const noexcept { return options_; }

  /// Chooses a token for one row of logits (vocab_size). One random number is used unless the temperature is 0. Throws
  /// ShapeError for an empty row, and NumericError where a logit is NaN or the largest divided by the temperature is not
  /// finite; the state is then as it was.
  std::int64_t sample(std::span<const float> logits) {
    if (logits.empty()) throw ShapeError("sampler: the row of logits is empty");
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float x) { return std::isnan(x); });
    if (bad != logits.end()) {
      throw NumericError("sampler: logit " + std::to_string(bad - logits.begin()) + " is NaN");
    }
    if (options_.temperature == 0.0f) {
      return std::max_element(logits.begin(), logits.end()) - logits.begin();
    }
    weigh(logits);
    const float coin = random_.uniform();
    return options_.topp > 0.0f && options_.topp < 1.0f ? draw_nucleus(coin) : draw(coin);
  }

 private:
  struct Candidate {
    float probability;
    std::int64_t id;
  };

  /// probabilities_ = softmax(logits / temperature).
  void weigh(std::span<const float> logits) {
    probabilities_.assign(logits.begin(), logits.end());
    for (float& x : probabilities_) x /= options_.temperature;
    const float max = *std::max_element(probabilities_.begin(), probabilities_.end());
    if (!std::isfinite(max)) {
      throw NumericError("sampler: the largest logit divided by temperature " +
                         detail::number_text(static_cast<double>(options_.temperature)) + " is not finite");
    }
    float sum = 0.0f;
    for (float& x : probabilities_) {
      x = std::exp(x - max);
      sum += x;
    }
    for (float& x : probabilities_) x /= sum;
  }

  [[nodiscard]] std::int64_t draw(float coin) const noexcept {
    float sum = 0.0f;
    for (std::size_t i = 0; i < probabilities_.size(); ++i) {
      sum += probabilities_[i];
      if (coin < sum) return static_cast<std::int64_t>(i);
    }
    return static_cast<std::int64_t>(probabilities_.size()) - 1;
  }

  /// Draws from the fewest tokens whose probabilities exceed topp together.
  [[nodiscard]] std::int64_t draw_nucleus(float coin) {
    // Tokens below the cutoff can be in no nucleus: n - 1 of them hold less than 1 - topp together.
    const float cutoff = (1.0f - options_.topp) / static_cast<float>(probabilities_.size() - 1);
    candidates_.clear();
    for (std::size_t i = 0; i < probabilities_.size(); ++i) {
      if (probabilities_[i] >= cutoff) candidates_.push_back({probabilities_[i], static_cast<std::int64_t>(i)});
    }
    // A flat row and a topp below 1 / n leave nothing (llama2.c reads out of bounds there): the largest remains.
    if (candidates_.empty()) {
      return std::max_element(probabilities_.begin(), probabilities_.end()) - probabilities_.begin();
    }
    std::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.probability > b.probability; });
    float mass = 0.0f;
    std::size_t last = candidates_.size() - 1;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      mass += candidates_[i].probability;
      if (mass > options_.topp) {
        last = i;
        break;
      }
    }
    const float target = coin * mass;
    float sum = 0.0f;
    for (std::size_t i = 0; i <= last; ++i) {
      sum += candidates_[i].probability;
      if (target < sum) return candidates_[i].id;
    }
    return candidates_[last].id;
  }

  Llama2cSamplerOptions options_;
  Llama2cRandom random_;
  // Working space, kept between calls so that a token allocates nothing once the sizes have settled.
  std::vector<float> probabilities_;
  std::vector<Candidate> candidates_;
};

TENON_NAMESPACE_END
