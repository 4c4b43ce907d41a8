// Chooses the next token from a row of logits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/random.hpp>
#include <tenon/generate/logit_row.hpp>
#include <tenon/generate/sampling_options.hpp>

TENON_NAMESPACE_BEGIN

/// A chosen token. `log_probability` is the natural logarithm of the probability that the model itself gives the token:
/// log softmax of the logits as they came, before penalty, temperature and filters, over the ids below `vocab_limit`.
/// It is NaN where `SamplingOptions::log_probabilities` is off.
struct Sample {
  std::int64_t id = 0;
  float log_probability = 0;
};

/// A token that can be drawn, and its probability among those that can.
struct TokenProbability {
  std::int64_t id = 0;
  double probability = 0;
};

/// Draws tokens, and remembers which ids the prompt and the output have shown (for the repetition penalty).
///
/// One object serves one sequence; it is not shared between threads. Equal options and logits give equal ids with one
/// binary; between compilers a draw can differ only where it falls within rounding (about 1e-7) of a border.
class Sampler {
 public:
  /// Throws ValueError for options outside their ranges.
  explicit Sampler(const SamplingOptions& options = {}) : options_(options), random_(options.seed) {
    options_.validate();
  }

  const SamplingOptions& options() const noexcept { return options_; }

  /// Records prompt ids, or ids chosen elsewhere. `sample` records what it returns by itself. Throws IndexError for a
  /// negative id, and then records nothing.
  void observe(std::span<const std::int64_t> ids) {
    for (const std::int64_t id : ids) {
      if (id < 0) throw IndexError("sampler history: id " + std::to_string(id) + " is negative");
    }
    if (options_.repetition_penalty == 1.0) return;
    for (const std::int64_t id : ids) remember(id);
  }

  /// Back to the state after construction: empty history, first random number.
  void reset() {
    seen_.clear();
    drawn_ = 0;
    random_ = CounterRandom(options_.seed);
  }

  /// Chooses a token for one row of logits, the shape (vocabulary,). Throws NumericError where a logit is NaN or +inf
  /// or all are -inf (single -inf entries are fine: those ids are never chosen), and ShapeError for an empty row. After
  /// an error the sampler is as it was before the call.
  Sample sample(std::span<const float> logits) {
    const Row row = checked(logits);
    const Row adjusted = penalised(row);
    Sample chosen;
    if (options_.is_greedy()) {
      chosen.id = adjusted.scan.argmax;
    } else {
      CounterRandom random = random_;
      chosen.id = draw(adjusted, random.uniform());
      random_ = random;
    }
    chosen.log_probability = report(row, chosen.id);
    if (options_.repetition_penalty != 1.0) remember(chosen.id);
    ++drawn_;
    return chosen;
  }

  /// The tokens that `sample` could return for these logits now, most probable first. Changes nothing and draws nothing.
  std::vector<TokenProbability> distribution(std::span<const float> logits) {
    const Row row = penalised(checked(logits));
    if (options_.is_greedy()) return {{row.scan.argmax, 1.0}};
    std::vector<TokenProbability> result;
    if (!filters(row)) {
      const double total = weigh(row);
      for (std::int64_t i = 0; i < row.size; ++i) {
        const float w = weights_[static_cast<std::size_t>(i)];
        if (w > 0) result.push_back({i, static_cast<double>(w) / total});
      }
    } else {
      const double total = select(row);
      for (const Candidate& c : candidates_) result.push_back({c.id, static_cast<double>(c.weight) / total});
    }
    std::stable_sort(result.begin(), result.end(), [](const TokenProbability& a, const TokenProbability& b) {
      return a.probability > b.probability;
    });
    return result;
  }

  /// The `SamplingOptions::top_log_probabilities` most probable tokens of the row last sampled, most probable first,
  /// in the same measure as `Sample::log_probability`; equal ones by ascending id.
  std::span<const Sample> top_log_probabilities() const noexcept { return top_; }

 private:
  struct Row {
    const float* data;
    std::int64_t size;
    detail::RowScan scan;
  };

  struct Candidate {
    float logit;
    float weight;  // exp((logit - largest logit) / temperature)
    std::int64_t id;
  };

  static bool more_probable(const Candidate& a, const Candidate& b) noexcept {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  }

  Row checked(std::span<const float> logits) const {
    std::int64_t n = static_cast<std::int64_t>(logits.size());
    if (options_.vocab_limit > 0) n = std::min(n, options_.vocab_limit);
    if (n == 0) throw ShapeError("sampler: the row of logits is empty");
    return finite({logits.data(), n, detail::scan_row(logits.data(), n)});
  }

  Row finite(const Row& row) const {
    if (row.scan.first_nan < 0 && std::isfinite(row.scan.max)) return row;
    std::string what = "all are minus infinity";
    if (row.scan.first_nan >= 0) {
      what = "id " + std::to_string(row.scan.first_nan) + " is NaN";
    } else if (row.scan.max > 0) {
      what = "id " + std::to_string(row.scan.argmax) + " is infinite";
    }
    throw NumericError("the logits of sampled token " + std::to_string(drawn_) + " are not finite: " + what);
  }

  Row penalised(const Row& row) {
    if (seen_.empty() || options_.repetition_penalty == 1.0) return row;
    adjusted_.assign(row.data, row.data + row.size);
    const auto penalty = static_cast<float>(options_.repetition_penalty);
    for (const std::int64_t id : seen_) {
      if (id >= row.size) break;
      float& x = adjusted_[static_cast<std::size_t>(id)];
      if (std::isinf(x)) continue;  // -inf stays: the id is never chosen
      // Clamped: what leaves the range of float is the penalty's doing and no fault of the logits.
      constexpr float largest = std::numeric_limits<float>::max();
      x = std::clamp(x < 0 ? x * penalty : x / penalty, -largest, largest);
    }
    return finite({adjusted_.data(), row.size, detail::scan_row(adjusted_.data(), row.size)});
  }

  bool top_k_on(const Row& row) const noexcept { return options_.top_k > 0 && options_.top_k < row.size; }
  bool filters(const Row& row) const noexcept { return top_k_on(row) || options_.top_p < 1 || options_.min_p > 0; }

  float scale() const noexcept { return detail::sampling_scale(options_.temperature); }

  /// Fills weights_ for the whole row and returns their sum.
  double weigh(const Row& row) {
    weights_.resize(static_cast<std::size_t>(row.size));
    return detail::sum_exp<true>(row.data, row.size, row.scan.max, scale(), weights_.data());
  }

  std::int64_t draw(const Row& row, double uniform) {
    if (!filters(row)) return draw_unfiltered(row, uniform);
    const double target = uniform * select(row);
    double sum = 0;
    std::int64_t last = row.scan.argmax;
    for (const Candidate& c : candidates_) {
      if (c.weight <= 0) continue;
      sum += static_cast<double>(c.weight);
      last = c.id;
      if (sum > target) break;
    }
    return last;
  }

  std::int64_t draw_unfiltered(const Row& row, double uniform) {
    const double target = uniform * weigh(row);
    double sum = 0;
    std::int64_t last = row.scan.argmax;
    constexpr std::int64_t block = 1024;
    for (std::int64_t begin = 0; begin < row.size; begin += block) {
      const std::int64_t end = std::min(row.size, begin + block);
      const double here = detail::sum_row(weights_.data() + begin, end - begin);
      if (sum + here <= target && end < row.size) {
        sum += here;
        continue;
      }
      for (std::int64_t i = begin; i < end; ++i) {
        const float weight = weights_[static_cast<std::size_t>(i)];
        if (weight <= 0) continue;
        sum += static_cast<double>(weight);
        last = i;
        if (sum > target) return last;
      }
    }
    return last;
  }

  /// Fills candidates_ with the tokens that pass the filters, by ascending id, and returns the sum of their weights.
  double select(const Row& row) {
    candidates_.clear();
    double total = 0;
    const float factor = scale();
    if (top_k_on(row)) {
      const float kth = detail::kth_largest(row.data, row.size, options_.top_k, values_);
      detail::for_each_at_least(
          row.data, row.size, [&] { return kth; },
          [&](std::int64_t id, float x) {
            const float weight = std::exp((x - row.scan.max) * factor);
            candidates_.push_back({x, weight, id});
            total += static_cast<double>(weight);
          });
    } else {
      total = weigh(row);
      // All tokens below this weight together hold less than 1 - top_p of the sum, so top-p never keeps one of them.
      const double top_p_floor = (1 - options_.top_p) * total / static_cast<double>(row.size);
      const auto floor = static_cast<float>(0.999 * std::max(top_p_floor, options_.min_p));
      detail::for_each_at_least(
          weights_.data(), row.size, [&] { return floor; },
          [&](std::int64_t id, float weight) {
            candidates_.push_back({row.data[static_cast<std::size_t>(id)], weight, id});
          });
    }
    if (options_.top_p < 1) keep_mass(options_.top_p * total);
    std::erase_if(candidates_, [&](const Candidate& c) { return static_cast<double>(c.weight) < options_.min_p; });
    total = 0;
    for (const Candidate& c : candidates_) total += static_cast<double>(c.weight);
    return total;
  }

  /// Keeps the most probable candidates until their weights reach `mass`; at least one. Halves the range that holds the
  /// border until it is small enough to sort: linear time, where sorting all of a flat distribution would not be.
  void keep_mass(double mass) {
    order_ = candidates_;
    auto first = order_.begin();
    auto last = order_.end();
    double before = 0;
    while (last - first > 32) {
      const auto middle = first + (last - first) / 2;
      std::nth_element(first, middle, last, more_probable);
      double half = 0;
      for (auto c = first; c != middle; ++c) half += static_cast<double>(c->weight);
      if (before + half >= mass) {
        last = middle;
      } else {
        before += half;
        first = middle;
      }
    }
    std::sort(first, last, more_probable);
    Candidate border = *first;
    for (auto c = first; c != last && (c == first || before < mass); ++c) {
      border = *c;
      before += static_cast<double>(c->weight);
    }
    std::erase_if(candidates_, [&](const Candidate& c) { return more_probable(border, c); });
  }

  float report(const Row& row, std::int64_t id) {
    top_.clear();
    if (!options_.log_probabilities && options_.top_log_probabilities == 0) {
      return std::numeric_limits<float>::quiet_NaN();
    }
    const auto max = static_cast<double>(row.scan.max);
    const double log_sum = std::log(detail::sum_exp<false>(row.data, row.size, row.scan.max, 1.0f, nullptr));
    const auto log_probability = [&](float x) { return static_cast<float>(static_cast<double>(x) - max - log_sum); };
    if (options_.top_log_probabilities > 0) {
      const std::int64_t count = std::min(options_.top_log_probabilities, row.size);
      const float kth = detail::kth_largest(row.data, row.size, count, values_);
      detail::for_each_at_least(
          row.data, row.size, [&] { return kth; },
          [&](std::int64_t i, float x) {
            top_.push_back({i, log_probability(x)});
          });
      std::stable_sort(top_.begin(), top_.end(),
                       [](const Sample& a, const Sample& b) { return a.log_probability > b.log_probability; });
      top_.resize(std::min(top_.size(), static_cast<std::size_t>(count)));
    }
    return options_.log_probabilities ? log_probability(row.data[id]) : std::numeric_limits<float>::quiet_NaN();
  }

  void remember(std::int64_t id) {
    const auto at = std::lower_bound(seen_.begin(), seen_.end(), id);
    if (at == seen_.end() || *at != id) seen_.insert(at, id);
  }

  SamplingOptions options_;
  CounterRandom random_;
  std::int64_t drawn_ = 0;
  std::vector<std::int64_t> seen_;  // distinct, ascending
  // Working space, kept between calls so that a token allocates nothing once the sizes have settled.
  std::vector<float> adjusted_;
  std::vector<float> weights_;
  std::vector<float> values_;
  std::vector<Candidate> candidates_;
  std::vector<Candidate> order_;
  std::vector<Sample> top_;
};

TENON_NAMESPACE_END
