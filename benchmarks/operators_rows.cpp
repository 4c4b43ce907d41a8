// add, swiglu, rms_norm, rope, argmax, embedding and rearrange: limited by the bytes that they move.

#include <cmath>
#include <cstdint>

#include <tenon/ops/add.hpp>
#include <tenon/ops/argmax.hpp>
#include <tenon/ops/embedding.hpp>
#include <tenon/ops/rearrange.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/swiglu.hpp>

#include "operators_support.hpp"

namespace {

using bench::measure_bytes;
using bench::random_tensor;
using tenon::bfloat16;

constexpr std::int64_t tokens = 2048;
constexpr std::int64_t dim = 4864;  // of Qwen2.5-0.5B's feed-forward blocks
constexpr double elements = static_cast<double>(tokens * dim);

template <class T>
void add(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto a = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto b = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 3.0 * elements * sizeof(T), [&] { tenon::add<T, 2>(ctx, out, a, b); });
}

template <class T>
void add_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto a = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto b = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 3.0 * elements * sizeof(T), [&] {
    for (std::int64_t i = 0; i < tokens * dim; ++i) {
      out.data()[i] = T(static_cast<float>(a.data()[i]) + static_cast<float>(b.data()[i]));
    }
  });
}

template <class T>
void swiglu(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto gate = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto up = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 3.0 * elements * sizeof(T), [&] { tenon::swiglu<T, 2>(ctx, out, gate, up); });
}

template <class T>
void swiglu_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto gate = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto up = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 3.0 * elements * sizeof(T), [&] {
    for (std::int64_t i = 0; i < tokens * dim; ++i) {
      const float x = gate.data()[i];
      out.data()[i] = T(static_cast<float>(T(x / (1.0f + std::exp(-x)))) * static_cast<float>(up.data()[i]));
    }
  });
}

template <class T>
void rms_norm(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto in = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto weight = random_tensor<T, 1>(ctx, {dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 2.0 * elements * sizeof(T), [&] { tenon::rms_norm<T>(ctx, out, in, weight, 1e-6); });
}

template <class T>
void rms_norm_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto in = random_tensor<T, 2>(ctx, {tokens, dim});
  const auto weight = random_tensor<T, 1>(ctx, {dim});
  const auto out = random_tensor<T, 2>(ctx, {tokens, dim});
  measure_bytes(state, ctx, 2.0 * elements * sizeof(T), [&] {
    for (std::int64_t t = 0; t < tokens; ++t) {
      float sum = 0.0f;
      for (std::int64_t i = 0; i < dim; ++i) sum += static_cast<float>(in(t, i)) * static_cast<float>(in(t, i));
      const float scale = 1.0f / std::sqrt(sum / static_cast<float>(dim) + 1e-6f);
      for (std::int64_t i = 0; i < dim; ++i) {
        out(t, i) = T(static_cast<float>(T(static_cast<float>(in(t, i)) * scale)) * static_cast<float>(weight(i)));
      }
    }
  });
}

constexpr std::int64_t heads = 28;
constexpr std::int64_t head_dim = 128;
constexpr double head_elements = static_cast<double>(tokens * heads * head_dim);

template <class T>
void rope(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto x = random_tensor<T, 3>(ctx, {tokens, heads, head_dim});
  const auto cos = random_tensor<float, 2>(ctx, {tokens, head_dim / 2});
  const auto sin = random_tensor<float, 2>(ctx, {tokens, head_dim / 2});
  measure_bytes(state, ctx, 2.0 * head_elements * sizeof(T), [&] { tenon::rope<T>(ctx, x, x, cos, sin); });
}

template <class T>
void rope_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto x = random_tensor<T, 3>(ctx, {tokens, heads, head_dim});
  const auto cos = random_tensor<float, 2>(ctx, {tokens, head_dim / 2});
  const auto sin = random_tensor<float, 2>(ctx, {tokens, head_dim / 2});
  measure_bytes(state, ctx, 2.0 * head_elements * sizeof(T), [&] {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < head_dim / 2; ++i) {
          const float c = T(cos(t, i));
          const float s = T(sin(t, i));
          const float a = x(t, h, i);
          const float b = x(t, h, i + head_dim / 2);
          x(t, h, i) = T(static_cast<float>(T(a * c)) - static_cast<float>(T(b * s)));
          x(t, h, i + head_dim / 2) = T(static_cast<float>(T(b * c)) + static_cast<float>(T(a * s)));
        }
      }
    }
  });
}

constexpr std::int64_t vocabulary = 151936;

template <class T>
void argmax(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto in = random_tensor<T, 2>(ctx, {64, vocabulary});
  const auto index = random_tensor<std::int64_t, 2>(ctx, {64, 1});
  const auto value = random_tensor<T, 2>(ctx, {64, 1});
  measure_bytes(state, ctx, 64.0 * vocabulary * sizeof(T), [&] { tenon::argmax<T, 2>(ctx, index, value, in); });
}

template <class T>
void argmax_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto in = random_tensor<T, 2>(ctx, {64, vocabulary});
  measure_bytes(state, ctx, 64.0 * vocabulary * sizeof(T), [&] {
    for (std::int64_t t = 0; t < 64; ++t) {
      std::int64_t best = 0;
      for (std::int64_t i = 1; i < vocabulary; ++i) {
        if (static_cast<float>(in(t, i)) > static_cast<float>(in(t, best))) best = i;
      }
      benchmark::DoNotOptimize(best);
    }
  });
}

template <class T, class W>
void embedding(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto weight = random_tensor<W, 2>(ctx, {32768, 896});
  const auto index = random_tensor<std::int64_t, 1>(ctx, {tokens});
  for (std::int64_t i = 0; i < tokens; ++i) index(i) = i * 7919 % 32768;
  const auto out = random_tensor<T, 2>(ctx, {tokens, 896});
  measure_bytes(state, ctx, static_cast<double>(tokens * 896) * (sizeof(T) + sizeof(W)),
                [&] { tenon::embedding<T, W>(ctx, out, index, weight); });
}

template <class T, class W>
void embedding_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto weight = random_tensor<W, 2>(ctx, {32768, 896});
  const auto out = random_tensor<T, 2>(ctx, {tokens, 896});
  measure_bytes(state, ctx, static_cast<double>(tokens * 896) * (sizeof(T) + sizeof(W)), [&] {
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t i = 0; i < 896; ++i) out(t, i) = T(static_cast<float>(weight(t * 7919 % 32768, i)));
    }
  });
}

template <class T>
void rearrange(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto in = random_tensor<T, 2>(ctx, {4096, 4096});
  const auto out = random_tensor<T, 2>(ctx, {4096, 4096});
  measure_bytes(state, ctx, 2.0 * 4096 * 4096 * sizeof(T),
                [&] { tenon::rearrange<T, 2>(ctx, out, tenon::View<const T, 2>(in).transpose(0, 1)); });
}

template <class T>
void rearrange_copy(benchmark::State& state) {
  bench::CpuContext ctx;
  const auto in = random_tensor<T, 2>(ctx, {4096, 4096});
  const auto out = random_tensor<T, 2>(ctx, {4096, 4096});
  measure_bytes(state, ctx, 2.0 * 4096 * 4096 * sizeof(T), [&] { tenon::rearrange<T, 2>(ctx, out, in); });
}

template <class T>
void rearrange_loop(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto in = random_tensor<T, 2>(ctx, {4096, 4096});
  const auto out = random_tensor<T, 2>(ctx, {4096, 4096});
  measure_bytes(state, ctx, 2.0 * 4096 * 4096 * sizeof(T), [&] {
    for (std::int64_t i = 0; i < 4096; ++i) {
      for (std::int64_t j = 0; j < 4096; ++j) out(i, j) = in(j, i);
    }
  });
}

using tenon::float16;

BENCHMARK(add<float>)->Name("add/float32/2048x4864")->UseRealTime();
BENCHMARK(add<bfloat16>)->Name("add/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(add<float16>)->Name("add/float16/2048x4864")->UseRealTime();
BENCHMARK(add_loop<float>)->Name("add_loop/float32/2048x4864")->UseRealTime();
BENCHMARK(add_loop<bfloat16>)->Name("add_loop/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(swiglu<float>)->Name("swiglu/float32/2048x4864")->UseRealTime();
BENCHMARK(swiglu<bfloat16>)->Name("swiglu/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(swiglu<float16>)->Name("swiglu/float16/2048x4864")->UseRealTime();
BENCHMARK(swiglu_loop<float>)->Name("swiglu_loop/float32/2048x4864")->UseRealTime();
BENCHMARK(swiglu_loop<bfloat16>)->Name("swiglu_loop/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(rms_norm<float>)->Name("rms_norm/float32/2048x4864")->UseRealTime();
BENCHMARK(rms_norm<bfloat16>)->Name("rms_norm/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(rms_norm<float16>)->Name("rms_norm/float16/2048x4864")->UseRealTime();
BENCHMARK(rms_norm_loop<float>)->Name("rms_norm_loop/float32/2048x4864")->UseRealTime();
BENCHMARK(rms_norm_loop<bfloat16>)->Name("rms_norm_loop/bfloat16/2048x4864")->UseRealTime();
BENCHMARK(rope<float>)->Name("rope/float32/2048x28x128")->UseRealTime();
BENCHMARK(rope<bfloat16>)->Name("rope/bfloat16/2048x28x128")->UseRealTime();
BENCHMARK(rope_loop<float>)->Name("rope_loop/float32/2048x28x128")->UseRealTime();
BENCHMARK(rope_loop<bfloat16>)->Name("rope_loop/bfloat16/2048x28x128")->UseRealTime();
BENCHMARK(argmax<float>)->Name("argmax/float32/64x151936")->UseRealTime();
BENCHMARK(argmax<bfloat16>)->Name("argmax/bfloat16/64x151936")->UseRealTime();
BENCHMARK(argmax_loop<float>)->Name("argmax_loop/float32/64x151936")->UseRealTime();
BENCHMARK(argmax_loop<bfloat16>)->Name("argmax_loop/bfloat16/64x151936")->UseRealTime();
BENCHMARK(embedding<float, float>)->Name("embedding/float32/2048x896")->UseRealTime();
BENCHMARK(embedding<bfloat16, bfloat16>)->Name("embedding/bfloat16/2048x896")->UseRealTime();
BENCHMARK(embedding<float, bfloat16>)->Name("embedding/bfloat16_to_float32/2048x896")->UseRealTime();
BENCHMARK(embedding<float, float16>)->Name("embedding/float16_to_float32/2048x896")->UseRealTime();
BENCHMARK(embedding_loop<float, bfloat16>)->Name("embedding_loop/bfloat16_to_float32/2048x896")->UseRealTime();
BENCHMARK(rearrange_copy<float>)->Name("rearrange/float32/copy 4096x4096")->UseRealTime();
BENCHMARK(rearrange<float>)->Name("rearrange/float32/transpose 4096x4096")->UseRealTime();
BENCHMARK(rearrange<bfloat16>)->Name("rearrange/bfloat16/transpose 4096x4096")->UseRealTime();
BENCHMARK(rearrange_loop<float>)->Name("rearrange_loop/float32/transpose 4096x4096")->UseRealTime();
BENCHMARK(rearrange_loop<bfloat16>)->Name("rearrange_loop/bfloat16/transpose 4096x4096")->UseRealTime();

}  // namespace
