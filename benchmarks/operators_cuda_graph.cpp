// The operators of graphs on a GPU, with the sizes of LLaMA 7b: the products of one token against reading the weights, the
// small steps around them, and a point-wise program of six steps against copying as many bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenon/ops/matmul.hpp>
#include <tenon/ops/pointwise.hpp>
#include <tenon/ops/replace_slice.hpp>
#include <tenon/ops/sliced_softmax.hpp>

#include "operators_cuda.hpp"

namespace {

using bench::Card;
using bench::CudaContext;
using bench::DeviceTensor;
using bench::DeviceView;
using bench::Limit;
using tenon::bfloat16;
using tenon::PointwiseCode;
using tenon::PointwiseProgram;
using tenon::PointwiseStep;

constexpr std::int64_t heads = 32;
constexpr std::int64_t d = 128;
constexpr std::int64_t positions = 4096;

constexpr PointwiseStep load(std::uint8_t operand) { return {PointwiseCode::load, operand}; }
constexpr PointwiseStep step(PointwiseCode code) { return {code, 0}; }

template <class T>
DeviceView<const T, 3> constant(const DeviceView<T, 3>& x) {
  return x;
}

/// out (1, m, k) = a (1, m, n) · weight (k, n)ᵀ, and with a residual out = that + x.
template <class T>
void product(benchmark::State& state, Card& card, std::int64_t m, std::int64_t k, std::int64_t n, bool residual) {
  CudaContext& ctx = card.context();
  const PointwiseStep steps[] = {load(0), load(1), step(PointwiseCode::sum)};
  const PointwiseProgram program(steps);
  const double bytes = static_cast<double>(sizeof(T)) * static_cast<double>(k * n + m * n + m * k * (residual ? 2 : 1));
  std::vector<std::array<DeviceTensor<T, 3>, 4>> sets;
  const std::size_t count = card.rotation(bytes);
  for (std::size_t i = 0; i < count; ++i) {
    sets.push_back({tenon::empty<T>(ctx, {1, m, k}), bench::random_on_device<T, 3>(ctx, {1, m, n}),
                    bench::random_on_device<T, 3>(ctx, {1, k, n}), bench::random_on_device<T, 3>(ctx, {1, m, k})});
  }
  bench::measure<T>(state, card, Limit::read, bytes, count, [&](std::size_t i) {
    auto& [out, a, weight, x] = sets[i];
    const std::array<DeviceView<const T, 3>, 1> operands{DeviceView<const T, 3>(x)};
    tenon::MatmulEpilogue<T, tenon::Cuda> epilogue;
    if (residual) epilogue = {&program, operands};
    tenon::matmul(ctx, DeviceView<T, 3>(out), a, DeviceView<const T, 3>(weight.transpose(1, 2)), epilogue);
  });
}

/// The scores of one query for every position, or the sums of the values that follow them.
template <class T>
void attention(benchmark::State& state, Card& card, bool values) {
  CudaContext& ctx = card.context();
  const double bytes = static_cast<double>(sizeof(T)) * static_cast<double>(heads * positions * d);
  const std::size_t count = card.rotation(bytes);
  std::vector<DeviceTensor<T, 3>> caches;
  for (std::size_t i = 0; i < count; ++i) caches.push_back(bench::random_on_device<T, 3>(ctx, {positions, heads, d}));
  const auto q = bench::random_on_device<T, 3>(ctx, {heads, 1, d});
  const auto scores = bench::random_on_device<T, 3>(ctx, {heads, 1, positions});
  const DeviceView<T, 3> query = q;
  const DeviceView<T, 3> shares = scores;
  bench::measure<T>(state, card, Limit::read, bytes, count, [&](std::size_t i) {
    const DeviceView<T, 3> cache = caches[i];
    if (values) {
      tenon::matmul(ctx, query, shares, constant(cache.permute({1, 0, 2})));
    } else {
      tenon::matmul(ctx, shares, query, constant(cache.permute({1, 2, 0})));
    }
  });
}

template <class T>
void sliced_softmax(benchmark::State& state, Card& card) {
  CudaContext& ctx = card.context();
  const auto x = bench::random_on_device<T, 3>(ctx, {heads, 1, positions});
  const auto out = tenon::empty<T>(ctx, {heads, 1, positions});
  const auto prefix = tenon::from_span<std::int64_t>(ctx, {1}, std::vector<std::int64_t>{positions});
  const double bytes = 2.0 * static_cast<double>(sizeof(T)) * static_cast<double>(heads * positions);
  bench::measure<T>(state, card, Limit::copy, bytes, 1, [&](std::size_t) {
    tenon::sliced_softmax(ctx, DeviceView<T, 3>(out), DeviceView<const T, 3>(x), prefix);
  });
}

template <class T>
void replace_slice(benchmark::State& state, Card& card) {
  CudaContext& ctx = card.context();
  const auto cache = tenon::zeros<T>(ctx, {positions, 1, heads, d});
  const auto row = bench::random_on_device<T, 4>(ctx, {1, 1, heads, d});
  const auto begin = tenon::from_span<std::int64_t>(ctx, {1}, std::vector<std::int64_t>{1000});
  const auto end = tenon::from_span<std::int64_t>(ctx, {1}, std::vector<std::int64_t>{1001});
  const double bytes = 2.0 * static_cast<double>(sizeof(T)) * static_cast<double>(heads * d);
  bench::measure<T>(state, card, Limit::copy, bytes, 1, [&](std::size_t) {
    tenon::replace_slice(ctx, DeviceView<T, 4>(cache), DeviceView<const T, 4>(row), begin, end);
  });
}

/// silu(x0 + x1) * x2: six steps.
template <class T>
void pointwise(benchmark::State& state, Card& card, std::int64_t count) {
  CudaContext& ctx = card.context();
  const PointwiseStep steps[] = {load(0),
                                 load(1),
                                 step(PointwiseCode::sum),
                                 step(PointwiseCode::silu),
                                 load(2),
                                 step(PointwiseCode::hadamard_product)};
  const PointwiseProgram program(steps);
  const double bytes = 4.0 * static_cast<double>(sizeof(T)) * static_cast<double>(count);
  std::vector<std::array<DeviceTensor<T, 4>, 4>> sets;
  const std::size_t rotation = card.rotation(bytes);
  for (std::size_t i = 0; i < rotation; ++i) {
    sets.push_back({tenon::empty<T>(ctx, {1, 1, 1, count}), bench::random_on_device<T, 4>(ctx, {1, 1, 1, count}),
                    bench::random_on_device<T, 4>(ctx, {1, 1, 1, count}),
                    bench::random_on_device<T, 4>(ctx, {1, 1, 1, count})});
  }
  bench::measure<T>(state, card, Limit::copy, bytes, rotation, [&](std::size_t i) {
    const auto& [out, a, b, c] = sets[i];
    const std::array<tenon::PointwiseView<const T, tenon::Cuda>, 3> operands{
        DeviceView<const T, 4>(a), DeviceView<const T, 4>(b), DeviceView<const T, 4>(c)};
    tenon::pointwise(ctx, DeviceView<T, 4>(out), operands, program);
  });
}

template <class T>
void register_type(Card& card) {
  const std::string type = bench::type_name<T>();
  struct Matrix {
    std::int64_t k, n;
  };
  static constexpr Matrix matrices[] = {{4096, 4096}, {11008, 4096}, {4096, 11008}, {32000, 4096}};
  for (const Matrix& matrix : matrices) {
    for (const bool residual : {false, true}) {
      bench::add_benchmark("matmul/" + type + "/m=1 " + std::to_string(matrix.k) + "x" + std::to_string(matrix.n) +
                               (residual ? " and sum" : ""),
                           [&card, &matrix, residual](benchmark::State& state) {
                             product<T>(state, card, 1, matrix.k, matrix.n, residual);
                           });
    }
  }
  const std::string cache = std::to_string(heads) + "x" + std::to_string(positions) + "x" + std::to_string(d);
  bench::add_benchmark("matmul/" + type + "/scores " + cache,
                       [&card](benchmark::State& state) { attention<T>(state, card, false); });
  bench::add_benchmark("matmul/" + type + "/values " + cache,
                       [&card](benchmark::State& state) { attention<T>(state, card, true); });
  bench::add_benchmark("sliced_softmax/" + type + "/" + std::to_string(heads) + "x" + std::to_string(positions),
                       [&card](benchmark::State& state) { sliced_softmax<T>(state, card); });
  bench::add_benchmark("replace_slice/" + type + "/" + std::to_string(heads * d),
                       [&card](benchmark::State& state) { replace_slice<T>(state, card); });
  for (const std::int64_t count : {std::int64_t{11008}, std::int64_t{1} << 24}) {
    bench::add_benchmark("pointwise/" + type + "/six steps " + std::to_string(count),
                         [&card, count](benchmark::State& state) { pointwise<T>(state, card, count); });
  }
}

}  // namespace

namespace bench {

void register_cuda_graph(Card& card) {
  register_type<float>(card);
  register_type<bfloat16>(card);
}

}  // namespace bench
