#include <tenon/ops/swiglu.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

// silu is good to a few units of the accumulator and may land on the other side of its rounding to T.
template <class T>
support::Tolerance bound() {
  return {2 * support::denormal<T>(), 1.5 * support::epsilon<T>() + 4 * support::epsilon<tenon::accumulator_t<T>>()};
}

}  // namespace

TEMPLATE_TEST_CASE("swiglu equals its definition for every size, layout and instruction set", "[ops][swiglu]", float,
                   double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 8}, {3, 0}, {1, 15}, {2, 16}, {3, 64}, {5, 83}, {2, 515}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> gate(sizes, form);
      Operand<TestType, 2> up(sizes, support::all_forms[random() % support::all_forms.size()]);
      gate.fill(random, -12, 12);
      up.fill(random, -2, 2);
      const auto expected = tenon::reference::swiglu(gate.view(), up.view());
      support::for_each_level([&](auto& ctx) {
        Operand<TestType, 2> out(sizes, form == Form::broadcast ? Form::padded : form);
        tenon::swiglu(ctx, out.view(), gate.view(), up.view());
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << sizes[0] << " x " << sizes[1]);
        CHECK(support::mismatch(out.view(), expected, bound<TestType>()) == "");
        CHECK(out.intact());
      });
    }
  }
}

TEMPLATE_TEST_CASE("swiglu is accurate over the whole range of the exponential", "[ops][swiglu]", float, double,
                   tenon::float16, tenon::bfloat16) {
  support::for_each_level([&](auto& ctx) {
    const std::int64_t n = 40001;
    Operand<TestType, 1> gate({n});
    Operand<TestType, 1> up({n});
    Operand<TestType, 1> out({n});
    std::int64_t i = 0;
    gate.fill([&] { return static_cast<double>(i++ - 20000) * 0.0043; });  // -86 … 86
    up.fill([] { return 1.0; });
    tenon::swiglu(ctx, out.view(), gate.view(), up.view());
    INFO(support::describe(ctx));
    CHECK(support::mismatch(out.view(), tenon::reference::swiglu(gate.view(), up.view()), bound<TestType>()) == "");
  });
}

TEST_CASE("swiglu at the ends: zero, overflow of the exponential, infinities, NaN", "[ops][swiglu]") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> gates{0.0, -0.0, 88.0, 89.0, 1e30, 3e38, -88.0, -89.0, -104.0, -1e30, inf, 1.0};
  support::for_each_level([&](auto& ctx) {
    for (const std::int64_t repeat : {1, 5}) {
      const std::int64_t n = repeat * static_cast<std::int64_t>(gates.size());
      Operand<float, 1> gate({n});
      Operand<float, 1> up({n});
      Operand<float, 1> out({n});
      std::size_t i = 0;
      gate.fill([&] { return gates[i++ % gates.size()]; });
      up.fill([] { return 1.0; });
      tenon::swiglu(ctx, out.view(), gate.view(), up.view());
      INFO(support::describe(ctx));
      // Results below 1e-35 may be flushed: they are products with an exponential at the end of float's range.
      CHECK(support::mismatch(out.view(), tenon::reference::swiglu(gate.view(), up.view()),
                              support::Tolerance{1e-35, 1e-6}) == "");
      gate.view()(n - 1) = std::numeric_limits<float>::quiet_NaN();
      gate.view()(0) = std::numeric_limits<float>::quiet_NaN();
      tenon::swiglu(ctx, out.view(), gate.view(), up.view());
      CHECK(std::isnan(out.view()(0)));
      CHECK(std::isnan(out.view()(n - 1)));
      CHECK(std::isfinite(out.view()(1)));
    }
  });
}

TEMPLATE_TEST_CASE("swiglu rounds silu to T before the product", "[ops][swiglu]", tenon::float16, tenon::bfloat16) {
  support::for_each_level([&](auto& ctx) {
    std::mt19937 random(2);
    const std::int64_t n = 400;
    Operand<TestType, 1> gate({n});
    Operand<TestType, 1> up({n});
    Operand<TestType, 1> out({n});
    gate.fill(random, -4, 4);
    up.fill(random, -4, 4);
    tenon::swiglu(ctx, out.view(), gate.view(), up.view());
    int equal = 0;
    int differs_from_one_rounding = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double x = static_cast<float>(gate.view()(i));
      const float u = static_cast<float>(up.view()(i));
      const TestType silu(static_cast<float>(x / (1.0 + std::exp(-x))));
      const TestType twice(static_cast<float>(silu) * u);
      const TestType once(static_cast<float>(x / (1.0 + std::exp(-x)) * static_cast<double>(u)));
      equal += static_cast<float>(out.view()(i)) == static_cast<float>(twice);
      differs_from_one_rounding += static_cast<float>(twice) != static_cast<float>(once);
    }
    CHECK(equal >= n - 2);  // a silu that lies on a rounding boundary of T to 1e-7 may fall on either side
    CHECK(differs_from_one_rounding > 10);
  });
}

TEMPLATE_TEST_CASE("swiglu works in place on either operand and on several threads", "[ops][swiglu]", float,
                   tenon::bfloat16) {
  std::mt19937 random(3);
  Operand<TestType, 3> gate({3, 41, 701});
  Operand<TestType, 3> up({3, 41, 701});
  Operand<TestType, 3> out({3, 41, 701});
  support::for_each_level([&](auto& ctx) {
    gate.fill(random);
    up.fill(random);
    ctx.set_threads(1);
    tenon::swiglu(ctx, out.view(), gate.view(), up.view());
    Operand<TestType, 3> kept({3, 41, 701});
    std::copy_n(up.view().data(), up.view().numel(), kept.view().data());
    ctx.set_threads(3);
    tenon::swiglu(ctx, kept.view(), gate.view(), kept.view());
    CHECK(support::bits(kept.view()) == support::bits(out.view()));
    tenon::swiglu(ctx, gate.view(), gate.view(), up.view());
    CHECK(support::bits(gate.view()) == support::bits(out.view()));
  });
}

TEST_CASE("swiglu names shapes that differ", "[ops][swiglu]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> a({2, 3});
  Operand<float, 2> b({3, 2});
  CHECK_THROWS_MATCHES(tenon::swiglu(ctx, a.view(), b.view(), a.view()), tenon::ShapeError,
                       Catch::Matchers::Message("swiglu: gate has shape (3, 2), expected (2, 3) as out"));
  CHECK_THROWS_MATCHES(tenon::swiglu(ctx, a.view(), a.view(), b.view()), tenon::ShapeError,
                       Catch::Matchers::Message("swiglu: up has shape (3, 2), expected (2, 3) as out"));
}
