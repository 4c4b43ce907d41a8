// linear on CUDA against sums in double: every dtype, layout and number of rows, on each of the paths that serve them.
#include <tenon/ops/linear.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

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
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/tensor.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::OnDevice;
using support::Operand;
using support::upload;
using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::float16;
using tenon::Sizes;
using tenon::Tensor;
using tenon::View;

namespace {

template <class T, class W>
struct Types {
  using Element = T;
  using Weight = W;
};

/// The worst element in units of what rounding allows: one rounding to T of the result, and one of the accumulator for
/// each of the k + 1 terms, which add up to about the square root of their bound.
template <class T>
std::string excess(const View<T, 2>& out, const std::vector<double>& in, const std::vector<double>& weight,
                   const std::vector<double>& bias, std::int64_t k) {
  const std::int64_t m = out.size(0);
  const std::int64_t n = out.size(1);
  const double terms = std::min(static_cast<double>(k) + 1.0, 8.0 + std::sqrt(static_cast<double>(k)));
  const double rounding = 0.5 * support::epsilon<tenon::accumulator_t<T>>();
  double worst = 1.0;
  std::string text;
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(j)];
      double magnitude = std::abs(sum);
      const double* x = in.data() + i * k;
      const double* w = weight.data() + j * k;
      for (std::int64_t p = 0; p < k; ++p) {
        sum += x[p] * w[p];
        magnitude += std::abs(x[p] * w[p]);
      }
      const double allowed = 0.5 * support::epsilon<T>() * std::abs(sum) + terms * rounding * magnitude +
                             0.5 * support::denormal<T>() + 1e-300;
      const double value = tenon::reference::widened<T>(out(i, j));
      const double ratio = std::isnan(value) ? INFINITY : std::abs(value - sum) / allowed;
      if (ratio <= worst) continue;
      worst = ratio;
      text = "element (" + std::to_string(i) + ", " + std::to_string(j) + ") is " + std::to_string(value) +
             ", expected " + std::to_string(sum) + ", " + std::to_string(ratio) + " times the allowed error off";
    }
  }
  return text;
}

/// One product of operands of given forms, compared with the reference.
template <class T, class W>
void check(Context<Cuda>& ctx, std::mt19937& random, const Sizes<3>& shape, Form in_form, Form weight_form,
           Form out_form, bool with_bias) {
  const auto [m, n, k] = shape;
  Operand<T, 2> in({m, k}, in_form);
  Operand<W, 2> weight({n, k}, weight_form);
  Operand<W, 1> bias({n},
                     weight_form == Form::broadcast || weight_form == Form::transposed ? Form::stepped : weight_form);
  Operand<T, 2> out({m, n}, out_form);
  in.fill(random, -1, 1);
  weight.fill(random, -1, 1);
  bias.fill(random, -1, 1);
  const OnDevice in_device(ctx, in);
  const OnDevice weight_device(ctx, weight);
  const OnDevice bias_device(ctx, bias);
  const OnDevice out_device(ctx, out);
  std::optional<View<const W, 1, Cuda>> offset;
  if (with_bias) offset = bias_device.view();
  tenon::linear(ctx, out_device.view(), in_device.view(), weight_device.view(), offset);
  out_device.read_back(out);
  INFO("m " << m << ", n " << n << ", k " << k << ", in " << support::form_name(in_form) << ", weight "
            << support::form_name(weight_form) << ", out " << support::form_name(out_form)
            << (with_bias ? ", bias" : ", no bias"));
  const auto offsets = with_bias ? tenon::reference::elements(bias.view()) : std::vector<double>{};
  CHECK(excess<T>(out.view(), tenon::reference::elements(in.view()), tenon::reference::elements(weight.view()), offsets,
                  k) == "");
  CHECK(out.intact());
}

/// Contiguous operands in device memory, and the product of them.
template <class T, class W>
struct Product {
  Operand<T, 2> in;
  Operand<W, 2> weight;
  Operand<W, 1> bias;
  Tensor<T, 2, Cuda> in_device;
  Tensor<W, 2, Cuda> weight_device;
  Tensor<W, 1, Cuda> bias_device;

  Product(Context<Cuda>& ctx, std::int64_t m, std::int64_t n, std::int64_t k, unsigned seed)
      : in({m, k}), weight({n, k}), bias({n}) {
    std::minstd_rand random(seed);
    const auto noise = [&] { return static_cast<double>(random()) / 0x1p30 - 1.0; };
    in.fill(noise);
    weight.fill(noise);
    bias.fill(noise);
    in_device = upload(ctx, in);
    weight_device = upload(ctx, weight);
    bias_device = upload(ctx, bias);
  }
  [[nodiscard]] Tensor<T, 2, Cuda> run(Context<Cuda>& ctx, std::int64_t rows) const {
    auto out = tenon::full<T>(ctx, {rows, weight_device.size(0)}, 7.0);
    tenon::linear(ctx, View<T, 2, Cuda>(out), in_device.slice(0, 0, rows), View<const W, 2, Cuda>(weight_device),
                  View<const W, 1, Cuda>(bias_device));
    return out;
  }
  [[nodiscard]] Tensor<T, 2, Cuda> run(Context<Cuda>& ctx) const { return run(ctx, in_device.size(0)); }
};

template <class T>
std::vector<std::uint64_t> bits(Context<Cuda>& ctx, const Tensor<T, 2, Cuda>& x) {
  const auto host = x.cpu(ctx);
  return support::bits(View<const T, 2>(host));
}

template <class T>
Tensor<T, 2, Cuda> rows_of(Context<Cuda>& ctx, std::int64_t m, std::int64_t n, const std::vector<float>& row) {
  Operand<T, 2> host({m, n});
  std::size_t at = 0;
  host.fill([&] { return static_cast<double>(row[at++ % row.size()]); });
  return upload(ctx, host);
}

}  // namespace

TEMPLATE_TEST_CASE("cuda: linear equals sums in double for every number of rows", "[cuda][linear]",
                   (Types<float, float>), (Types<double, double>), (Types<float16, float16>),
                   (Types<bfloat16, bfloat16>), (Types<float, float16>), (Types<float, bfloat16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  std::mt19937 random(1);
  // Lengths around vectors of 16 bytes, warps and batches, and numbers of rows around those of blocks and tiles.
  const std::vector<Sizes<2>> matrices{{1, 1},   {1, 7},    {7, 1},     {7, 8},     {33, 7},   {33, 32},
                                       {7, 33},  {17, 264}, {1000, 33}, {33, 1000}, {1, 1000}, {1000, 1},
                                       {64, 64}, {264, 96}, {133, 520}, {5, 4096}};
  for (const std::int64_t m : {1, 2, 3, 5, 8, 9, 17, 64, 200}) {
    for (const auto& [n, k] : matrices) {
      if (m > 64 && n * k > 20000) continue;
      check<T, W>(ctx, random, {m, n, k}, Form::contiguous, Form::contiguous, Form::contiguous, (n + k + m) % 2 == 0);
    }
  }
  check<T, W>(ctx, random, {1, 1000, 1000}, Form::contiguous, Form::contiguous, Form::contiguous, true);
  check<T, W>(ctx, random, {8, 5000, 64}, Form::contiguous, Form::contiguous, Form::contiguous, true);
  check<T, W>(ctx, random, {1, 5000, 200}, Form::contiguous, Form::contiguous, Form::contiguous, false);
  check<T, W>(ctx, random, {200, 300, 264}, Form::contiguous, Form::contiguous, Form::contiguous, true);
}

TEMPLATE_TEST_CASE("cuda: linear takes operands of any strides", "[cuda][linear]", (Types<float, float>),
                   (Types<double, double>), (Types<float16, float16>), (Types<bfloat16, bfloat16>),
                   (Types<float, float16>), (Types<float, bfloat16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  std::mt19937 random(2);
  int turn = 0;
  for (const std::int64_t m : {1, 3, 8, 21}) {
    for (const Sizes<2> matrix : {Sizes<2>{83, 37}, Sizes<2>{40, 48}}) {
      for (const Form in_form : support::all_forms) {
        for (const Form weight_form : support::all_forms) {
          const Form out_form = support::writable_forms[static_cast<std::size_t>(turn++ % 5)];
          check<T, W>(ctx, random, {m, matrix[0], matrix[1]}, in_form, weight_form, out_form, turn % 3 != 0);
        }
      }
    }
  }
}

TEST_CASE("cuda: linear streams rows of weights that lie apart, aligned or not", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  for (const std::int64_t gap : {8, 4, 1}) {
    for (const std::int64_t m : {1, 4, 7, 30}) {
      const std::int64_t n = 50;
      const std::int64_t k = 256;
      Operand<bfloat16, 2> in({m, k});
      Operand<bfloat16, 2> wide({n, k + gap});
      Operand<bfloat16, 2> out({m, n});
      in.fill(random, -1, 1);
      wide.fill(random, -1, 1);
      const auto in_device = upload(ctx, in);
      const auto wide_device = upload(ctx, wide);
      auto out_device = tenon::empty<bfloat16>(ctx, {m, n});
      tenon::linear(ctx, View<bfloat16, 2, Cuda>(out_device), in_device,
                    View<const bfloat16, 2, Cuda>(wide_device.slice(1, 0, k)));
      tenon::copy(ctx, out.view(), View<const bfloat16, 2, Cuda>(out_device));
      INFO("gap " << gap << ", m " << m);
      CHECK(excess<bfloat16>(out.view(), tenon::reference::elements(in.view()),
                             tenon::reference::elements(wide.view().slice(1, 0, k)), {}, k) == "");
    }
  }
}

TEMPLATE_TEST_CASE("cuda: rows of a small product equal those of single rows", "[cuda][linear]", (Types<float, float>),
                   (Types<float16, float16>), (Types<bfloat16, bfloat16>), (Types<float, bfloat16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  for (const Sizes<2> matrix : {Sizes<2>{300, 1536}, Sizes<2>{3000, 256}, Sizes<2>{40, 8960}, Sizes<2>{20, 20000}}) {
    const std::int64_t k = matrix[1];
    const Product<T, W> product(ctx, 8, matrix[0], k, 4);
    const auto weight = tenon::reference::elements(product.weight.view());
    const auto bias = tenon::reference::elements(product.bias.view());
    for (std::int64_t m = 1; m <= 8; ++m) {
      const auto out = product.run(ctx, m).cpu(ctx);
      INFO("n " << matrix[0] << ", k " << k << ", m " << m);
      CHECK(excess<T>(View<T, 2>(out), tenon::reference::elements(product.in.view()), weight, bias, k) == "");
    }
  }
}

TEST_CASE("cuda: linear of the sizes of a model, at samples", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const Sizes<3> shape : {Sizes<3>{1, 17920, 1536}, Sizes<3>{6, 2048, 1536}, Sizes<3>{1, 1536, 8960},
                               Sizes<3>{400, 3000, 1536}, Sizes<3>{130, 1536, 8960}}) {
    const auto [m, n, k] = shape;
    const Product<bfloat16, bfloat16> product(ctx, m, n, k, 5);
    const auto out = product.run(ctx).cpu(ctx);
    INFO("m " << m << ", n " << n << ", k " << k);
    std::mt19937 random(6);
    for (int sample = 0; sample < 500; ++sample) {
      const auto i = static_cast<std::int64_t>(random() % static_cast<unsigned>(m));
      const auto j = static_cast<std::int64_t>(random() % static_cast<unsigned>(n));
      const auto one = excess<bfloat16>(View<bfloat16, 2>(out).slice(0, i, i + 1).slice(1, j, j + 1),
                                        tenon::reference::elements(product.in.view().slice(0, i, i + 1)),
                                        tenon::reference::elements(product.weight.view().slice(0, j, j + 1)),
                                        {static_cast<double>(static_cast<float>(product.bias.view()(j)))}, k);
      INFO("row " << i << ", column " << j);
      REQUIRE(one == "");
    }
  }
}

TEMPLATE_TEST_CASE("cuda: linear gives the same bits every time", "[cuda][linear]", (Types<float, float>),
                   (Types<bfloat16, bfloat16>), (Types<float16, float16>), (Types<float, bfloat16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  const Product<T, W> product(ctx, 70, 1500, 1536, 7);
  for (const std::int64_t m : {1, 2, 4, 8, 9, 70}) {
    const auto expected = bits(ctx, product.run(ctx, m));
    INFO("m " << m);
    for (int run = 0; run < 4; ++run) CHECK(bits(ctx, product.run(ctx, m)) == expected);
    Context<Cuda> other;
    ctx.synchronize();
    CHECK(bits(other, product.run(other, m)) == expected);
  }
}

TEST_CASE("cuda: linear rounds once, at the end, also at the ends of float16's range", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const float infinity = std::numeric_limits<float>::infinity();
  struct Case {
    std::vector<float> terms;
    float bias;
    float expected;
  };
  const std::vector<Case> cases{
      {{65504.0f, 15.0f}, 0.0f, 65504.0f},       {{65504.0f, 16.0f}, 0.0f, infinity},
      {{65504.0f, 0.0f}, 16.0f, infinity},       {{65504.0f, 0.0f}, 15.0f, 65504.0f},
      {{-65504.0f, -65504.0f}, 0.0f, -infinity}, {{65504.0f, 65504.0f}, -65504.0f, 65504.0f},
      {{0x1p-24f, 0x1p-24f}, 0.0f, 0x1p-23f},    {{2048.0f, 1.0f}, 0.0f, 2048.0f},  // ties to even, once
      {{2048.0f, 1.0f}, 0.5f, 2050.0f}};                                            // the bias decides before rounding
  for (const std::int64_t k : {2, 8, 64}) {
    for (const std::int64_t m : {1, 2, 4, 7, 15}) {
      for (const Case& c : cases) {
        std::vector<float> row(c.terms);
        row.resize(static_cast<std::size_t>(k), 0.0f);
        const auto in = rows_of<float16>(ctx, m, k, row);
        const auto weight = tenon::ones<float16>(ctx, {5, k});
        const auto bias = tenon::full<float16>(ctx, {5}, static_cast<double>(c.bias));
        auto out = tenon::empty<float16>(ctx, {m, 5});
        tenon::linear(ctx, View<float16, 2, Cuda>(out), in, View<const float16, 2, Cuda>(weight), bias);
        const auto host = out.cpu(ctx);
        CAPTURE(k, m, c.terms, c.bias, c.expected);
        const auto expected = tenon::full<float16>(ctx, {m, 5}, static_cast<double>(c.expected)).cpu(ctx);
        CHECK(support::bits(View<float16, 2>(host)) == support::bits(View<float16, 2>(expected)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("cuda: linear carries NaN and infinity to the results that they belong to, and to no other",
                   "[cuda][linear]", float, double, float16, bfloat16) {
  TENON_NEEDS_CUDA();
  using T = TestType;
  Context<Cuda> ctx;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  for (const std::int64_t m : {3, 4, 8, 19}) {
    for (const std::int64_t k : {5, 35, 40, 1000}) {
      Operand<T, 2> in({m, k});
      Operand<T, 2> weight({37, k});
      in.fill([] { return 1.0; });
      weight.fill([] { return 0.25; });
      in.view()(1, k - 1) = T(static_cast<float>(nan));
      in.view()(2, 0) = T(static_cast<float>(infinity));
      weight.view()(36, k - 1) = T(static_cast<float>(infinity));
      weight.view()(3, 2) = T(static_cast<float>(nan));
      const auto in_device = upload(ctx, in);
      const auto weight_device = upload(ctx, weight);
      auto out = tenon::empty<T>(ctx, {m, 37});
      tenon::linear(ctx, View<T, 2, Cuda>(out), in_device, View<const T, 2, Cuda>(weight_device));
      const auto host = out.cpu(ctx);
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < 37; ++j) {
          CAPTURE(m, k, i, j);
          const auto value = tenon::reference::widened<T>(View<T, 2>(host)(i, j));
          if (i == 1 || j == 3) {
            CHECK(std::isnan(value));
          } else if (i == 2 || j == 36) {
            CHECK((std::isinf(value) && value > 0));
          } else {
            CHECK(value == static_cast<double>(k) / 4);
          }
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("cuda: linear without columns of in gives the bias, or zeros", "[cuda][linear]",
                   (Types<float, float>), (Types<double, double>), (Types<bfloat16, bfloat16>),
                   (Types<float, float16>)) {
  TENON_NEEDS_CUDA();
  using T = typename TestType::Element;
  using W = typename TestType::Weight;
  Context<Cuda> ctx;
  for (const std::int64_t m : {1, 40}) {
    const View<const T, 2, Cuda> in(nullptr, Sizes<2>{m, 0});
    const View<const W, 2, Cuda> weight(nullptr, Sizes<2>{70, 0});
    auto out = tenon::full<T>(ctx, {m, 70}, 5.0);
    tenon::linear(ctx, View<T, 2, Cuda>(out), in, weight);
    CHECK(bits(ctx, out) == bits(ctx, tenon::zeros<T>(ctx, {m, 70})));
    const auto bias = tenon::full<W>(ctx, {70}, 2.5);
    tenon::linear(ctx, View<T, 2, Cuda>(out), in, weight, bias);
    CHECK(bits(ctx, out) == bits(ctx, tenon::full<T>(ctx, {m, 70}, 2.5)));
  }
  const View<T, 2, Cuda> nothing(nullptr, Sizes<2>{0, 3});
  tenon::linear(ctx, nothing, View<const T, 2, Cuda>(nullptr, Sizes<2>{0, 4}),
                View<const W, 2, Cuda>(nullptr, Sizes<2>{3, 4}));
  const View<T, 2, Cuda> narrow(nullptr, Sizes<2>{3, 0});
  tenon::linear(ctx, narrow, View<const T, 2, Cuda>(nullptr, Sizes<2>{3, 4}),
                View<const W, 2, Cuda>(nullptr, Sizes<2>{0, 4}));
  ctx.synchronize();
}

TEST_CASE("G10: cuda: linear reaches rows beyond 2^31 elements", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t k = 64;
  const std::int64_t distance = (std::int64_t{1} << 30) + 8;
  if (tenon::Runtime<Cuda>::free_memory() < std::size_t{8} << 30) SKIP("needs 8 GB of device memory");
  const auto memory = tenon::empty<bfloat16>(ctx, {2 * distance + k});
  const View<bfloat16, 2, Cuda> weight(memory.data(), tenon::Layout<2>({3, k}, {distance, 1}));
  for (const std::int64_t m : {1, 2, 8, 30}) {
    const Product<bfloat16, bfloat16> product(ctx, m, 3, k, 8);
    tenon::copy(ctx, weight, View<const bfloat16, 2, Cuda>(product.weight_device));
    auto out = tenon::full<bfloat16>(ctx, {m, 3}, 7.0);
    tenon::linear(ctx, View<bfloat16, 2, Cuda>(out), product.in_device, weight, product.bias_device);
    INFO("m " << m);
    const auto host = out.cpu(ctx);
    CHECK(excess<bfloat16>(View<bfloat16, 2>(host), tenon::reference::elements(product.in.view()),
                           tenon::reference::elements(product.weight.view()),
                           tenon::reference::elements(product.bias.view()), k) == "");
  }
}

TEST_CASE("cuda: linear can be recorded once its shapes have been used, and allocates nothing then", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::int64_t m : {1, 5, 40}) {
    const Product<float, bfloat16> product(ctx, m, 700, 512, 9);
    auto out = tenon::empty<float>(ctx, {700, m});  // written through its transpose, so that scratch memory is needed
    const auto transposed = View<float, 2, Cuda>(out).transpose(0, 1);
    const auto run = [&] {
      tenon::linear(ctx, transposed, product.in_device, View<const bfloat16, 2, Cuda>(product.weight_device),
                    product.bias_device);
    };
    run();
    const auto expected = bits(ctx, out);
    const std::size_t capacity = ctx.workspace().capacity();
    tenon::detail::CudaGraph graph(ctx, run);
    CHECK(ctx.workspace().capacity() == capacity);
    for (int replay = 0; replay < 3; ++replay) {
      tenon::fill(ctx, View<float, 2, Cuda>(out), 7.0f);
      graph.launch(ctx);
      INFO("m " << m << ", replay " << replay);
      CHECK(bits(ctx, out) == expected);
    }
  }
}

TEST_CASE("cuda: linear takes weights that may be written, and const ones", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto in = tenon::ones<float>(ctx, {2, 8});
  const auto weight = tenon::ones<float16>(ctx, {3, 8});
  auto out = tenon::empty<float>(ctx, {2, 3});
  tenon::linear(ctx, View<float, 2, Cuda>(out), in, View<float16, 2, Cuda>(weight));
  CHECK(bits(ctx, out) == bits(ctx, tenon::full<float>(ctx, {2, 3}, 8.0f)));
  tenon::linear(ctx, View<float, 2, Cuda>(out), in, View<const float16, 2, Cuda>(weight),
                tenon::ones<float16>(ctx, {3}));
  CHECK(bits(ctx, out) == bits(ctx, tenon::full<float>(ctx, {2, 3}, 9.0f)));
}

TEST_CASE("cuda: linear names the operator, the argument and both shapes in errors", "[cuda][linear]") {
  TENON_NEEDS_CUDA();
  using Catch::Matchers::Message;
  Context<Cuda> ctx;
  const auto view = [](std::int64_t rows, std::int64_t columns) {
    return View<float, 2, Cuda>(nullptr, Sizes<2>{rows, columns});
  };
  const View<const float, 1, Cuda> long_bias(nullptr, Sizes<1>{4});
  CHECK_THROWS_MATCHES(tenon::linear(ctx, view(2, 3), view(2, 4), view(3, 5)), tenon::ShapeError,
                       Message("linear: weight has shape (3, 5), expected (3, 4) (columns of out, columns of in)"));
  CHECK_THROWS_MATCHES(tenon::linear(ctx, view(1, 3), view(2, 4), view(3, 4)), tenon::ShapeError,
                       Message("linear: out has shape (1, 3), expected (2, 3) (rows of in, rows of weight)"));
  CHECK_THROWS_MATCHES(tenon::linear(ctx, view(2, 3), view(2, 4), view(3, 4), long_bias), tenon::ShapeError,
                       Message("linear: bias has shape (4,), expected (3,) (rows of weight)"));
  const View<float, 2, Cuda> shared(nullptr, tenon::Layout<2>({2, 3}, {0, 1}));
  CHECK_THROWS_MATCHES(
      tenon::linear(ctx, shared, view(2, 4), view(3, 4)), tenon::ShapeError,
      Message("linear: out has shape (2, 3) with strides (0, 1), so several results would share one element"));
  ctx.synchronize();
}
