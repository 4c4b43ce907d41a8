// rms_norm and add_rms_norm on CUDA.
#include <tenon/ops/rms_norm.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/ops/add.hpp>
#include <tenon/ops/add_rms_norm.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using support::upload;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::Sizes;
using tenon::View;

namespace {

// The quotient may land on the other side of a rounding to T, and so may the product: up to two units for the two-byte
// types, and the error of the mean for all.
template <class T>
support::Tolerance bound(std::int64_t dim) {
  return support::tolerance<T>(dim, 0.0, 3.0);
}

template <class T, std::size_t Rank>
std::vector<std::uint64_t> bits(Context<Cuda>& ctx, const tenon::Tensor<T, Rank, Cuda>& x) {
  return support::bits(View<T, Rank>(x.cpu(ctx)));
}

}  // namespace

TEMPLATE_TEST_CASE("rms_norm on CUDA equals its definition for every size and layout", "[cuda][rms_norm]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<2> sizes :
       {Sizes<2>{1, 1}, {0, 8}, {3, 0}, {1, 15}, {2, 16}, {11, 64}, {5, 83}, {2, 1536}, {3, 2049}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> in(sizes, form);
      Operand<TestType, 1> weight({sizes[1]}, form == Form::broadcast ? Form::stepped : form);
      in.fill(random, -4, 4);
      weight.fill(random, -2, 2);
      INFO(support::form_name(form) << ", " << tenon::shape_string(sizes));
      Operand<TestType, 2> out(sizes, form == Form::broadcast ? Form::padded : form);
      const OnDevice in_device(ctx, in);
      const OnDevice weight_device(ctx, weight);
      const OnDevice out_device(ctx, out);
      tenon::rms_norm(ctx, out_device.view(), in_device.view(), weight_device.view(), 1e-6);
      out_device.read_back(out);
      CHECK(support::mismatch(out.view(), tenon::reference::rms_norm(in.view(), weight.view(), 1e-6),
                              bound<TestType>(sizes[1])) == "");
      CHECK(out.intact());
      // The same bits from aligned rows, and in place.
      const auto rows = upload(ctx, in);
      tenon::rms_norm(ctx, rows, rows, upload(ctx, weight), 1e-6);
      CHECK(bits(ctx, rows) == support::bits(out.view()));
      if (form == Form::broadcast) continue;
      tenon::rms_norm(ctx, in_device.view(), in_device.view(), weight_device.view(), 1e-6);
      in_device.read_back(in);
      CHECK(support::bits(in.view()) == support::bits(out.view()));
      CHECK(in.intact());
    }
  }
}

TEMPLATE_TEST_CASE("rms_norm on CUDA of short and long rows, alone and among others", "[cuda][rms_norm]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::int64_t dim : {8, 64, 128, 512, 520, 896, 4096, 8192, 8200, 16384, 16392, 20000, 33000}) {
    const std::int64_t rows = dim <= 520 ? 37 : 3;
    Operand<TestType, 2> in({rows, dim});
    Operand<TestType, 1> weight({dim});
    in.fill(random, -4, 4);
    weight.fill(random, -2, 2);
    const auto x = upload(ctx, in);
    const auto w = upload(ctx, weight);
    const auto out = tenon::empty<TestType>(ctx, {rows, dim});
    tenon::rms_norm(ctx, out, x, w, 1e-6);
    INFO("dim " << dim);
    CHECK(support::mismatch(View<TestType, 2>(out.cpu(ctx)), tenon::reference::rms_norm(in.view(), weight.view(), 1e-6),
                            bound<TestType>(dim)) == "");
    const auto expected = bits(ctx, out);
    const auto single = tenon::zeros<TestType>(ctx, {rows, dim});
    for (std::int64_t i = 0; i < rows; ++i) {
      tenon::rms_norm(ctx, single.slice(0, i, i + 1), x.slice(0, i, i + 1), w, 1e-6);
    }
    CHECK(bits(ctx, single) == expected);
    // Rows with gaps that keep them aligned, and rows that do not.
    for (const std::int64_t gap : {16, 3}) {
      const auto wide = tenon::full<TestType>(ctx, {rows, dim + gap}, 7);
      tenon::rms_norm(ctx, wide.slice(1, 0, dim), x, w, 1e-6);
      const auto result = wide.cpu(ctx);
      CHECK(support::bits(View<TestType, 2>(result.slice(1, 0, dim))) == expected);
      CHECK(tenon::reference::elements(View<TestType, 2>(result.slice(1, dim, dim + gap))) ==
            std::vector<double>(static_cast<std::size_t>(rows * gap), 7.0));
    }
  }
}

TEMPLATE_TEST_CASE("N1: rms_norm on CUDA rounds the quotient to T before it meets the weight", "[cuda][rms_norm]",
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  const std::int64_t dim = 4096;
  Operand<TestType, 2> in({1, dim});
  Operand<TestType, 1> weight({dim});
  in.fill(random, 0.5, 3.0);
  weight.fill(random, 0.5, 3.0);
  double sum = 0.0;
  for (std::int64_t i = 0; i < dim; ++i) sum += std::pow(static_cast<float>(in.view()(0, i)), 2);
  const double norm = std::sqrt(sum / static_cast<double>(dim) + 1e-5);
  const auto out = tenon::empty<TestType>(ctx, {1, dim});
  tenon::rms_norm(ctx, out, upload(ctx, in), upload(ctx, weight), 1e-5);
  const auto result = out.cpu(ctx);
  int equal = 0;
  int differs_from_one_rounding = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    const double x = static_cast<float>(in.view()(0, i));
    const float w = static_cast<float>(weight.view()(i));
    const TestType quotient(static_cast<float>(x / norm));
    const TestType twice(static_cast<float>(quotient) * w);
    const TestType once(static_cast<float>(x / norm * static_cast<double>(w)));
    equal += static_cast<float>(result(0, i)) == static_cast<float>(twice);
    differs_from_one_rounding += static_cast<float>(twice) != static_cast<float>(once);
  }
  CHECK(equal >= dim - 20);  // a quotient that lies on a rounding boundary to 1e-7 may fall on either side
  CHECK(differs_from_one_rounding > 100);
}

TEST_CASE("rms_norm on CUDA of tiny, huge and non-finite rows", "[cuda][rms_norm]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto weight = tenon::ones<float>(ctx, {40});
  Operand<float, 1> host_weight({40});
  host_weight.fill([] { return 1.0; });
  Operand<float, 2> in({1, 40});
  const auto out = tenon::empty<float>(ctx, {1, 40});
  for (const double value : {0.0, 1e-18, 3.0, 1e18}) {
    in.fill([&] { return value; });
    tenon::rms_norm(ctx, out, upload(ctx, in), weight, 1e-6);
    INFO("value " << value);
    CHECK(support::mismatch(View<float, 2>(out.cpu(ctx)),
                            tenon::reference::rms_norm(in.view(), host_weight.view(), 1e-6),
                            support::tolerance<float>(40, 1e-20, 3.0)) == "");
  }
  in.view()(0, 37) = std::numeric_limits<float>::quiet_NaN();
  tenon::rms_norm(ctx, out, upload(ctx, in), weight, 1e-6);
  const auto nan = out.cpu(ctx);
  for (std::int64_t i = 0; i < 40; ++i) CHECK(std::isnan(nan(0, i)));

  const auto half = tenon::full<tenon::float16>(ctx, {1, 40}, 60000.0);  // squares that do not fit float16
  tenon::rms_norm(ctx, half, half, tenon::ones<tenon::float16>(ctx, {40}), 1e-6);
  for (const double x : tenon::reference::elements(View<tenon::float16, 2>(half.cpu(ctx)))) CHECK(x == 1.0);
}

TEMPLATE_TEST_CASE("add_rms_norm on CUDA gives the bits of add and rms_norm, also in place", "[cuda][rms_norm]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  for (const Sizes<2> sizes :
       {Sizes<2>{1, 1}, {0, 8}, {3, 0}, {2, 15}, {13, 64}, {5, 83}, {1, 1536}, {4, 896}, {2, 8192}, {2, 16392}}) {
    for (const Form form : support::all_forms) {
      if (sizes[1] > 2000 && form != Form::contiguous && form != Form::padded) continue;
      const Form out_form = form == Form::broadcast ? Form::padded : form;
      Operand<TestType, 2> a(sizes, form);
      Operand<TestType, 2> b(sizes, support::all_forms[random() % support::all_forms.size()]);
      Operand<TestType, 1> weight({sizes[1]});
      a.fill(random, -4, 4);
      b.fill(random, -4, 4);
      weight.fill(random);
      INFO(support::form_name(form) << ", " << tenon::shape_string(sizes));
      const auto x = upload(ctx, a);
      const auto y = upload(ctx, b);
      const auto w = upload(ctx, weight);
      const auto expected_sum = tenon::empty<TestType>(ctx, sizes);
      const auto expected_out = tenon::empty<TestType>(ctx, sizes);
      tenon::add(ctx, expected_sum, x, y);
      tenon::rms_norm(ctx, expected_out, expected_sum, w, 1e-6);
      const auto sum_bits = bits(ctx, expected_sum);
      const auto out_bits = bits(ctx, expected_out);
      CHECK(support::mismatch(View<TestType, 2>(expected_sum.cpu(ctx)), tenon::reference::add(a.view(), b.view()),
                              support::tolerance<TestType>()) == "");
      {
        Operand<TestType, 2> sum(sizes, out_form);
        Operand<TestType, 2> out(sizes, out_form);
        const OnDevice a_device(ctx, a);
        const OnDevice b_device(ctx, b);
        const OnDevice sum_device(ctx, sum);
        const OnDevice out_device(ctx, out);
        tenon::add_rms_norm(ctx, sum_device.view(), out_device.view(), a_device.view(), b_device.view(), w, 1e-6);
        sum_device.read_back(sum);
        out_device.read_back(out);
        CHECK(support::bits(sum.view()) == sum_bits);
        CHECK(support::bits(out.view()) == out_bits);
        CHECK(sum.intact());
        CHECK(out.intact());
        // The sum in place of a, and the norm in place of b, with strides.
        tenon::copy(ctx, sum_device.view(), View<const TestType, 2, Cuda>(x));
        tenon::copy(ctx, out_device.view(), View<const TestType, 2, Cuda>(y));
        tenon::add_rms_norm(ctx, sum_device.view(), out_device.view(), sum_device.view(), out_device.view(), w, 1e-6);
        sum_device.read_back(sum);
        out_device.read_back(out);
        CHECK(support::bits(sum.view()) == sum_bits);
        CHECK(support::bits(out.view()) == out_bits);
      }
      // Aligned: into other tensors, and the sum in place of either operand.
      const auto sum = tenon::empty<TestType>(ctx, sizes);
      const auto out = tenon::empty<TestType>(ctx, sizes);
      tenon::add_rms_norm(ctx, sum, out, x, y, w, 1e-6);
      CHECK(bits(ctx, sum) == sum_bits);
      CHECK(bits(ctx, out) == out_bits);
      const auto branch = y.clone(ctx);
      tenon::add_rms_norm(ctx, branch, out, x, branch, w, 1e-6);
      CHECK(bits(ctx, branch) == sum_bits);
      CHECK(bits(ctx, out) == out_bits);
      tenon::add_rms_norm(ctx, x, y, x, y, w, 1e-6);
      CHECK(bits(ctx, x) == sum_bits);
      CHECK(bits(ctx, y) == out_bits);
    }
  }
}

TEST_CASE("G10: rms_norm and add_rms_norm on CUDA with rows more than 2^31 elements apart", "[cuda][rms_norm]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
  for (const std::int64_t dim : {64, 63}) {
    const View<tenon::bfloat16, 2, Cuda> far(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                             tenon::Layout<2>({2, dim}, {gap, 1}));
    Operand<tenon::bfloat16, 2> in({2, dim});
    Operand<tenon::bfloat16, 1> weight({dim});
    std::mt19937 random(5);
    in.fill(random);
    weight.fill(random);
    const auto x = upload(ctx, in);
    const auto w = upload(ctx, weight);
    tenon::copy(ctx, far, View<const tenon::bfloat16, 2, Cuda>(x));
    tenon::rms_norm(ctx, far, far, w, 1e-6);
    const auto out = tenon::empty<tenon::bfloat16>(ctx, {2, dim});
    tenon::copy(ctx, View<tenon::bfloat16, 2, Cuda>(out), View<const tenon::bfloat16, 2, Cuda>(far));
    INFO("dim " << dim);
    CHECK(support::mismatch(View<tenon::bfloat16, 2>(out.cpu(ctx)),
                            tenon::reference::rms_norm(in.view(), weight.view(), 1e-6),
                            bound<tenon::bfloat16>(dim)) == "");
    const auto expected = bits(ctx, out);
    tenon::copy(ctx, far, View<const tenon::bfloat16, 2, Cuda>(x));
    tenon::add_rms_norm(ctx, far, out, far, tenon::zeros<tenon::bfloat16>(ctx, {2, dim}), w, 1e-6);
    CHECK(bits(ctx, out) == expected);
  }
}

TEST_CASE("rms_norm and add_rms_norm on CUDA refuse what they refuse on the CPU, in the same words",
          "[cuda][rms_norm]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  const auto norm = [](auto& c, const Sizes<2>& out, const Sizes<2>& in, std::int64_t weight, double eps) {
    tenon::rms_norm(c, tenon::zeros<float>(c, out), tenon::zeros<float>(c, in), tenon::zeros<float>(c, {weight}), eps);
  };
  check([&](auto& c) { norm(c, {2, 4}, {2, 3}, 3, 1e-6); });
  check([&](auto& c) { norm(c, {2, 3}, {2, 3}, 4, 1e-6); });
  for (const double eps : {-1e-6, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check([&](auto& c) { norm(c, {2, 3}, {2, 3}, 3, eps); });
  }
  check([](auto& c) {
    tenon::rms_norm(c, tenon::zeros<float>(c, {4, 1}).expand({4, 6}), tenon::zeros<float>(c, {4, 6}),
                    tenon::zeros<float>(c, {6}), 1e-6);
  });
  const auto add_norm = [](auto& c, const Sizes<2>& sum, const Sizes<2>& out, const Sizes<2>& b, std::int64_t weight,
                           double eps) {
    tenon::add_rms_norm(c, tenon::zeros<float>(c, sum), tenon::zeros<float>(c, out), tenon::zeros<float>(c, {2, 3}),
                        tenon::zeros<float>(c, b), tenon::zeros<float>(c, {weight}), eps);
  };
  check([&](auto& c) { add_norm(c, {2, 4}, {2, 3}, {2, 3}, 3, 1e-6); });
  check([&](auto& c) { add_norm(c, {2, 3}, {2, 4}, {2, 3}, 3, 1e-6); });
  check([&](auto& c) { add_norm(c, {2, 3}, {2, 3}, {2, 4}, 3, 1e-6); });
  check([&](auto& c) { add_norm(c, {2, 3}, {2, 3}, {2, 3}, 2, 1e-6); });
  check([&](auto& c) { add_norm(c, {2, 3}, {2, 3}, {2, 3}, 3, -1.0); });
  for (const bool first : {false, true}) {
    check([&](auto& c) {
      const auto shared = tenon::zeros<float>(c, {1, 6}).expand({4, 6});
      const auto whole = tenon::zeros<float>(c, {4, 6});
      tenon::add_rms_norm(c, first ? shared : whole, first ? whole : shared, whole, whole, tenon::zeros<float>(c, {6}),
                          1e-6);
    });
  }
}
