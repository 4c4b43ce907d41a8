// The products of the decode step against the reference and against the operators that they stand for.
#include <tenon/cuda/decode_linear.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/cuda/graph.hpp>
#include <tenon/ops/add.hpp>
#include <tenon/ops/linear.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/swiglu.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/tensor.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Operand;
using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::float16;
using tenon::Sizes;
using tenon::Tensor;
using tenon::View;
namespace detail = tenon::detail;

namespace {

template <class T, class W>
struct Types {
  using Element = T;
  using Weight = W;
};

constexpr double eps = 1e-6;

/// How an operand lies in memory.
enum class Place {
  packed,       ///< contiguous and aligned
  spaced,       ///< rows of weights apart, aligned
  unaligned,    ///< rows of weights off any alignment
  input_moved,  ///< vectors off any alignment
};
constexpr const char* place_name(Place place) {
  constexpr const char* names[] = {"packed", "spaced", "unaligned", "input moved"};
  return names[static_cast<int>(place)];
}

/// The operands of one product, on both sides: x (k), norm (k), weight (rows, k), bias (rows), residual (rows).
template <class T, class W>
struct Operands {
  Operand<T, 2> x;
  Operand<T, 2> norm;
  Operand<W, 2> weight;
  Operand<W, 2> bias;
  Operand<T, 2> residual;
  std::vector<Tensor<T, 1, Cuda>> vectors;
  Tensor<W, 1, Cuda> weights;
  Tensor<W, 1, Cuda> biases;
  View<T, 1, Cuda> x_device;
  View<T, 1, Cuda> norm_device;
  View<T, 1, Cuda> residual_device;
  View<const W, 2, Cuda> weight_device;
  View<const W, 1, Cuda> bias_device;

  Operands(Context<Cuda>& ctx, std::int64_t rows, std::int64_t k, Place place, unsigned seed)
      : x({1, k}), norm({1, k}), weight({rows, k}), bias({1, rows}), residual({1, rows}) {
    std::minstd_rand random(seed);
    const auto noise = [&] { return static_cast<double>(random()) / 0x1p30 - 1.0; };
    const double scale = 2.0 / std::sqrt(static_cast<double>(k));  // results of about 1
    x.fill([&] { return 3 * noise(); });
    norm.fill([&] { return 1.0 + 0.5 * noise(); });
    weight.fill([&] { return scale * noise(); });
    bias.fill(noise);
    residual.fill(noise);
    const std::int64_t moved = place == Place::input_moved ? 1 : 0;
    x_device = upload(ctx, x, moved);
    norm_device = upload(ctx, norm, moved);
    residual_device = upload(ctx, residual, moved);
    const std::int64_t distance = k + (place == Place::spaced ? 8 : place == Place::unaligned ? 3 : 0);
    const std::int64_t start = place == Place::unaligned ? 1 : 0;
    weights = tenon::empty<W>(ctx, {start + rows * distance});
    const View<W, 2, Cuda> lying(weights.data() + start, tenon::Layout<2>({rows, k}, {distance, 1}));
    tenon::copy(ctx, lying, View<const W, 2>(weight.view()));
    weight_device = lying;
    biases = tenon::empty<W>(ctx, {rows});
    tenon::copy(ctx, View<W, 1, Cuda>(biases), View<const W, 1>(bias.view().select(0, 0)));
    bias_device = biases;
  }

  /// A new copy of the residual.
  [[nodiscard]] Tensor<T, 1, Cuda> sum(Context<Cuda>& ctx) const {
    auto result = tenon::empty<T>(ctx, residual_device.sizes());
    tenon::copy(ctx, View<T, 1, Cuda>(result), View<const T, 1, Cuda>(residual_device));
    return result;
  }

 private:
  View<T, 1, Cuda> upload(Context<Cuda>& ctx, const Operand<T, 2>& host, std::int64_t start) {
    const std::int64_t count = host.view().size(1);
    vectors.push_back(tenon::empty<T>(ctx, {count + start}));
    const auto view = View<T, 1, Cuda>(vectors.back()).slice(0, start, count + start);
    tenon::copy(ctx, view, View<const T, 1>(host.view().select(0, 0)));
    return view;
  }
};

/// What a product of k terms of size about 1 / sqrt(k), whose factors may lie a unit of T from where they are expected, may
/// be off by.
template <class T>
support::Tolerance bound(std::int64_t k, double roundings) {
  const double terms = 8.0 + std::sqrt(static_cast<double>(k));
  const double root = std::sqrt(static_cast<double>(k));
  const double sum = support::epsilon<tenon::accumulator_t<T>>() * terms * root;
  return {sum + 2 * support::epsilon<T>(), roundings * 0.5 * support::epsilon<T>()};
}

template <class T>
std::vector<double> numbers(Context<Cuda>& ctx, const Tensor<T, 1, Cuda>& x) {
  const auto host = x.cpu(ctx);
  return tenon::reference::elements(View<const T, 1>(host));
}
template <class T>
std::vector<std::uint64_t> bits(Context<Cuda>& ctx, const Tensor<T, 1, Cuda>& x) {
  const auto host = x.cpu(ctx);
  return support::bits(View<const T, 1>(host));
}

template <class T>
std::string mismatch(Context<Cuda>& ctx, const Tensor<T, 1, Cuda>& x, const std::vector<double>& expected,
                     support::Tolerance tolerance) {
  const auto host = x.cpu(ctx);
  return support::mismatch(View<const T, 1>(host), expected, tolerance);
}

template <class T>
View<T, 2, Cuda> as_row(const Tensor<T, 1, Cuda>& x) {
  return View<T, 1, Cuda>(x).unsqueeze(0);
}

/// A matrix in double and in rows, with the values that T holds.
template <class T>
Operand<T, 2> rounded(const std::vector<double>& values) {
  Operand<T, 2> result({1, static_cast<std::int64_t>(values.size())});
  std::size_t at = 0;
  result.fill([&] { return values[at++]; });
  return result;
}

template <class T, class W>
void check_norm_linear(Context<Cuda>& ctx, std::int64_t n, std::int64_t k, Place place, bool with_bias) {
  const Operands<T, W> o(ctx, n, k, place, 1);
  auto out = tenon::full<T>(ctx, {n}, 7.0);
  detail::decode_norm_linear<T, W>(ctx, out.data(), o.x_device.data(), o.norm_device.data(), eps, o.weight_device,
                                   with_bias ? o.bias_device.data() : nullptr);

  const auto normed = rounded<T>(tenon::reference::rms_norm(o.x.view(), o.norm.view().select(0, 0), eps));
  std::optional<View<W, 1>> bias;
  if (with_bias) bias = o.bias.view().select(0, 0);
  CHECK(mismatch(ctx, out, tenon::reference::linear(normed.view(), o.weight.view(), bias), bound<T>(k, 1)) == "");

  const auto separate_norm = tenon::empty<T>(ctx, {1, k});
  auto separate = tenon::empty<T>(ctx, {n});
  std::optional<View<const W, 1, Cuda>> offset;
  if (with_bias) offset = o.bias_device;
  tenon::rms_norm(ctx, View<T, 2, Cuda>(separate_norm), o.x_device.unsqueeze(0), o.norm_device, eps);
  tenon::linear(ctx, as_row(separate), separate_norm, o.weight_device, offset);
  CHECK(mismatch(ctx, out, numbers(ctx, separate), bound<T>(k, 2)) == "");

  auto logits = tenon::full<float>(ctx, {n}, 7.0f);
  detail::decode_logits<T, W>(ctx, logits.data(), o.x_device.data(), o.norm_device.data(), eps, o.weight_device);
  detail::decode_norm_linear<T, W>(ctx, out.data(), o.x_device.data(), o.norm_device.data(), eps, o.weight_device,
                                   nullptr);
  CHECK(bits(ctx, logits) == bits(ctx, out.template cast<float>(ctx)));
}

template <class T, class W>
void check_norm_swiglu(Context<Cuda>& ctx, std::int64_t n, std::int64_t k, Place place, bool with_bias) {
  const Operands<T, W> o(ctx, 2 * n, k, place, 2);
  auto out = tenon::full<T>(ctx, {n}, 7.0);
  detail::decode_norm_swiglu<T, W>(ctx, out.data(), o.x_device.data(), o.norm_device.data(), eps, o.weight_device,
                                   with_bias ? o.bias_device.data() : nullptr);

  const auto normed = rounded<T>(tenon::reference::rms_norm(o.x.view(), o.norm.view().select(0, 0), eps));
  std::optional<View<W, 1>> bias;
  if (with_bias) bias = o.bias.view().select(0, 0);
  const auto both = rounded<T>(tenon::reference::linear(normed.view(), o.weight.view(), bias));
  const auto expected = tenon::reference::swiglu(both.view().slice(1, 0, n), both.view().slice(1, n, 2 * n));
  // Two factors of a few units each, and their errors.
  support::Tolerance tolerance = bound<T>(k, 8);
  tolerance.absolute *= 6;
  CHECK(mismatch(ctx, out, expected, tolerance) == "");

  const auto separate_norm = tenon::empty<T>(ctx, {1, k});
  const auto separate_both = tenon::empty<T>(ctx, {1, 2 * n});
  auto separate = tenon::empty<T>(ctx, {n});
  std::optional<View<const W, 1, Cuda>> offset;
  if (with_bias) offset = o.bias_device;
  const View<T, 2, Cuda> halves(separate_both);
  tenon::rms_norm(ctx, View<T, 2, Cuda>(separate_norm), o.x_device.unsqueeze(0), o.norm_device, eps);
  tenon::linear(ctx, halves, separate_norm, o.weight_device, offset);
  tenon::swiglu(ctx, as_row(separate), halves.slice(1, 0, n), halves.slice(1, n, 2 * n));
  CHECK(mismatch(ctx, out, numbers(ctx, separate), tolerance) == "");
}

template <class T, class W>
void check_add_linear(Context<Cuda>& ctx, std::int64_t n, std::int64_t k, Place place, bool with_bias) {
  const Operands<T, W> o(ctx, n, k, place, 3);
  const auto out = o.sum(ctx);
  detail::decode_add_linear<T, W>(ctx, out.data(), o.x_device.data(), o.weight_device,
                                  with_bias ? o.bias_device.data() : nullptr);

  std::optional<View<W, 1>> bias;
  if (with_bias) bias = o.bias.view().select(0, 0);
  const auto product = rounded<T>(tenon::reference::linear(o.x.view(), o.weight.view(), bias));
  const auto expected = tenon::reference::add(o.residual.view(), product.view());
  CHECK(mismatch(ctx, out, expected, bound<T>(k, 3)) == "");

  auto separate = tenon::empty<T>(ctx, {n});
  std::optional<View<const W, 1, Cuda>> offset;
  if (with_bias) offset = o.bias_device;
  tenon::linear(ctx, as_row(separate), o.x_device.unsqueeze(0), o.weight_device, offset);
  tenon::add(ctx, View<T, 1, Cuda>(separate), o.residual_device, View<const T, 1, Cuda>(separate));
  CHECK(mismatch(ctx, out, numbers(ctx, separate), bound<T>(k, 3)) == "");
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: products of the decode step equal the separate operators", "[cuda][decode_linear]",
                   (Types<float, float>), (Types<double, double>), (Types<float16, float16>),
                   (Types<bfloat16, bfloat16>), (Types<float, float16>), (Types<float, bfloat16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  const std::vector<Sizes<2>> sizes{{1, 8},     {7, 33},     {1, 1},    {33, 64},   {40, 256},   {133, 264},
                                    {264, 896}, {600, 1536}, {5, 8960}, {50, 4864}, {300, 4096}, {5000, 64}};
  for (const auto& [n, k] : sizes) {
    for (const Place place : {Place::packed, Place::spaced, Place::unaligned, Place::input_moved}) {
      for (const bool with_bias : {false, true}) {
        if (place != Place::packed && (with_bias != (n % 2 == 0) || n * k > 200000)) continue;
        INFO("n " << n << ", k " << k << ", " << place_name(place) << (with_bias ? ", bias" : ", no bias"));
        check_norm_linear<T, W>(ctx, n, k, place, with_bias);
        check_norm_swiglu<T, W>(ctx, n, k, place, with_bias);
        check_add_linear<T, W>(ctx, n, k, place, with_bias);
      }
    }
  }
}

TEST_CASE("cuda: products of the decode step in the sizes of a model", "[cuda][decode_linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  INFO("hidden 1536, intermediate 8960");
  check_norm_linear<bfloat16, bfloat16>(ctx, 2048, 1536, Place::packed, true);
  check_norm_linear<bfloat16, bfloat16>(ctx, 9000, 1536, Place::packed, false);
  check_add_linear<bfloat16, bfloat16>(ctx, 1536, 1536, Place::packed, false);
  check_add_linear<bfloat16, bfloat16>(ctx, 1536, 8960, Place::packed, false);
  check_norm_swiglu<bfloat16, bfloat16>(ctx, 8960, 1536, Place::packed, false);
}

TEST_CASE("cuda: rows too long for shared memory are multiplied all the same", "[cuda][decode_linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  check_norm_linear<float, float>(ctx, 6, 70000, Place::packed, true);
  check_norm_swiglu<bfloat16, bfloat16>(ctx, 6, 130000, Place::packed, false);
  check_add_linear<float16, float16>(ctx, 6, 130000, Place::packed, true);
}

TEST_CASE("cuda: products of the decode step leave what lies behind their output", "[cuda][decode_linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t k = 512;
  for (const std::int64_t n : {1, 15, 131, 133, 3001}) {
    const Operands<bfloat16, bfloat16> o(ctx, 2 * n, k, Place::packed, 4);
    auto out = tenon::full<bfloat16>(ctx, {2 * n + 9}, 7.0);
    detail::decode_norm_linear<bfloat16, bfloat16>(ctx, out.data(), o.x_device.data(), o.norm_device.data(), eps,
                                                   o.weight_device, nullptr);
    auto half = tenon::full<bfloat16>(ctx, {n + 9}, 7.0);
    detail::decode_norm_swiglu<bfloat16, bfloat16>(ctx, half.data(), o.x_device.data(), o.norm_device.data(), eps,
                                                   o.weight_device, nullptr);
    INFO("n " << n);
    const auto seven = std::vector<double>(9, 7.0);
    const auto all = numbers(ctx, out);
    const auto some = numbers(ctx, half);
    CHECK(std::equal(seven.begin(), seven.end(), all.begin() + 2 * n));
    CHECK(std::equal(seven.begin(), seven.end(), some.begin() + n));
  }
}

TEST_CASE("cuda: swiglu of the decode step rounds gate, up and silu", "[cuda][decode_linear]") {
  TENON_NEEDS_CUDA();
  // One column: x / norm is 1, so that gate and up are the weights themselves plus the bias, each rounded.
  Context<Cuda> ctx;
  const std::int64_t n = 500;
  Operand<bfloat16, 2> weight({2 * n, 8});
  std::mt19937 random(5);
  weight.fill(random, -4, 4);
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    for (std::int64_t c = 1; c < 8; ++c) weight.view()(i, c) = bfloat16(0.0f);
  }
  Operand<bfloat16, 1> bias({2 * n});
  bias.fill(random, -0.01, 0.01);
  auto weight_device = tenon::empty<bfloat16>(ctx, {2 * n, 8});
  auto bias_device = tenon::empty<bfloat16>(ctx, {2 * n});
  tenon::copy(ctx, View<bfloat16, 2, Cuda>(weight_device), View<const bfloat16, 2>(weight.view()));
  tenon::copy(ctx, View<bfloat16, 1, Cuda>(bias_device), View<const bfloat16, 1>(bias.view()));
  const auto ones = tenon::ones<bfloat16>(ctx, {8});
  auto out = tenon::empty<bfloat16>(ctx, {n});
  detail::decode_norm_swiglu<bfloat16, bfloat16>(ctx, out.data(), ones.data(), ones.data(), 0.0,
                                                 View<const bfloat16, 2, Cuda>(weight_device), bias_device.data());
  std::vector<double> gate;
  std::vector<double> up;
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    const double sum = static_cast<double>(static_cast<float>(weight.view()(i, 0))) +
                       static_cast<double>(static_cast<float>(bias.view()(i)));
    (i < n ? gate : up).push_back(tenon::reference::rounded<bfloat16>(sum));
  }
  const auto actual = numbers(ctx, out);
  int differs = 0;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    const double silu = tenon::reference::rounded<bfloat16>(gate[i] / (1.0 + std::exp(-gate[i])));
    if (actual[i] != tenon::reference::rounded<bfloat16>(silu * up[i])) ++differs;
  }
  CHECK(differs <= 2);  // where silu lies between two values, the last bit of exp decides
}

TEST_CASE("cuda: NaN and infinity pass through the products of the decode step", "[cuda][decode_linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t k = 320;
  const std::int64_t n = 50;
  const auto ones = tenon::ones<float>(ctx, {k});
  Operand<float, 2> weight({n, k});
  weight.fill([] { return 0.5; });
  weight.view()(3, k - 1) = std::numeric_limits<float>::quiet_NaN();
  weight.view()(7, 0) = std::numeric_limits<float>::infinity();
  auto weight_device = tenon::empty<float>(ctx, {n, k});
  tenon::copy(ctx, View<float, 2, Cuda>(weight_device), View<const float, 2>(weight.view()));
  auto out = tenon::ones<float>(ctx, {n});
  detail::decode_add_linear<float, float>(ctx, out.data(), ones.data(), View<const float, 2, Cuda>(weight_device),
                                          nullptr);
  auto logits = tenon::ones<float>(ctx, {n});
  detail::decode_logits<float, float>(ctx, logits.data(), ones.data(), ones.data(), 0.0,
                                      View<const float, 2, Cuda>(weight_device));
  const auto sums = numbers(ctx, out);
  const auto scores = numbers(ctx, logits);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    CAPTURE(i, sums[i], scores[i]);
    if (i == 3) {
      CHECK((std::isnan(sums[i]) && std::isnan(scores[i])));
    } else if (i == 7) {
      CHECK((std::isinf(sums[i]) && std::isinf(scores[i])));
    } else {
      CHECK(sums[i] == 161.0);
      CHECK(scores[i] == 160.0);
    }
  }
}

TEMPLATE_TEST_CASE("cuda: a chain of decode products gives the same bits launched early, late, and from a graph",
                   "[cuda][decode_linear]", (Types<bfloat16, bfloat16>), (Types<float, float16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  const std::int64_t hidden = 768;
  const std::int64_t inner = 2304;
  // Kernels as small as these follow each other so closely that a missing wait shows.
  const Operands<T, W> first(ctx, hidden, hidden, Place::packed, 6);
  const Operands<T, W> up(ctx, 2 * inner, hidden, Place::packed, 7);
  const Operands<T, W> down(ctx, hidden, inner, Place::packed, 8);
  auto x = tenon::empty<T>(ctx, {hidden});
  auto middle = tenon::empty<T>(ctx, {hidden});
  auto activated = tenon::empty<T>(ctx, {inner});
  auto logits = tenon::empty<float>(ctx, {2 * inner});
  const auto chain = [&] {
    for (int layer = 0; layer < 6; ++layer) {
      detail::decode_norm_linear<T, W>(ctx, middle.data(), x.data(), first.norm_device.data(), eps, first.weight_device,
                                       first.bias_device.data());
      detail::decode_add_linear<T, W>(ctx, x.data(), middle.data(), first.weight_device, nullptr);
      detail::decode_norm_swiglu<T, W>(ctx, activated.data(), x.data(), up.norm_device.data(), eps, up.weight_device,
                                       nullptr);
      detail::decode_add_linear<T, W>(ctx, x.data(), activated.data(), down.weight_device, down.bias_device.data());
    }
    detail::decode_logits<T, W>(ctx, logits.data(), x.data(), up.norm_device.data(), eps, up.weight_device);
  };
  const auto start = [&] { tenon::copy(ctx, View<T, 1, Cuda>(x), View<const T, 1, Cuda>(first.x_device)); };
  ctx.set_dependent_launch(false);
  start();
  chain();
  const auto expected = bits(ctx, logits);
  const auto expected_x = bits(ctx, x);
  ctx.set_dependent_launch(true);
  for (int run = 0; run < 20; ++run) {
    INFO("run " << run);
    start();
    chain();
    CHECK(bits(ctx, logits) == expected);
    CHECK(bits(ctx, x) == expected_x);
  }
  detail::CudaGraph graph(ctx, [&] { chain(); });
  for (int run = 0; run < 20; ++run) {
    INFO("replay " << run);
    start();
    graph.launch(ctx);
    CHECK(bits(ctx, logits) == expected);
    CHECK(bits(ctx, x) == expected_x);
  }
}
