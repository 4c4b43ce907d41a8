// Time per token of the sampler on one row of Qwen2's vocabulary, and a plain-loop twin for the greedy case.
#include <tenon/generate/sampler.hpp>

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace {

// Twelve uniforms give a bell curve of width `spread`; a few logits stand out, as in real rows.
std::vector<float> make_logits(std::int64_t n, double spread) {
  tenon::CounterRandom random(1);
  std::vector<float> logits(static_cast<std::size_t>(n));
  for (float& x : logits) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += random.uniform();
    x = static_cast<float>(spread * sum);
  }
  for (int i = 0; i < 50; ++i) logits[random.next() % logits.size()] += static_cast<float>(spread * 0.1 * i);
  return logits;
}

void run(benchmark::State& state, const tenon::SamplingOptions& options, double spread = 2.5) {
  const auto logits = make_logits(151936, spread);
  tenon::Sampler sampler(options);
  const std::vector<std::int64_t> prompt{1, 5, 7, 100, 5000, 150000};
  sampler.observe(prompt);
  for (auto _ : state) benchmark::DoNotOptimize(sampler.sample(logits));
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(logits.size() * sizeof(float)));
}

void greedy(benchmark::State& state) { run(state, {.greedy = true}); }
void greedy_without_log_probability(benchmark::State& state) {
  run(state, {.greedy = true, .log_probabilities = false});
}
void temperature(benchmark::State& state) { run(state, {.temperature = 0.7}); }
void top_k_20_top_p(benchmark::State& state) { run(state, {.temperature = 0.7, .top_k = 20, .top_p = 0.8}); }
void top_k_20_top_p_penalty(benchmark::State& state) {
  run(state, {.temperature = 0.7, .top_k = 20, .top_p = 0.8, .repetition_penalty = 1.05});
}
void top_k_50000(benchmark::State& state) { run(state, {.temperature = 0.7, .top_k = 50000}); }
void top_p(benchmark::State& state) { run(state, {.temperature = 0.7, .top_p = 0.8}); }
void top_p_flat(benchmark::State& state) { run(state, {.temperature = 1.0, .top_p = 0.95}, 0.1); }
void min_p(benchmark::State& state) { run(state, {.temperature = 0.7, .min_p = 0.05}); }
void top_5_log_probabilities(benchmark::State& state) { run(state, {.greedy = true, .top_log_probabilities = 5}); }

void argmax_plain_loop(benchmark::State& state) {
  const auto logits = make_logits(151936, 2.5);
  for (auto _ : state) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < logits.size(); ++i) {
      if (logits[i] > logits[best]) best = i;
    }
    benchmark::DoNotOptimize(best);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(logits.size() * sizeof(float)));
}

BENCHMARK(greedy)->Unit(benchmark::kMicrosecond);
BENCHMARK(greedy_without_log_probability)->Unit(benchmark::kMicrosecond);
BENCHMARK(argmax_plain_loop)->Unit(benchmark::kMicrosecond);
BENCHMARK(temperature)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k_20_top_p)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k_20_top_p_penalty)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_k_50000)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_p_flat)->Unit(benchmark::kMicrosecond);
BENCHMARK(min_p)->Unit(benchmark::kMicrosecond);
BENCHMARK(top_5_log_probabilities)->Unit(benchmark::kMicrosecond);

}  // namespace

BENCHMARK_MAIN();
