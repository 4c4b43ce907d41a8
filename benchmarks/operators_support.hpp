// What the operator benchmarks share: random operands, and the machine's limits, measured next to every benchmark so
// that its share of them does not depend on what else the machine was doing at another time.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <limits.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/tensor.hpp>

namespace bench {

using CpuContext = tenon::Context<tenon::Cpu>;

template <class T, std::size_t Rank>
tenon::Tensor<T, Rank> random_tensor(CpuContext& ctx, const tenon::Sizes<Rank>& sizes) {
  auto x = tenon::detail::allocate_tensor<T>(ctx, sizes);
  std::uint32_t state = 1;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    state = state * 1664525u + 1013904223u;
    x.data()[i] = T(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
  return x;
}

template <class T>
std::string type_name() {
  return std::string(tenon::dtype_name(tenon::dtype_of<T>));
}

using limits::seconds_since;

/// Bytes per second of plain reading, by all threads of the context, from more memory than the caches hold.
inline double read_bandwidth(CpuContext& ctx) {
  static const std::int64_t blocks =
      std::max(std::int64_t{1} << 28, 2 * limits::last_level_cache_bytes()) / (limits::read_block * 4);
  static const tenon::Tensor<float, 1> buffer = random_tensor<float, 1>(ctx, {blocks * limits::read_block});
  return limits::read_rate(ctx, buffer.data(), blocks);
}

/// Operations per second (a multiplication and an addition are two) of fma without memory, by all threads.
inline double fma_peak(CpuContext& ctx) { return limits::multiply_add_rate(ctx, 0.03); }

/// Runs `body`, which handles `amount` bytes or operations, until the benchmark has its time. Returns the median over
/// stretches of 50 ms of the share of `limit()`, which is measured before each of them.
template <class Limit, class Body>
double median_share(benchmark::State& state, double amount, Limit&& limit, Body&& body) {
  std::vector<double> shares;
  double rate = 0.0;
  double done = 0.0;
  double spent = 0.0;
  for ([[maybe_unused]] auto _ : state) {
    if (done == 0.0) {
      state.PauseTiming();
      rate = limit();
      state.ResumeTiming();
    }
    const auto start = std::chrono::steady_clock::now();
    body();
    benchmark::ClobberMemory();
    spent += seconds_since(start);
    done += amount;
    if (spent < 0.05) continue;
    shares.push_back(done / spent / rate);
    done = spent = 0.0;
  }
  if (shares.empty()) return done / spent / rate;
  std::nth_element(shares.begin(), shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2), shares.end());
  return shares[shares.size() / 2];
}

/// For work that is limited by the bytes it moves: "read_share" is its rate as a share of read_bandwidth.
template <class Body>
void measure_bytes(benchmark::State& state, CpuContext& ctx, double bytes, Body&& body) {
  state.counters["read_share"] = median_share(
      state, bytes, [&] { return read_bandwidth(ctx); }, body);
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes * static_cast<double>(state.iterations())));
}

/// For arithmetic: "fma_share" is the rate of `operations` as a share of fma_peak.
template <class Body>
void measure_operations(benchmark::State& state, CpuContext& ctx, double operations, Body&& body) {
  state.counters["fma_share"] = median_share(
      state, operations, [&] { return fma_peak(ctx); }, body);
  const double total = operations * static_cast<double>(state.iterations());
  state.counters["flops"] = benchmark::Counter(total, benchmark::Counter::kIsRate);
}

}  // namespace bench
