// linear against sums in double, in every dtype and at every instruction set that this processor has.
#include <tenon/ops/linear.hpp>

#include <tenon/runtime/context.hpp>
#include <tenon/tensor/tensor.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::float16;
using tenon::SimdLevel;
using tenon::Sizes;
using tenon::Tensor;
using tenon::View;

template <class T, class W>
struct Types {
  using Element = T;
  using Weight = W;
};

// Half a unit in the last place of 1.
template <class T>
double rounding() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-53;
  if constexpr (std::is_same_v<T, float>) return 0x1p-24;
  if constexpr (std::is_same_v<T, bfloat16>) return 0x1p-8;
  return 0x1p-11;
}

std::vector<SimdLevel> levels() {
  std::vector<SimdLevel> result;
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512}) {
    if (level <= tenon::detect_simd_level()) result.push_back(level);
  }
  return result;
}

// Uniform in [-1, 1], in steps that no dtype here represents all of.
class Noise {
 public:
  explicit Noise(std::uint32_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 1664525u + 1013904223u;
    return static_cast<double>(state_ >> 8) / 0x1p23 - 1.0;
  }

 private:
  std::uint32_t state_;
};

template <class T, std::size_t Rank>
Tensor<T, Rank> make(Context<Cpu>& ctx, const Sizes<Rank>& sizes) {
  return tenon::detail::allocate_tensor<T>(ctx, sizes);
}

template <class T>
void fill(const View<T, 2>& view, std::uint32_t seed) {
  Noise noise(seed);
  for (std::int64_t i = 0; i < view.size(0); ++i) {
    for (std::int64_t j = 0; j < view.size(1); ++j) view(i, j) = static_cast<T>(noise.next());
  }
}

template <class T>
Tensor<T, 2> noise(Context<Cpu>& ctx, std::int64_t rows, std::int64_t columns, std::uint32_t seed) {
  auto result = make<T>(ctx, Sizes<2>{rows, columns});
  fill(View<T, 2>(result), seed);
  return result;
}

template <class T>
Tensor<T, 1> noise(Context<Cpu>& ctx, std::int64_t count, std::uint32_t seed) {
  return noise<T>(ctx, 1, count, seed).select(0, 0);
}

template <class T>
Tensor<T, 2> constant(Context<Cpu>& ctx, std::int64_t rows, std::int64_t columns, double value) {
  auto result = make<T>(ctx, Sizes<2>{rows, columns});
  std::fill_n(result.data(), result.numel(), static_cast<T>(value));
  return result;
}

// The largest error of `out` in units of what rounding allows: one rounding to T of the result, and one rounding of the
// accumulator for each of the k + 1 terms. That many is the bound; independent ones add up to about the square root.
template <class T, class W>
double error_ratio(const View<T, 2>& out, const View<const T, 2>& in, const View<const W, 2>& weight,
                   const std::optional<View<const W, 1>>& bias) {
  double worst = 0;
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t j = 0; j < out.size(1); ++j) {
      double sum = bias ? static_cast<double>((*bias)(j)) : 0.0;
      double magnitude = std::abs(sum);
      for (std::int64_t p = 0; p < in.size(1); ++p) {
        const double product = static_cast<double>(in(i, p)) * static_cast<double>(weight(j, p));
        sum += product;
        magnitude += std::abs(product);
      }
      const auto k = static_cast<double>(in.size(1));
      const double terms = std::min(k + 1.0, 8.0 + std::sqrt(k));
      const double allowed = rounding<T>() * std::abs(sum) + terms * rounding<tenon::accumulator_t<T>>() * magnitude;
      const double error = std::abs(static_cast<double>(out(i, j)) - sum);
      if (error > 0 || std::isnan(error))
        worst = std::max(worst, std::isnan(error) ? 1e30 : error / (allowed + 1e-300));
    }
  }
  return worst;
}

template <class T>
bool same_bits(const View<const T, 2>& a, const View<const T, 2>& b) {
  if (a.sizes() != b.sizes()) return false;
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < a.size(1); ++j) {
      if (std::memcmp(a.ptr(i, j), b.ptr(i, j), sizeof(T)) != 0) return false;
    }
  }
  return true;
}

template <class T, class W>
Tensor<T, 2> product(Context<Cpu>& ctx, const Tensor<T, 2>& in, const Tensor<W, 2>& weight,
                     std::optional<View<const W, 1>> bias = std::nullopt) {
  auto out = constant<T>(ctx, in.size(0), weight.size(0), 99.0);
  tenon::linear(ctx, View<T, 2>(out), in, View<W, 2>(weight), bias);
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("linear equals sums in double over odd, unit and empty sizes", "[linear]", (Types<float, float>),
                   (Types<double, double>), (Types<float16, float16>), (Types<bfloat16, bfloat16>),
                   (Types<float, float16>), (Types<float, bfloat16>)) {
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cpu> ctx(2);
  const std::vector<Sizes<3>> shapes{
      {0, 5, 7},    {5, 0, 7},    {5, 7, 0},   {1, 1, 1},     {1, 64, 128}, {1, 67, 33},   {2, 5, 15},    {3, 4, 16},
      {4, 9, 17},   {5, 130, 40}, {8, 3, 100}, {12, 65, 31},  {13, 1, 9},   {13, 14, 256}, {16, 15, 257}, {17, 33, 64},
      {32, 6, 300}, {33, 29, 48}, {47, 70, 5}, {65, 113, 20}, {130, 64, 8}, {290, 16, 3}};
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const bool invariant : {false, true}) {
      ctx.set_batch_invariant(invariant);
      for (const auto& [m, n, k] : shapes) {
        CAPTURE(tenon::simd_level_name(level), invariant, m, n, k);
        const auto in = noise<T>(ctx, m, k, 1);
        const auto weight = noise<W>(ctx, n, k, 2);
        const auto bias = noise<W>(ctx, n, 3);
        CHECK(error_ratio<T, W>(product<T, W>(ctx, in, weight), in, weight, std::nullopt) <= 1.0);
        CHECK(error_ratio<T, W>(product<T, W>(ctx, in, weight, bias), in, weight, bias) <= 1.0);
      }
    }
  }
}

TEMPLATE_TEST_CASE("linear takes operands of any strides", "[linear]", (Types<float, float>), (Types<double, double>),
                   (Types<bfloat16, bfloat16>), (Types<float, float16>)) {
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cpu> ctx(2);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 7, 21}) {
      const std::int64_t n = 83;
      const std::int64_t k = 37;
      const std::vector<Tensor<T, 2>> ins{noise<T>(ctx, k, m, 1).transpose(0, 1),
                                          noise<T>(ctx, m + 2, k + 5, 2).slice(0, 2, m + 2).slice(1, 3, k + 3),
                                          noise<T>(ctx, m, 2 * k, 3).slice(1, 0, 2 * k, 2),
                                          noise<T>(ctx, 1, k, 4).expand({m, k}), noise<T>(ctx, m, 1, 5).expand({m, k})};
      const std::vector<Tensor<W, 2>> weights{noise<W>(ctx, n, k, 6),
                                              noise<W>(ctx, k, n, 7).transpose(0, 1),
                                              noise<W>(ctx, 2 * n, k + 1, 8).slice(0, 0, 2 * n, 2).slice(1, 1, k + 1),
                                              noise<W>(ctx, n, 3 * k, 9).slice(1, 0, 3 * k, 3),
                                              noise<W>(ctx, 1, k, 10).expand({n, k}),
                                              noise<W>(ctx, n, 1, 11).expand({n, k})};
      const auto bias = noise<W>(ctx, 2 * n, 12).slice(0, 0, 2 * n, 2);
      for (std::size_t a = 0; a < ins.size(); ++a) {
        for (std::size_t b = 0; b < weights.size(); ++b) {
          CAPTURE(tenon::simd_level_name(level), m, a, b);
          // A window in a larger tensor, row-major, transposed, or every other column: nothing around it may change.
          auto memory = constant<T>(ctx, 2 * n + 4, 2 * n + 4, 7.0);
          auto window = memory.slice(0, 1, m + 1).slice(1, 2, n + 2);
          if ((a + b) % 3 == 1) window = memory.slice(1, 1, m + 1).slice(0, 2, n + 2).transpose(0, 1);
          if ((a + b) % 3 == 2) window = memory.slice(0, 1, m + 1).slice(1, 1, 2 * n + 1, 2);
          tenon::linear(ctx, View<T, 2>(window), ins[a], View<W, 2>(weights[b]), bias);
          CHECK(error_ratio<T, W>(window, ins[a], weights[b], View<const W, 1>(bias)) <= 1.0);
          CHECK(same_bits<T>(window, product<T, W>(ctx, ins[a].clone(ctx), weights[b].clone(ctx), bias.clone(ctx))));
          for (std::int64_t i = 0; i < window.size(0); ++i) {
            for (std::int64_t j = 0; j < window.size(1); ++j) window(i, j) = static_cast<T>(7.0f);
          }
          CHECK(same_bits<T>(memory, constant<T>(ctx, 2 * n + 4, 2 * n + 4, 7.0)));
        }
      }
    }
  }
}

TEST_CASE("linear reads operands with negative strides", "[linear]") {
  Context<Cpu> ctx(1);
  const auto in = noise<float>(ctx, 20, 19, 1);
  const auto weight = noise<bfloat16>(ctx, 21, 19, 2);
  const View<const float, 2> flipped_in(in.ptr(19, 18), tenon::Layout<2>({20, 19}, {-19, -1}));
  const View<const bfloat16, 2> flipped_weight(weight.ptr(20, 18), tenon::Layout<2>({21, 19}, {-19, -1}));
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {3, 20}) {
      auto out = make<float>(ctx, Sizes<2>{m, 21});
      const auto rows = flipped_in.slice(0, 0, m);
      tenon::linear(ctx, View<float, 2>(out), rows, flipped_weight, std::nullopt);
      CHECK(error_ratio<float, bfloat16>(out, rows, flipped_weight, std::nullopt) <= 1.0);
    }
  }
}

TEMPLATE_TEST_CASE("K5 K6 K7: in batch-invariant mode a row does not depend on the rows beside it", "[linear]",
                   (Types<float, float>), (Types<double, double>), (Types<float16, float16>),
                   (Types<bfloat16, bfloat16>), (Types<float, bfloat16>)) {
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cpu> ctx(2);
  ctx.set_batch_invariant(true);
  const std::int64_t most = 150;
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t k : {45, 4100}) {  // the longer one is computed in several blocks of rows
      const auto in = noise<T>(ctx, most, k, 1);
      const auto weight = noise<W>(ctx, 75, k, 2);
      const auto bias = noise<W>(ctx, 75, 3);
      const auto all = product<T, W>(ctx, in, weight, bias);
      for (const std::int64_t m : {1, 2, 3, 5, 8, 13, 44, 128}) {
        CAPTURE(tenon::simd_level_name(level), k, m);
        CHECK(same_bits<T>(product<T, W>(ctx, in.slice(0, 0, m), weight, bias), all.slice(0, 0, m)));
        CHECK(
            same_bits<T>(product<T, W>(ctx, in.slice(0, most - m, most), weight, bias), all.slice(0, most - m, most)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("K5 K8: linear gives the same bits with any number of threads, every time", "[linear]", float,
                   double, bfloat16) {
  Context<Cpu> ctx(1);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const bool invariant : {false, true}) {
      ctx.set_batch_invariant(invariant);
      for (const auto& [m, n, k] :
           {Sizes<3>{1, 1000, 130}, Sizes<3>{8, 333, 257}, Sizes<3>{70, 450, 300}, Sizes<3>{300, 20, 400}}) {
        const auto in = noise<TestType>(ctx, m, k, 1);
        const auto weight = noise<TestType>(ctx, n, k, 2);
        ctx.set_threads(1);
        const auto expected = product<TestType, TestType>(ctx, in, weight);
        for (const int threads : {1, 2, 3, 7}) {
          CAPTURE(tenon::simd_level_name(level), invariant, m, n, k, threads);
          ctx.set_threads(threads);
          CHECK(same_bits<TestType>(product<TestType, TestType>(ctx, in, weight), expected));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("linear with 16-bit weights equals the product with widened weights bit by bit", "[linear]", float16,
                   bfloat16) {
  Context<Cpu> ctx(2);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 6, 40}) {
      CAPTURE(tenon::simd_level_name(level), m);
      const auto in = noise<float>(ctx, m, 301, 1);
      const auto weight = noise<TestType>(ctx, 90, 301, 2);
      const auto bias = noise<TestType>(ctx, 90, 3);
      const auto narrow = product<float, TestType>(ctx, in, weight, bias);
      const auto wide =
          product<float, float>(ctx, in, weight.template cast<float>(ctx), bias.template cast<float>(ctx));
      CHECK(same_bits<float>(narrow, wide));
    }
  }
}

TEST_CASE("N15: a bfloat16 product of ones(1024, 1024) is 1024", "[linear]") {
  Context<Cpu> ctx(2);
  const auto ones = constant<bfloat16>(ctx, 1024, 1024, 1.0);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 100}) {
      const auto out = product<bfloat16, bfloat16>(ctx, ones.slice(0, 0, m), ones);
      CHECK(same_bits<bfloat16>(out, constant<bfloat16>(ctx, m, 1024, 1024.0)));
    }
  }
}

TEST_CASE("N17: a bfloat16 sum of 10000 uniforms does not stick", "[linear]") {
  Context<Cpu> ctx(2);
  const std::int64_t k = 10000;
  auto in = noise<bfloat16>(ctx, 20, k, 5);
  double expected = 0;
  for (std::int64_t p = 0; p < k; ++p) {
    const auto uniform = bfloat16(std::abs(static_cast<float>(in(0, p))));
    for (std::int64_t i = 0; i < 20; ++i) in(i, p) = uniform;
    expected += static_cast<double>(uniform);
  }
  REQUIRE(expected > 4000);
  const auto ones = constant<bfloat16>(ctx, 3, k, 1.0);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 20}) {
      const auto out = product<bfloat16, bfloat16>(ctx, in.slice(0, 0, m), ones);
      CHECK(std::abs(static_cast<double>(out(m - 1, 2)) - expected) <= expected * 0x1p-8);
    }
  }
}

TEST_CASE("linear rounds once, at the end, also at the ends of float16's range", "[linear]") {
  Context<Cpu> ctx(1);
  const float infinity = std::numeric_limits<float>::infinity();
  struct Case {
    std::vector<float> terms;
    float bias;
    float expected;
  };
  const std::vector<Case> cases{{{65504.0f, 15.0f}, 0.0f, 65504.0f},
                                {{65504.0f, 16.0f}, 0.0f, infinity},
                                {{65504.0f}, 16.0f, infinity},
                                {{65504.0f}, 15.0f, 65504.0f},
                                {{-65504.0f, -65504.0f}, 0.0f, -infinity},
                                {{65504.0f, 65504.0f, -65504.0f}, 0.0f, 65504.0f},
                                {{65504.0f, 65504.0f}, -65504.0f, 65504.0f},
                                {{0x1p-24f, 0x1p-24f}, 0.0f, 0x1p-23f},
                                {{2048.0f, 0.5f, 0.5f}, 0.0f, 2048.0f},   // ties to even, once
                                {{2048.0f, 0.5f, 0.5f}, 0.5f, 2050.0f}};  // the bias decides before rounding
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 15}) {
      for (const Case& c : cases) {
        const auto k = static_cast<std::int64_t>(c.terms.size());
        auto in = make<float16>(ctx, Sizes<2>{m, k});
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t p = 0; p < k; ++p) in(i, p) = float16(c.terms[static_cast<std::size_t>(p)]);
        }
        const auto ones = constant<float16>(ctx, 5, k, 1.0);
        const auto bias = constant<float16>(ctx, 1, 5, c.bias).select(0, 0);
        CAPTURE(tenon::simd_level_name(level), m, c.terms, c.bias, c.expected);
        const auto out = product<float16, float16>(ctx, in, ones, bias);
        CHECK(same_bits<float16>(out, constant<float16>(ctx, m, 5, c.expected)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("linear carries NaN and infinity to the results that they belong to, and to no other", "[linear]",
                   float, double, float16, bfloat16) {
  using T = TestType;
  Context<Cpu> ctx(2);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {3, 19}) {
      for (const std::int64_t k : {5, 35}) {
        CAPTURE(tenon::simd_level_name(level), m, k);
        auto in = constant<T>(ctx, m, k, 1.0);
        auto weight = constant<T>(ctx, 17, k, 0.25);
        in(1, k - 1) = T(nan);
        in(2, 0) = T(infinity);
        weight(16, k - 1) = T(infinity);
        weight(3, 2) = T(nan);
        const auto out = product<T, T>(ctx, in, weight);
        for (std::int64_t i = 0; i < m; ++i) {
          for (std::int64_t j = 0; j < 17; ++j) {
            const auto value = static_cast<double>(out(i, j));
            if (i == 1 || j == 3) {
              CHECK(std::isnan(value));
            } else if (i == 2 || j == 16) {
              CHECK((std::isinf(value) && value > 0));
            } else {
              CHECK(value == static_cast<double>(k) / 4);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("K14: linear takes a 10 x 24 weight", "[linear]") {
  Context<Cpu> ctx(2);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 9, 31}) {
      const auto in = noise<bfloat16>(ctx, m, 24, 1);
      const auto weight = noise<bfloat16>(ctx, 10, 24, 2);
      const auto out = product<bfloat16, bfloat16>(ctx, in, weight);
      CHECK(error_ratio<bfloat16, bfloat16>(out, in, weight, std::nullopt) <= 1.0);
    }
  }
}

TEST_CASE("linear without columns of in gives the bias, or zeros", "[linear]") {
  Context<Cpu> ctx(2);
  for (const SimdLevel level : levels()) {
    ctx.set_simd_level(level);
    for (const std::int64_t m : {1, 40}) {
      const View<const float, 2> in(nullptr, Sizes<2>{m, 0});
      const View<const float, 2> weight(nullptr, Sizes<2>{3, 0});
      auto out = constant<float>(ctx, m, 3, 5.0);
      tenon::linear(ctx, View<float, 2>(out), in, weight, std::nullopt);
      CHECK(same_bits<float>(out, constant<float>(ctx, m, 3, 0.0)));
      tenon::linear(ctx, View<float, 2>(out), in, weight, constant<float>(ctx, 1, 3, 2.5).select(0, 0));
      CHECK(same_bits<float>(out, constant<float>(ctx, m, 3, 2.5)));
    }
  }
}

TEST_CASE("linear allocates nothing after the first call, and never a copy of the weights", "[linear]") {
  Context<Cpu> ctx(2);
  for (const bool invariant : {false, true}) {
    ctx.set_batch_invariant(invariant);
    for (const std::int64_t m : {1, 300}) {
      const auto in = constant<bfloat16>(ctx, m, 64, 1.0);
      const auto weight = constant<bfloat16>(ctx, 40000, 64, 1.0);
      static_cast<void>(product<bfloat16, bfloat16>(ctx, in, weight));
      const std::size_t capacity = ctx.workspace().capacity();
      static_cast<void>(product<bfloat16, bfloat16>(ctx, in, weight));
      CHECK(ctx.workspace().capacity() == capacity);
      CHECK(capacity < 2u << 20);  // the weights have 5 MB
    }
  }
}

TEST_CASE("linear names the operator, the argument and both shapes in errors", "[linear]") {
  using Catch::Matchers::Message;
  Context<Cpu> ctx(1);
  const auto out = make<float>(ctx, Sizes<2>{2, 3});
  const auto in = make<float>(ctx, Sizes<2>{2, 4});
  const auto weight = make<float>(ctx, Sizes<2>{3, 4});
  const View<float, 2> out_view(out);
  CHECK_THROWS_MATCHES(tenon::linear(ctx, out_view, in, View<float, 2>(make<float>(ctx, Sizes<2>{3, 5})), std::nullopt),
                       tenon::ShapeError,
                       Message("linear: weight has shape (3, 5), expected (3, 4) (columns of out, columns of in)"));
  CHECK_THROWS_MATCHES(
      tenon::linear(ctx, View<float, 2>(make<float>(ctx, Sizes<2>{1, 3})), in, View<float, 2>(weight), std::nullopt),
      tenon::ShapeError, Message("linear: out has shape (1, 3), expected (2, 3) (rows of in, rows of weight)"));
  CHECK_THROWS_MATCHES(tenon::linear(ctx, out_view, in, View<float, 2>(weight), make<float>(ctx, Sizes<1>{4})),
                       tenon::ShapeError, Message("linear: bias has shape (4,), expected (3,) (rows of weight)"));
  tenon::linear(ctx, out_view, in, View<float, 2>(weight), std::nullopt);  // the context is still usable
}
