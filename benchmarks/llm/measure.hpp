// Prefill and decode of one model, alternating with the limits of the machine.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <vector>

#include <limits.hpp>

#include <tenon/models/config.hpp>
#include <tenon/ops/argmax.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

namespace llm {

struct Plan {
  std::int64_t prompt = 128;
  std::int64_t generate = 32;
  std::int64_t batch = 1;
  int repeat = 5;
  std::int64_t read_buffer_bytes = 0;  ///< 0: as ReadBandwidth chooses
};

inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// One entry per repetition: seconds, and what the machine could do around them.
struct Measurement {
  std::vector<double> prefill_seconds;
  std::vector<double> decode_seconds;
  std::vector<double> read_bandwidth;     ///< bytes per second
  std::vector<double> reread_bandwidth;   ///< bytes per second, reading as many bytes as a token does, again
  std::vector<double> multiply_add_rate;  ///< operations per second
  std::int64_t bandwidth_buffer_bytes = 0;
  std::int64_t peak_resident_bytes = 0;  ///< after a full warm-up, before the buffer of the bandwidth loop exists
};

/// Operations of reading `tokens` tokens into an empty cache, the logits of the last included: two for each element of
/// a matrix and token, and two for each element of q kᵀ and of its product with v below the diagonal.
inline double prefill_operations(const tenon::ModelConfig& c, std::int64_t tokens) {
  const double matrices = static_cast<double>(c.hidden_size * (2 * c.query_size() + 2 * c.key_value_size()) +
                                              3 * c.hidden_size * c.intermediate_size);
  const double n = static_cast<double>(tokens);
  const double layers = static_cast<double>(c.num_hidden_layers);
  const double attention = 4.0 * static_cast<double>(c.query_size()) * n * (n + 1) / 2;
  return layers * (2 * n * matrices + attention) + 2.0 * static_cast<double>(c.vocab_size * c.hidden_size);
}

/// Bytes of keys and values that decoding reads for one token, on average over tokens [first, first + count).
inline double cache_bytes_per_token(const tenon::ModelConfig& c, std::int64_t first, std::int64_t count,
                                    std::size_t element) {
  const double context = static_cast<double>(first) + static_cast<double>(count + 1) / 2;
  return context * static_cast<double>(2 * c.num_hidden_layers * c.key_value_size()) * static_cast<double>(element);
}

/// Runs the plan: a warm-up, then `repeat` times reading, prefill, multiply-adds and decode in turn. All sequences of a
/// batch share the model and are decoded one after the other, a token each.
template <class Model>
Measurement measure(tenon::Context<tenon::Cpu>& ctx, const Model& model, const Plan& plan) {
  const std::int64_t vocabulary = model.config().vocab_size;
  std::mt19937 random(1);
  std::vector<std::int64_t> prompt(static_cast<std::size_t>(plan.prompt));
  for (auto& id : prompt) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocabulary));

  std::vector<typename Model::Cache> caches;
  for (std::int64_t i = 0; i < plan.batch; ++i) caches.push_back(model.make_cache(ctx, plan.prompt + plan.generate));
  std::vector<std::int64_t> next(static_cast<std::size_t>(plan.batch));
  const auto logits = tenon::empty<float>(ctx, {1, vocabulary});
  const auto index = tenon::empty<std::int64_t>(ctx, {1, 1});
  const auto largest = tenon::empty<float>(ctx, {1, 1});
  const auto step = [&](std::size_t i, std::span<const std::int64_t> ids) {
    model.forward(ctx, caches[i], ids, logits);
    tenon::argmax(ctx, tenon::View<std::int64_t, 2>(index), tenon::View<float, 2>(largest), logits);
    if (!std::isfinite(largest(0, 0)))
      throw tenon::NumericError("the logits are not finite: these weights cannot be timed");
    next[i] = index(0, 0);
  };
  const auto prefill = [&] {
    for (auto& cache : caches) cache.truncate(0);
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < caches.size(); ++i) step(i, prompt);
    return limits::seconds_since(start);
  };
  const auto decode = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t t = 0; t < plan.generate; ++t) {
      for (std::size_t i = 0; i < caches.size(); ++i) step(i, std::span<const std::int64_t>(&next[i], 1));
    }
    return limits::seconds_since(start);
  };

  Measurement result;
  static_cast<void>(prefill());
  static_cast<void>(decode());
  result.peak_resident_bytes = limits::peak_resident_bytes();
  limits::ReadBandwidth reading(ctx, plan.read_buffer_bytes);
  result.bandwidth_buffer_bytes = reading.bytes();
  static_cast<void>(reading.measure());
  static_cast<void>(limits::multiply_add_rate(ctx));
  for (int i = 0; i < plan.repeat; ++i) {
    result.multiply_add_rate.push_back(limits::multiply_add_rate(ctx));
    result.prefill_seconds.push_back(prefill());
    result.multiply_add_rate.push_back(limits::multiply_add_rate(ctx));
    result.read_bandwidth.push_back(reading.measure());
    result.decode_seconds.push_back(decode());
    result.reread_bandwidth.push_back(reading.measure_again(model.bytes_per_token()));
    result.read_bandwidth.push_back(reading.measure());
  }
  return result;
}

}  // namespace llm
