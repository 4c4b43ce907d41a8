// linear, as decoding and prefill call it: few rows against the speed of reading memory, many rows against the rate of
// multiply-adds in registers. The limit is measured again before every round, on the same threads and at the same SIMD
// level, and the reported share is the median over the rounds: other work on the machine slows both down alike.
//
//   operators --benchmark_filter='linear/'
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include <limits.hpp>
#include <tenon/ops/linear.hpp>
#include <tenon/tensor/tensor.hpp>
#include <timing.hpp>

#include "operators_support.hpp"

namespace {

using bench::CpuContext;
using bench::random_tensor;
using tenon::bfloat16;
using tenon::float16;
using tenon::SimdLevel;
using tenon::Sizes;
using tenon::View;

// Several matrices with the same elements in different places, `bytes` of memory in all.
template <class T>
tenon::Tensor<T, 3> matrices(CpuContext& ctx, std::int64_t bytes, std::int64_t n, std::int64_t k) {
  const auto size = static_cast<std::int64_t>(sizeof(T)) * n * k;
  const std::int64_t count = std::max<std::int64_t>(1, bytes / size);
  const auto all = tenon::detail::allocate_tensor<T>(ctx, Sizes<3>{count, n, k});
  const auto first = random_tensor<T, 2>(ctx, {n, k});
  tenon::parallel_for(ctx, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      std::memcpy(all.ptr(i, 0, 0), first.data(), static_cast<std::size_t>(size));
  });
  return all;
}

// Arguments: SIMD level, threads. False, and the benchmark is skipped, where the processor lacks the level.
bool apply_arguments(benchmark::State& state, CpuContext& ctx) {
  const auto level = static_cast<SimdLevel>(state.range(0));
  if (level > tenon::detect_simd_level()) {
    state.SkipWithError("this processor does not have the instruction set");
    return false;
  }
  ctx.set_simd_level(level);
  state.SetLabel(std::string(tenon::simd_level_name(level)) + ", " + std::to_string(ctx.threads()) + " threads");
  return true;
}

// m rows against more weights than any cache holds, each read once.
template <class T>
void decode(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k) {
  CpuContext ctx(static_cast<int>(state.range(1)));
  if (!apply_arguments(state, ctx)) return;
  const auto weights = matrices<T>(ctx, std::int64_t{3} << 29, n, k);
  const auto in = random_tensor<T, 2>(ctx, {m, k});
  const auto out = random_tensor<T, 2>(ctx, {m, n});
  const double bytes = static_cast<double>(weights.numel()) * sizeof(T);
  std::vector<double> shares;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    const double read = limits::read_rate(ctx, reinterpret_cast<const float*>(weights.storage().data()),
                                          static_cast<std::int64_t>(bytes) / (limits::read_block * 4));
    state.ResumeTiming();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < weights.size(0); ++i) {
      tenon::linear(ctx, View<T, 2>(out), in, View<T, 2>(weights.select(0, i)), std::nullopt);
    }
    shares.push_back(bytes / timing::seconds_since(start) / read);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * static_cast<std::int64_t>(state.iterations()));
  state.counters["read_share"] = timing::median(shares);
}

// m rows, with the weights of several layers in turn, at least 64 MiB.
template <class T>
void prefill(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k) {
  CpuContext ctx(static_cast<int>(state.range(1)));
  if (!apply_arguments(state, ctx)) return;
  const auto weights = matrices<T>(ctx, std::int64_t{64} << 20, n, k);
  const auto in = random_tensor<T, 2>(ctx, {m, k});
  const auto out = random_tensor<T, 2>(ctx, {m, n});
  const double operations = 2.0 * static_cast<double>(m) * static_cast<double>(weights.numel());
  std::vector<double> shares;
  for ([[maybe_unused]] auto _ : state) {
    state.PauseTiming();
    const double peak = bench::fma_peak(ctx);
    state.ResumeTiming();
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < weights.size(0); ++i) {
      tenon::linear(ctx, View<T, 2>(out), in, View<T, 2>(weights.select(0, i)), std::nullopt);
    }
    shares.push_back(operations / timing::seconds_since(start) / peak);
  }
  state.counters["flops"] =
      benchmark::Counter(operations * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["fma_share"] = timing::median(shares);
}

// The twin: three loops, one thread.
template <class T>
void loop(benchmark::State& state, std::int64_t m, std::int64_t n, std::int64_t k) {
  CpuContext ctx(1);
  const auto weight = random_tensor<T, 2>(ctx, {n, k});
  const auto in = random_tensor<T, 2>(ctx, {m, k});
  const auto out = random_tensor<T, 2>(ctx, {m, n});
  for ([[maybe_unused]] auto _ : state) {
    for (std::int64_t i = 0; i < m; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        float sum = 0;
        for (std::int64_t p = 0; p < k; ++p) {
          sum += static_cast<float>(in.data()[i * k + p]) * static_cast<float>(weight.data()[j * k + p]);
        }
        out.data()[i * n + j] = T(sum);
      }
    }
    benchmark::ClobberMemory();
  }
  const double operations = 2.0 * static_cast<double>(m * n * k) * static_cast<double>(state.iterations());
  state.counters["flops"] = benchmark::Counter(operations, benchmark::Counter::kIsRate);
  state.SetBytesProcessed(static_cast<std::int64_t>(sizeof(T)) * n * k * static_cast<std::int64_t>(state.iterations()));
}

// Every level but the portable one, on one thread and on all.
void levels_and_threads(benchmark::internal::Benchmark* b) {
  const std::int64_t all = tenon::default_thread_count();
  for (const SimdLevel level : {SimdLevel::avx2, SimdLevel::avx512}) {
    b->Args({static_cast<std::int64_t>(level), 1});
    if (all > 1) b->Args({static_cast<std::int64_t>(level), all});
  }
  b->ArgNames({"level", "threads"})->UseRealTime()->Unit(benchmark::kMillisecond);
}

template <class T>
void register_type() {
  struct Shape {
    std::int64_t n, k;
  };
  const auto name = [](const char* kind, std::int64_t m, const Shape& shape) {
    return "linear/" + std::string(kind) + "/" + bench::type_name<T>() + "/" + std::to_string(m) + "x" +
           std::to_string(shape.n) + "x" + std::to_string(shape.k);
  };
  // Qwen2.5-0.5B: attention output, up and down projection; the vocabulary for one row.
  const std::vector<Shape> shapes{{896, 896}, {4864, 896}, {896, 4864}};
  for (const Shape& shape : shapes) {
    levels_and_threads(benchmark::RegisterBenchmark(name("decode", 1, shape).c_str(), [shape](benchmark::State& state) {
                         decode<T>(state, 1, shape.n, shape.k);
                       })->Iterations(7));
    levels_and_threads(
        benchmark::RegisterBenchmark(name("prefill", 128, shape).c_str(), [shape](benchmark::State& state) {
          prefill<T>(state, 128, shape.n, shape.k);
        })->Iterations(9));
  }
  const Shape vocabulary{151936, 896};
  levels_and_threads(
      benchmark::RegisterBenchmark(name("decode", 1, vocabulary).c_str(), [vocabulary](benchmark::State& state) {
        decode<T>(state, 1, vocabulary.n, vocabulary.k);
      })->Iterations(7));
  for (const std::int64_t m : {1, 128}) {
    benchmark::RegisterBenchmark(
        ("linear_loop/" + bench::type_name<T>() + "/" + std::to_string(m) + "x896x896").c_str(),
        [m](benchmark::State& state) { loop<T>(state, m, 896, 896); })
        ->Unit(benchmark::kMillisecond);
  }
}

const bool registered = [] {
  register_type<float>();
  register_type<bfloat16>();
  register_type<float16>();
  return true;
}();

}  // namespace
