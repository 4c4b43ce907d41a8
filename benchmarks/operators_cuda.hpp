// What the operator benchmarks of GPUs share: the card with its limits, and the measurement itself.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuda_limits.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda.hpp>
#include <tenon/cuda/graph.hpp>

namespace bench {

using limits::CudaContext;
using limits::random_on_device;
using tenon::Cuda;
template <class T, std::size_t Rank>
using DeviceTensor = tenon::Tensor<T, Rank, Cuda>;
template <class T, std::size_t Rank>
using DeviceView = tenon::View<T, Rank, Cuda>;

/// What a rate is compared with.
enum class Limit { read, copy, product };

/// A GPU and its limits. Buffers for these are made when they are first asked for.
class Card {
 public:
  explicit Card(int ordinal) : ctx_(ordinal) {}

  [[nodiscard]] CudaContext& context() { return ctx_; }

  /// Bytes or operations per second, measured now. The large product is one of T.
  template <class T>
  [[nodiscard]] double measure(Limit limit) {
    if (limit == Limit::product) return product_rate<T>();
    if (!bandwidth_) bandwidth_.emplace(ctx_);
    return limit == Limit::read ? bandwidth_->read() : bandwidth_->copy();
  }

  /// How many sets of operands of so many bytes are more than four times what the L2 cache holds: 2 to 256.
  [[nodiscard]] std::size_t rotation(double bytes) const {
    return static_cast<std::size_t>(
        std::clamp(4.0 * static_cast<double>(ctx_.properties().l2_bytes) / bytes + 1.0, 2.0, 256.0));
  }

 private:
  template <class T>
  double product_rate() {
    std::function<double()>& rate = products_[tenon::dtype_of<T>];
    if (!rate) {
      const auto product = std::make_shared<limits::LargeProduct<T>>(ctx_);
      rate = [product] { return product->measure(); };
    }
    return rate();
  }

  CudaContext ctx_;
  std::optional<limits::DeviceBandwidth> bandwidth_;
  std::map<tenon::DType, std::function<double()>> products_;
};

template <class T>
std::string type_name() {
  return std::string(tenon::dtype_name(tenon::dtype_of<T>));
}

/// Measures `call(i)`, which handles `amount` bytes or operations with the operands of set i, for the sets in turn. Time
/// is that of the device. About a millisecond of calls is recorded as a graph and replayed, as models do, so that the
/// host does not slow them down; what cannot be recorded is launched call by call, and the label says so. T is the type
/// of the large product.
template <class T, class Call>
void measure(benchmark::State& state, Card& card, Limit limit, double amount, std::size_t sets, Call&& call) {
  CudaContext& ctx = card.context();
  const auto round = [&] {
    for (std::size_t i = 0; i < sets; ++i) call(i);
  };
  round();
  const double seconds = limits::device_seconds(ctx, round);
  const auto rounds =
      static_cast<std::size_t>(std::clamp(1e-3 / seconds, 1.0, std::max(1.0, 1024.0 / static_cast<double>(sets))));
  const auto calls = static_cast<benchmark::IterationCount>(rounds * sets);
  const auto batch = [&] {
    for (std::size_t i = 0; i < rounds; ++i) round();
  };
  std::optional<tenon::detail::CudaGraph> graph;
  try {
    graph.emplace(ctx, batch);
  } catch (const tenon::DeviceError&) {
    state.SetLabel("launched one by one");
  }
  const auto run = [&] { return graph ? graph->launch(ctx) : batch(); };
  run();

  const double most = card.measure<T>(limit);
  std::vector<double> shares;
  while (state.KeepRunningBatch(calls)) {
    const double taken = limits::device_seconds(ctx, run);
    state.SetIterationTime(taken);
    shares.push_back(amount * static_cast<double>(calls) / taken / most);
  }
  const auto middle = shares.begin() + static_cast<std::ptrdiff_t>(shares.size() / 2);
  std::nth_element(shares.begin(), middle, shares.end());
  const char* name = limit == Limit::read ? "read_share" : limit == Limit::copy ? "copy_share" : "product_share";
  state.counters[name] = *middle;
  const double total = amount * static_cast<double>(state.iterations());
  if (limit == Limit::product) {
    state.counters["flops"] = benchmark::Counter(total, benchmark::Counter::kIsRate);
  } else {
    state.SetBytesProcessed(static_cast<std::int64_t>(total));
  }
}

/// Registers `body(state)`; what it throws ends this benchmark and no other.
template <class Body>
void add_benchmark(const std::string& name, Body&& body) {
  const auto guarded = [body = std::forward<Body>(body)](benchmark::State& state) {
    try {
      body(state);
    } catch (const tenon::Error& error) {
      state.SkipWithError(error.what());
    }
  };
  benchmark::RegisterBenchmark(name.c_str(), guarded)->UseManualTime()->Unit(benchmark::kMicrosecond);
}

void register_cuda_linear(Card& card);
void register_cuda_attention(Card& card);
void register_cuda_rows(Card& card);
void register_cuda_graph(Card& card);

}  // namespace bench
