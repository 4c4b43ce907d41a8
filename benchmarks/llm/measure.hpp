// Prefill and decode of one model on the CPU, alternating with the limits of the machine.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <limits.hpp>
#include <llm/arithmetic.hpp>
#include <llm/options.hpp>

#include <tenon/core/error.hpp>
#include <tenon/ops/argmax.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

namespace llm {

/// One entry per repetition: seconds, and what the machine could do around them.
struct Measurement {
  std::vector<double> prefill_seconds;
  std::vector<double> decode_seconds;
  std::vector<double> read_bandwidth;     ///< bytes per second
  std::vector<double> reread_bandwidth;   ///< bytes per second, reading as many bytes as a token does, again
  std::vector<double> multiply_add_rate;  ///< operations per second
  std::vector<Ids> ids;                   ///< generated, sequence after sequence; of the warm-up, too
  std::int64_t bandwidth_buffer_bytes = 0;
  std::int64_t peak_resident_bytes = 0;  ///< after a full warm-up, before the buffer of the bandwidth loop exists
};

/// Runs the plan: a warm-up, then `repeat` times reading, prefill, multiply-adds and decode in turn. All sequences of a
/// batch share the model and are decoded one after the other, a token each.
template <class Model>
Measurement measure(tenon::Context<tenon::Cpu>& ctx, const Model& model, const Plan& plan) {
  const std::int64_t vocabulary = model.config().vocab_size;
  Measurement result;
  const Ids prompt = random_prompt(plan.prompt, vocabulary);
  std::vector<typename Model::Cache> caches;
  for (std::int64_t i = 0; i < plan.batch; ++i) caches.push_back(model.make_cache(ctx, plan.prompt + plan.generate));
  std::vector<Ids> chosen(static_cast<std::size_t>(plan.batch));  // of each sequence
  const auto logits = tenon::empty<float>(ctx, {1, vocabulary});
  const auto index = tenon::empty<std::int64_t>(ctx, {1, 1});
  const auto largest = tenon::empty<float>(ctx, {1, 1});
  const auto step = [&](std::size_t i, std::span<const std::int64_t> ids) {
    model.forward(ctx, caches[i], ids, logits);
    tenon::argmax(ctx, tenon::View<std::int64_t, 2>(index), tenon::View<float, 2>(largest), logits);
    if (!std::isfinite(largest(0, 0)))
      throw tenon::NumericError("the logits are not finite: these weights cannot be timed");
    chosen[i].push_back(index(0, 0));
  };
  const auto prefill = [&] {
    for (auto& cache : caches) cache.truncate(0);
    for (auto& ids : chosen) ids.clear();
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t i = 0; i < caches.size(); ++i) step(i, prompt);
    return limits::seconds_since(start);
  };
  const auto decode = [&] {
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t t = 0; t < plan.generate; ++t) {
      for (std::size_t i = 0; i < caches.size(); ++i) {
        const std::int64_t last = chosen[i].back();
        step(i, std::span<const std::int64_t>(&last, 1));
      }
    }
    const double seconds = limits::seconds_since(start);
    result.ids.emplace_back();
    for (const auto& ids : chosen) result.ids.back().insert(result.ids.back().end(), ids.begin(), ids.end());
    return seconds;
  };

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
