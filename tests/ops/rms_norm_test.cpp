#include <tenon/ops/rms_norm.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <limits>
#include <random>

#include <tenon/cpu/reference.hpp>
#include <tenon/ops/rearrange.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

// The quotient may land on the other side of a rounding to T, and so may the product: up to two units for the two-byte
// types, and the error of the mean for all.
template <class T>
support::Tolerance bound(std::int64_t dim) {
  return support::tolerance<T>(dim, 0.0, 3.0);
}

}  // namespace

TEMPLATE_TEST_CASE("rms_norm equals its definition for every size, layout and instruction set", "[ops][rms_norm]",
                   float, double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 8}, {3, 0}, {1, 15}, {2, 16}, {3, 64}, {5, 83}, {2, 1536}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> in(sizes, form);
      Operand<TestType, 1> weight({sizes[1]}, form == Form::broadcast ? Form::stepped : form);
      in.fill(random, -4, 4);
      weight.fill(random, -2, 2);
      const auto expected = tenon::reference::rms_norm(in.view(), weight.view(), 1e-6);
      support::for_each_level([&](auto& ctx) {
        Operand<TestType, 2> out(sizes, form == Form::broadcast ? Form::padded : form);
        tenon::rms_norm(ctx, out.view(), in.view(), weight.view(), 1e-6);
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << sizes[0] << " x " << sizes[1]);
        CHECK(support::mismatch(out.view(), expected, bound<TestType>(sizes[1])) == "");
        CHECK(out.intact());
        if (form != Form::broadcast) {
          Operand<TestType, 2> same(sizes, form);
          tenon::rearrange(ctx, same.view(), in.view());
          tenon::rms_norm(ctx, same.view(), same.view(), weight.view(), 1e-6);
          CHECK(support::bits(same.view()) == support::bits(out.view()));
        }
      });
    }
  }
}

TEMPLATE_TEST_CASE("N1: rms_norm rounds the quotient to T before it meets the weight", "[ops][rms_norm]",
                   tenon::float16, tenon::bfloat16) {
  // One row of ones and one other value: the quotients are known, and so are both roundings.
  std::mt19937 random(2);
  const std::int64_t dim = 96;
  Operand<TestType, 2> in({1, dim});
  Operand<TestType, 1> weight({dim});
  in.fill(random, 0.5, 3.0);
  weight.fill(random, 0.5, 3.0);
  double sum = 0.0;
  for (std::int64_t i = 0; i < dim; ++i) sum += std::pow(static_cast<float>(in.view()(0, i)), 2);
  const double norm = std::sqrt(sum / static_cast<double>(dim) + 1e-5);
  support::for_each_level([&](auto& ctx) {
    Operand<TestType, 2> out({1, dim});
    tenon::rms_norm(ctx, out.view(), in.view(), weight.view(), 1e-5);
    int differs_from_one_rounding = 0;
    for (std::int64_t i = 0; i < dim; ++i) {
      const double x = static_cast<float>(in.view()(0, i));
      const float w = static_cast<float>(weight.view()(i));
      const TestType quotient(static_cast<float>(x / norm));
      const TestType twice(static_cast<float>(quotient) * w);
      const TestType once(static_cast<float>(x / norm * static_cast<double>(w)));
      CHECK(static_cast<float>(out.view()(0, i)) == static_cast<float>(twice));
      differs_from_one_rounding += static_cast<float>(twice) != static_cast<float>(once);
    }
    CHECK(differs_from_one_rounding > 0);  // otherwise this test would not tell the two apart
  });
}

TEST_CASE("N2: the result of rms_norm has the dtype of its input, and a weight of another dtype does not compile",
          "[ops][rms_norm]") {
  using tenon::Cpu;
  using tenon::View;
  constexpr auto takes = []<class W>(std::type_identity<W>) {
    return requires(tenon::Context<Cpu> & ctx, View<tenon::bfloat16, 2> out, View<const tenon::bfloat16, 2> in,
                    View<const W, 1> weight) {
      tenon::rms_norm(ctx, out, in, weight, 1e-6);
    };
  };
  STATIC_CHECK(takes(std::type_identity<tenon::bfloat16>{}));
  STATIC_CHECK_FALSE(takes(std::type_identity<float>{}));
}

TEST_CASE("rms_norm of tiny, huge and non-finite rows", "[ops][rms_norm]") {
  support::for_each_level([&](auto& ctx) {
    Operand<float, 1> weight({40});
    weight.fill([] { return 1.0; });
    Operand<float, 2> in({1, 40});
    Operand<float, 2> out({1, 40});
    INFO(support::describe(ctx));
    for (const double value : {0.0, 1e-18, 3.0, 1e18}) {
      in.fill([&] { return value; });
      tenon::rms_norm(ctx, out.view(), in.view(), weight.view(), 1e-6);
      CHECK(support::mismatch(out.view(), tenon::reference::rms_norm(in.view(), weight.view(), 1e-6),
                              support::tolerance<float>(40, 1e-20, 3.0)) == "");
    }
    in.view()(0, 37) = std::numeric_limits<float>::quiet_NaN();
    tenon::rms_norm(ctx, out.view(), in.view(), weight.view(), 1e-6);
    for (std::int64_t i = 0; i < 40; ++i) CHECK(std::isnan(out.view()(0, i)));

    Operand<tenon::float16, 2> half({1, 40});  // squares of 60000 do not fit float16
    Operand<tenon::float16, 1> half_weight({40});
    half.fill([] { return 60000.0; });
    half_weight.fill([] { return 1.0; });
    Operand<tenon::float16, 2> half_out({1, 40});
    tenon::rms_norm(ctx, half_out.view(), half.view(), half_weight.view(), 1e-6);
    for (std::int64_t i = 0; i < 40; ++i) CHECK(static_cast<float>(half_out.view()(0, i)) == 1.0f);
  });
}

TEST_CASE("rms_norm gives the same bits with any number of threads and rows", "[ops][rms_norm]") {
  std::mt19937 random(3);
  Operand<tenon::bfloat16, 2> in({67, 896});
  Operand<tenon::bfloat16, 1> weight({896});
  in.fill(random);
  weight.fill(random);
  support::for_each_level([&](auto& ctx) {
    Operand<tenon::bfloat16, 2> all({67, 896});
    Operand<tenon::bfloat16, 2> single({67, 896});
    ctx.set_threads(1);
    for (std::int64_t i = 0; i < 67; ++i) {
      tenon::rms_norm(ctx, single.view().slice(0, i, i + 1), in.view().slice(0, i, i + 1), weight.view(), 1e-6);
    }
    ctx.set_threads(5);
    tenon::rms_norm(ctx, all.view(), in.view(), weight.view(), 1e-6);
    CHECK(support::bits(all.view()) == support::bits(single.view()));
  });
}

TEST_CASE("rms_norm refuses shapes that do not fit and an eps that is not a number of at least 0", "[ops][rms_norm]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> a({2, 3});
  Operand<float, 2> b({2, 4});
  Operand<float, 1> w({3});
  w.fill([] { return 1.0; });
  a.fill([] { return 1.0; });
  CHECK_THROWS_MATCHES(tenon::rms_norm(ctx, b.view(), a.view(), w.view(), 1e-6), tenon::ShapeError,
                       Catch::Matchers::Message("rms_norm: out has shape (2, 4), expected (2, 3) as in"));
  CHECK_THROWS_MATCHES(tenon::rms_norm(ctx, b.view(), b.view(), w.view(), 1e-6), tenon::ShapeError,
                       Catch::Matchers::Message("rms_norm: weight has shape (3,), expected (4,) (columns of in)"));
  for (const double eps : {-1e-6, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(tenon::rms_norm(ctx, a.view(), a.view(), w.view(), eps), tenon::ValueError);
  }
  CHECK_NOTHROW(tenon::rms_norm(ctx, a.view(), a.view(), w.view(), 0.0));
  CHECK(tenon::reference::elements(a.view()) == std::vector<double>(6, 1.0));
}
