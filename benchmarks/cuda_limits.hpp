// What a GPU can do at most, measured: the speed of reading and copying its memory, and the rate of a large product.
// Numbers of a model or an operator mean something beside these, taken in the same run on the same card.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_bandwidth.hpp>
#include <tenon/cuda.hpp>
#include <tenon/ops/linear.hpp>

namespace limits {

using CudaContext = tenon::Context<tenon::Cuda>;

/// Seconds that the device spends on what `body` puts into the stream of the context.
template <class Body>
double device_seconds(CudaContext& ctx, Body&& body) {
  const auto device = ctx.activate();
  tenon::Event<tenon::Cuda> start;
  tenon::Event<tenon::Cuda> stop;
  start.record(ctx.stream());
  body();
  stop.record(ctx.stream());
  stop.synchronize();
  return stop.milliseconds_since(start) * 1e-3;
}

/// Fills a contiguous view with numbers between -1 and 1: 65521 of them, a prime, again and again.
template <class T, std::size_t Rank>
void fill_random(CudaContext& ctx, const tenon::View<T, Rank, tenon::Cuda>& view) {
  constexpr std::int64_t length = 65521;
  const std::int64_t total = view.numel();
  std::vector<T> pattern(static_cast<std::size_t>(std::min(length, total)));
  std::uint32_t state = 1;
  for (T& value : pattern) {
    state = state * 1664525u + 1013904223u;
    value = T(static_cast<float>(state >> 8) * 0x1p-23f - 1.0f);
  }
  const auto device = ctx.activate();
  const auto copy = [&](T* to, const T* from, std::int64_t count, cudaMemcpyKind kind) {
    tenon::detail::check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(count) * sizeof(T), kind, ctx.stream()), "a copy");
  };
  auto done = static_cast<std::int64_t>(pattern.size());
  copy(view.data(), pattern.data(), done, cudaMemcpyHostToDevice);
  ctx.synchronize();
  for (; done < total; done *= 2) {
    copy(view.data() + done, view.data(), std::min(done, total - done), cudaMemcpyDeviceToDevice);
  }
}

template <class T, std::size_t Rank>
tenon::Tensor<T, Rank, tenon::Cuda> random_on_device(CudaContext& ctx, const tenon::Sizes<Rank>& sizes) {
  auto result = tenon::empty<T>(ctx, sizes);
  if (!result.empty()) fill_random(ctx, tenon::View<T, Rank, tenon::Cuda>(result));
  return result;
}

/// Measures reading and copying a buffer of 4 GiB, at least eight times the L2 cache, but at most half of the memory that
/// is free. `bytes` other than 0 sets its size instead.
class DeviceBandwidth {
 public:
  explicit DeviceBandwidth(CudaContext& ctx, std::int64_t bytes = 0) : ctx_(ctx) {
    const auto device = ctx.activate();
    const auto l2 = static_cast<std::int64_t>(ctx.properties().l2_bytes);
    if (bytes <= 0) bytes = std::max(std::int64_t{4} << 30, 8 * l2);
    bytes = std::min(bytes, static_cast<std::int64_t>(tenon::Runtime<tenon::Cuda>::free_memory() / 2));
    words_ = random_on_device<float, 1>(ctx, {std::max<std::int64_t>(bytes / 4, std::int64_t{1} << 20)});
    sums_ = tenon::empty<std::int32_t>(ctx, {read_sums(ctx.properties().multiprocessors)});
  }

  [[nodiscard]] std::int64_t bytes() const { return words_.numel() * 4; }

  /// Bytes per second, over four passes.
  [[nodiscard]] double read() {
    auto* sums = reinterpret_cast<unsigned*>(sums_.data());
    return rate(
        [&] { return launch_read(words_.data(), bytes(), sums, ctx_.properties().multiprocessors, ctx_.stream()); });
  }

  /// Bytes read plus bytes written per second, from one half of the buffer to the other, over four passes.
  [[nodiscard]] double copy() {
    const std::int64_t half = words_.numel() / 8 * 4;  // starts at a multiple of 16 bytes
    return 2 * rate([&] {
             return launch_copy(words_.data() + half, words_.data(), half * 4, ctx_.properties().multiprocessors,
                                ctx_.stream());
           });
  }

 private:
  template <class Launch>
  double rate(Launch&& launch) {
    constexpr int passes = 4;
    std::int64_t sum = 0;
    const double seconds = device_seconds(ctx_, [&] {
      for (int i = 0; i < passes; ++i) sum += launch();
      tenon::detail::check_cuda(cudaGetLastError(), "measuring the bandwidth");
    });
    return static_cast<double>(sum) / seconds;
  }

  CudaContext& ctx_;
  tenon::Tensor<float, 1, tenon::Cuda> words_;
  tenon::Tensor<std::int32_t, 1, tenon::Cuda> sums_;
};

/// Measures a product of two square matrices through tenon::linear, which takes cuBLASLt for it.
template <class T>
class LargeProduct {
 public:
  explicit LargeProduct(CudaContext& ctx, std::int64_t size = 8192)
      : ctx_(ctx),
        a_(random_on_device<T, 2>(ctx, {size, size})),
        b_(random_on_device<T, 2>(ctx, {size, size})),
        out_(tenon::empty<T>(ctx, {size, size})) {
    const double seconds = run(2);
    count_ = std::clamp(static_cast<int>(0.03 / (seconds / 2)), 1, 100);
  }

  [[nodiscard]] std::int64_t size() const { return a_.size(0); }

  /// Operations per second (a multiplication and an addition are two), over about 30 ms.
  [[nodiscard]] double measure() {
    const auto n = static_cast<double>(size());
    return 2 * n * n * n * count_ / run(count_);
  }

 private:
  double run(int count) {
    const tenon::View<T, 2, tenon::Cuda> out = out_;
    const tenon::View<T, 2, tenon::Cuda> b = b_;
    return device_seconds(ctx_, [&] {
      for (int i = 0; i < count; ++i) tenon::linear(ctx_, out, a_, b);
    });
  }

  CudaContext& ctx_;
  tenon::Tensor<T, 2, tenon::Cuda> a_, b_, out_;
  int count_ = 1;
};

}  // namespace limits
