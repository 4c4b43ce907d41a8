// self_attention: prompts against the peak of fma, single tokens against reading the keys and values once.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include <tenon/ops/self_attention.hpp>

#include "operators_support.hpp"

namespace {

using bench::random_tensor;
using tenon::bfloat16;
using tenon::float16;

struct Shape {
  std::int64_t tokens, kv_tokens, heads, kv_heads, d;
};

template <class T>
struct Operands {
  Operands(bench::CpuContext& ctx, const Shape& s)
      : q(random_tensor<T, 3>(ctx, {s.tokens, s.heads, s.d})),
        k(random_tensor<T, 3>(ctx, {s.kv_tokens, s.kv_heads, s.d})),
        v(random_tensor<T, 3>(ctx, {s.kv_tokens, s.kv_heads, s.d})),
        out(random_tensor<T, 3>(ctx, {s.tokens, s.heads, s.d})),
        scale(1.0 / std::sqrt(static_cast<double>(s.d))) {}
  tenon::Tensor<T, 3> q, k, v, out;
  double scale;
};

// What one would write without a library: a row of scores at a time.
template <class T>
void attention_loop(const Shape& s, const Operands<T>& x) {
  std::vector<float> weights(static_cast<std::size_t>(s.kv_tokens));
  std::vector<float> sums(static_cast<std::size_t>(s.d));
  for (std::int64_t t = 0; t < s.tokens; ++t) {
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t g = h / (s.heads / s.kv_heads);
      const std::int64_t visible = s.kv_tokens - s.tokens + t + 1;
      float top = -INFINITY;
      for (std::int64_t i = 0; i < visible; ++i) {
        float score = 0.0f;
        for (std::int64_t c = 0; c < s.d; ++c)
          score += static_cast<float>(x.q(t, h, c)) * static_cast<float>(x.k(i, g, c));
        weights[static_cast<std::size_t>(i)] = score * static_cast<float>(x.scale);
        top = std::max(top, weights[static_cast<std::size_t>(i)]);
      }
      float total = 0.0f;
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (std::int64_t i = 0; i < visible; ++i) {
        const float w = std::exp(weights[static_cast<std::size_t>(i)] - top);
        total += w;
        for (std::int64_t c = 0; c < s.d; ++c)
          sums[static_cast<std::size_t>(c)] += w * static_cast<float>(x.v(i, g, c));
      }
      for (std::int64_t c = 0; c < s.d; ++c) x.out(t, h, c) = T(sums[static_cast<std::size_t>(c)] / total);
    }
  }
}

double operations(const Shape& s) {  // two products, of the visible part
  double pairs = 0.0;
  for (std::int64_t t = 0; t < s.tokens; ++t) pairs += static_cast<double>(s.kv_tokens - s.tokens + t + 1);
  return 4.0 * pairs * static_cast<double>(s.heads * s.d);
}

template <class T>
void prefill(benchmark::State& state, const Shape& s, bool loop) {
  bench::CpuContext ctx(loop ? 1 : 0);
  const Operands<T> x(ctx, s);
  bench::measure_operations(state, ctx, operations(s), [&] {
    if (loop) {
      attention_loop<T>(s, x);
    } else {
      tenon::self_attention<T>(ctx, x.out, x.q, x.k, x.v, x.scale);
    }
  });
}

// Layers of a model have caches of their own: enough of them to be larger than the processor's caches.
template <class T>
void decode(benchmark::State& state, const Shape& s, bool loop) {
  bench::CpuContext ctx(loop ? 1 : 0);
  const double bytes = 2.0 * static_cast<double>(s.kv_tokens * s.kv_heads * s.d) * sizeof(T);
  const auto count = std::clamp<std::size_t>(static_cast<std::size_t>(256e6 / bytes), 2, 64);
  std::vector<Operands<T>> layers;
  for (std::size_t i = 0; i < count; ++i) layers.emplace_back(ctx, s);
  std::size_t next = 0;
  bench::measure_bytes(state, ctx, bytes, [&] {
    const Operands<T>& x = layers[next++ % count];
    if (loop) {
      attention_loop<T>(s, x);
    } else {
      tenon::self_attention<T>(ctx, x.out, x.q, x.k, x.v, x.scale);
    }
  });
}

template <class T>
void register_shapes() {
  struct Model {
    std::string name;
    std::int64_t heads, kv_heads, d;
  };
  const std::vector<Model> models{
      {"qwen2.5-0.5b", 14, 2, 64}, {"qwen2.5-1.5b", 12, 2, 128}, {"32 heads, no groups", 32, 32, 128}};
  for (const Model& m : models) {
    const auto add = [&m](const char* op, const char* what, std::int64_t n, auto&& body) {
      std::ostringstream name;
      name << op << '/' << bench::type_name<T>() << '/' << m.name << ", " << what << ' ' << n;
      benchmark::RegisterBenchmark(name.str().c_str(), body)->UseRealTime();
    };
    for (const std::int64_t n : {128, 512, 2048}) {
      const Shape s{n, n, m.heads, m.kv_heads, m.d};
      add("self_attention", "prefill", n, [s](benchmark::State& state) { prefill<T>(state, s, false); });
      if (n != 512) continue;
      add("self_attention_loop", "prefill", n, [s](benchmark::State& state) { prefill<T>(state, s, true); });
    }
    for (const std::int64_t n : {512, 2048, 32768}) {
      const Shape s{1, n, m.heads, m.kv_heads, m.d};
      add("self_attention", "decode at", n, [s](benchmark::State& state) { decode<T>(state, s, false); });
      if (n != 2048) continue;
      add("self_attention_loop", "decode at", n, [s](benchmark::State& state) { decode<T>(state, s, true); });
    }
  }
}

[[maybe_unused]] const bool registered = [] {
  register_shapes<float>();
  register_shapes<bfloat16>();
  register_shapes<float16>();
  return true;
}();

}  // namespace
