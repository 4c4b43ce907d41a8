// The operators that are limited by the bytes they move, on a GPU, with the sizes of Qwen2.5-1.5B: one row as in decoding,
// and 2048 as in reading a prompt. The twin of rearrange is cudaMemcpyAsync.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenon/ops/add.hpp>
#include <tenon/ops/add_rms_norm.hpp>
#include <tenon/ops/argmax.hpp>
#include <tenon/ops/embedding.hpp>
#include <tenon/ops/rearrange.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/rope_append.hpp>
#include <tenon/ops/swiglu.hpp>

#include "operators_cuda.hpp"

namespace {

using bench::Card;
using bench::CudaContext;
using bench::DeviceTensor;
using bench::DeviceView;
using bench::Limit;
using tenon::bfloat16;
using tenon::float16;

constexpr std::int64_t hidden = 1536;
constexpr std::int64_t intermediate = 8960;
constexpr std::int64_t heads = 12;
constexpr std::int64_t kv_heads = 2;
constexpr std::int64_t d = 128;
constexpr std::int64_t vocabulary = 151936;
constexpr double eps = 1e-6;

/// `tensors` of them in each of so many sets that together they are larger than the L2 cache.
template <class T, std::size_t Rank>
class Sets {
 public:
  Sets(Card& card, const tenon::Sizes<Rank>& sizes, std::size_t tensors) : tensors_(tensors) {
    double bytes = static_cast<double>(sizeof(T));
    for (const std::int64_t size : sizes) bytes *= static_cast<double>(size);
    bytes_ = bytes;
    count_ = card.rotation(bytes * static_cast<double>(tensors));
    for (std::size_t i = 0; i < count_ * tensors; ++i) {
      all_.push_back(bench::random_on_device<T, Rank>(card.context(), sizes));
    }
  }
  /// Bytes of one tensor.
  [[nodiscard]] double bytes() const { return bytes_; }
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] DeviceView<T, Rank> operator()(std::size_t set, std::size_t tensor) const {
    return all_[set * tensors_ + tensor];
  }

 private:
  std::size_t tensors_;
  std::size_t count_ = 0;
  double bytes_ = 0;
  std::vector<DeviceTensor<T, Rank>> all_;
};

template <class T>
void add(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const Sets<T, 2> x(card, {rows, hidden}, 3);
  bench::measure<T>(state, card, Limit::copy, 3 * x.bytes(), x.count(),
                    [&](std::size_t i) { tenon::add(ctx, x(i, 0), x(i, 1), x(i, 2)); });
}

template <class T>
void rms_norm(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto weight = bench::random_on_device<T, 1>(ctx, {hidden});
  const Sets<T, 2> x(card, {rows, hidden}, 2);
  bench::measure<T>(state, card, Limit::copy, 2 * x.bytes(), x.count(),
                    [&](std::size_t i) { tenon::rms_norm(ctx, x(i, 0), x(i, 1), weight, eps); });
}

template <class T>
void add_rms_norm(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto weight = bench::random_on_device<T, 1>(ctx, {hidden});
  const Sets<T, 2> x(card, {rows, hidden}, 4);
  bench::measure<T>(state, card, Limit::copy, 4 * x.bytes(), x.count(),
                    [&](std::size_t i) { tenon::add_rms_norm(ctx, x(i, 0), x(i, 1), x(i, 2), x(i, 3), weight, eps); });
}

template <class T>
void swiglu(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const Sets<T, 2> x(card, {rows, intermediate}, 3);
  bench::measure<T>(state, card, Limit::copy, 3 * x.bytes(), x.count(),
                    [&](std::size_t i) { tenon::swiglu(ctx, x(i, 0), x(i, 1), x(i, 2)); });
}

template <class T>
void rope(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto cos = bench::random_on_device<float, 2>(ctx, {rows, d / 2});
  const auto sin = bench::random_on_device<float, 2>(ctx, {rows, d / 2});
  const Sets<T, 3> x(card, {rows, heads, d}, 2);
  bench::measure<T>(state, card, Limit::copy, 2 * x.bytes(), x.count(),
                    [&](std::size_t i) { tenon::rope(ctx, x(i, 0), x(i, 1), cos, sin); });
}

template <class T>
void rope_append(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto cos = bench::random_on_device<float, 2>(ctx, {rows, d / 2});
  const auto sin = bench::random_on_device<float, 2>(ctx, {rows, d / 2});
  const Sets<T, 3> from(card, {rows, heads + 2 * kv_heads, d},
                        1);  // q, k and v beside each other, as one product gives
  const Sets<T, 3> q(card, {rows, heads, d}, 1);
  const Sets<T, 3> cache(card, {rows, kv_heads, d}, 2);
  const std::size_t count = std::min({from.count(), q.count(), cache.count()});
  bench::measure<T>(state, card, Limit::copy, 2 * from.bytes(), count, [&](std::size_t i) {
    const DeviceView<T, 3> all = from(i, 0);
    tenon::rope_append(ctx, q(i, 0), cache(i, 0), cache(i, 1), all.slice(1, 0, heads),
                       all.slice(1, heads, heads + kv_heads), all.slice(1, heads + kv_heads, heads + 2 * kv_heads), cos,
                       sin);
  });
}

template <class T>
void argmax(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto index = tenon::empty<std::int64_t>(ctx, {rows, 1});
  const auto value = tenon::empty<T>(ctx, {rows, 1});
  const Sets<T, 2> x(card, {rows, vocabulary}, 1);
  bench::measure<T>(state, card, Limit::read, x.bytes(), x.count(), [&](std::size_t i) {
    tenon::argmax(ctx, DeviceView<std::int64_t, 2>(index), DeviceView<T, 2>(value), x(i, 0));
  });
}

template <class T>
void embedding(benchmark::State& state, Card& card, std::int64_t rows) {
  CudaContext& ctx = card.context();
  const auto table = bench::random_on_device<T, 2>(ctx, {vocabulary, hidden});
  std::vector<std::int64_t> ids(static_cast<std::size_t>(rows));
  std::vector<DeviceTensor<std::int64_t, 1>> indices;
  const Sets<T, 2> out(card, {rows, hidden}, 1);
  for (std::size_t i = 0; i < out.count(); ++i) {
    for (std::size_t t = 0; t < ids.size(); ++t) {
      ids[t] = static_cast<std::int64_t>((i * ids.size() + t) * 7919 % static_cast<std::size_t>(vocabulary));
    }
    indices.push_back(tenon::from_span<std::int64_t>(ctx, {rows}, ids));
  }
  bench::measure<T>(state, card, Limit::copy, 2 * out.bytes(), out.count(),
                    [&](std::size_t i) { tenon::embedding(ctx, out(i, 0), indices[i], DeviceView<T, 2>(table)); });
}

constexpr std::int64_t side = 8192;

template <class T>
void rearrange(benchmark::State& state, Card& card, bool transposed) {
  CudaContext& ctx = card.context();
  const Sets<T, 2> x(card, {side, side}, 2);
  bench::measure<T>(state, card, Limit::copy, 2 * x.bytes(), x.count(), [&](std::size_t i) {
    const DeviceView<T, 2> from = x(i, 1);
    tenon::rearrange(ctx, x(i, 0), transposed ? from.transpose(0, 1) : from);
  });
}

template <class T>
void copy_runtime(benchmark::State& state, Card& card) {
  CudaContext& ctx = card.context();
  const Sets<T, 2> x(card, {side, side}, 2);
  bench::measure<T>(state, card, Limit::copy, 2 * x.bytes(), x.count(), [&](std::size_t i) {
    tenon::detail::check_cuda(cudaMemcpyAsync(x(i, 0).data(), x(i, 1).data(), static_cast<std::size_t>(x.bytes()),
                                              cudaMemcpyDeviceToDevice, ctx.stream()),
                              "a copy");
  });
}

template <class T>
void register_type(Card& card) {
  const auto add_rows = [&](const std::string& name, std::int64_t columns, auto run) {
    for (const std::int64_t rows : {1, 2048}) {
      bench::add_benchmark(
          name + "/" + bench::type_name<T>() + "/" + std::to_string(rows) + "x" + std::to_string(columns),
          [&card, run, rows](benchmark::State& state) { run(state, card, rows); });
    }
  };
  add_rows("add", hidden, add<T>);
  add_rows("rms_norm", hidden, rms_norm<T>);
  add_rows("add_rms_norm", hidden, add_rms_norm<T>);
  add_rows("swiglu", intermediate, swiglu<T>);
  add_rows("rope", heads * d, rope<T>);
  add_rows("rope_append", (heads + 2 * kv_heads) * d, rope_append<T>);
  add_rows("embedding", hidden, embedding<T>);
  for (const std::int64_t rows : {1, 64}) {
    bench::add_benchmark(
        "argmax/" + bench::type_name<T>() + "/" + std::to_string(rows) + "x" + std::to_string(vocabulary),
        [&card, rows](benchmark::State& state) { argmax<T>(state, card, rows); });
  }
  const std::string size = std::to_string(side) + "x" + std::to_string(side);
  bench::add_benchmark("rearrange/" + bench::type_name<T>() + "/copy " + size,
                       [&card](benchmark::State& state) { rearrange<T>(state, card, false); });
  bench::add_benchmark("rearrange/" + bench::type_name<T>() + "/transpose " + size,
                       [&card](benchmark::State& state) { rearrange<T>(state, card, true); });
  bench::add_benchmark("rearrange_memcpy/" + bench::type_name<T>() + "/copy " + size,
                       [&card](benchmark::State& state) { copy_runtime<T>(state, card); });
}

}  // namespace

namespace bench {

void register_cuda_rows(Card& card) {
  register_type<bfloat16>(card);
  register_type<float16>(card);
  register_type<float>(card);
}

}  // namespace bench
