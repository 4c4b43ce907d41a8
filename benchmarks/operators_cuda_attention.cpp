// self_attention on a GPU, with the heads of Qwen2.5-1.5B: prompts against a large product, single tokens against reading
// the keys and values once.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenon/ops/self_attention.hpp>

#include "operators_cuda.hpp"

namespace {

using bench::Card;
using bench::CudaContext;
using bench::DeviceTensor;
using bench::DeviceView;
using tenon::bfloat16;
using tenon::float16;

constexpr std::int64_t heads = 12;
constexpr std::int64_t kv_heads = 2;
constexpr std::int64_t d = 128;

template <class T>
struct Operands {
  Operands(CudaContext& ctx, std::int64_t tokens, std::int64_t kv_tokens)
      : q(bench::random_on_device<T, 3>(ctx, {tokens, heads, d})),
        k(bench::random_on_device<T, 3>(ctx, {kv_tokens, kv_heads, d})),
        v(bench::random_on_device<T, 3>(ctx, {kv_tokens, kv_heads, d})),
        out(tenon::empty<T>(ctx, {tokens, heads, d})) {}
  DeviceTensor<T, 3> q, k, v, out;
};

template <class T>
void attention(benchmark::State& state, Card& card, std::int64_t tokens, std::int64_t kv_tokens) {
  CudaContext& ctx = card.context();
  const double bytes =
      static_cast<double>(sizeof(T)) * static_cast<double>(2 * kv_tokens * kv_heads * d + 2 * tokens * heads * d);
  double pairs = 0.0;  // of a query and a key that it sees
  for (std::int64_t t = 0; t < tokens; ++t) pairs += static_cast<double>(kv_tokens - tokens + t + 1);
  const bool decode = tokens == 1;
  const double amount = decode ? bytes : 4.0 * pairs * static_cast<double>(heads * d);
  std::vector<Operands<T>> sets;
  const std::size_t count = card.rotation(bytes);
  for (std::size_t i = 0; i < count; ++i) sets.emplace_back(ctx, tokens, kv_tokens);
  const double scale = 1.0 / std::sqrt(static_cast<double>(d));
  bench::measure<T>(state, card, decode ? bench::Limit::read : bench::Limit::product, amount, count,
                    [&](std::size_t i) {
                      const Operands<T>& x = sets[i];
                      tenon::self_attention(ctx, DeviceView<T, 3>(x.out), x.q, x.k, x.v, scale);
                    });
}

template <class T>
void register_type(Card& card) {
  const auto add = [&](const char* what, std::int64_t tokens, std::int64_t kv_tokens) {
    bench::add_benchmark(
        "self_attention/" + bench::type_name<T>() + "/" + what + " " + std::to_string(kv_tokens),
        [&card, tokens, kv_tokens](benchmark::State& state) { attention<T>(state, card, tokens, kv_tokens); });
  };
  for (const std::int64_t n : {128, 2048}) add("prefill", n, n);
  for (const std::int64_t n : {128, 2048, 32768}) add("decode at", 1, n);
}

}  // namespace

namespace bench {

void register_cuda_attention(Card& card) {
  register_type<bfloat16>(card);
  register_type<float16>(card);
  register_type<float>(card);
}

}  // namespace bench
