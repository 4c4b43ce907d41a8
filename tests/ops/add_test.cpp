#include <tenon/ops/add.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <limits>
#include <random>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

TEMPLATE_TEST_CASE("add equals the rounded sum for every size, layout and instruction set", "[ops][add]", float, double,
                   tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 4}, {4, 0}, {1, 15}, {3, 16}, {5, 33}, {7, 131}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> a(sizes, form);
      Operand<TestType, 2> b(sizes, support::all_forms[random() % support::all_forms.size()]);
      a.fill(random, -3, 3);
      b.fill(random, -3, 3);
      const auto expected = tenon::reference::add(a.view(), b.view());
      support::for_each_level([&](auto& ctx) {
        Operand<TestType, 2> out(sizes, form == Form::broadcast ? Form::padded : form);
        tenon::add(ctx, out.view(), a.view(), b.view());
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << sizes[0] << " x " << sizes[1]);
        // One rounding of an exact float sum: half a unit in the last place (two roundings for the two-byte types).
        CHECK(support::mismatch(out.view(), expected, support::tolerance<TestType>()) == "");
        CHECK(out.intact());
      });
    }
  }
}

TEMPLATE_TEST_CASE("add works in place on either operand", "[ops][add]", float, tenon::bfloat16) {
  std::mt19937 random(2);
  for (const Form form : support::writable_forms) {
    support::for_each_level([&](auto& ctx) {
      Operand<TestType, 3> a({3, 5, 37}, form);
      Operand<TestType, 3> b({3, 5, 37}, form);
      a.fill(random);
      b.fill(random);
      const auto sum = tenon::reference::add(a.view(), b.view());
      tenon::add(ctx, a.view(), a.view(), b.view());
      CHECK(support::mismatch(a.view(), sum, support::tolerance<TestType>()) == "");
      const auto second = tenon::reference::add(b.view(), a.view());
      tenon::add(ctx, b.view(), a.view(), b.view());
      CHECK(support::mismatch(b.view(), second, support::tolerance<TestType>()) == "");
    });
  }
}

TEMPLATE_TEST_CASE("add passes on infinities and NaN, and rounds to infinity where the range ends", "[ops][add]", float,
                   tenon::float16, tenon::bfloat16) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> a_values{inf, -inf, inf, std::nan(""), 0.0, -0.0, 60000.0, 1.0};
  const std::vector<double> b_values{1.0, 1.0, -inf, 1.0, -0.0, -0.0, 60000.0, 0x1p-20};
  support::for_each_level([&](auto& ctx) {
    for (std::int64_t repeat : {1, 5}) {  // short rows take the tail, long rows the vectors
      Operand<TestType, 1> a({8 * repeat});
      Operand<TestType, 1> b({8 * repeat});
      Operand<TestType, 1> out({8 * repeat});
      std::size_t i = 0;
      a.fill([&] { return a_values[i++ % 8]; });
      i = 0;
      b.fill([&] { return b_values[i++ % 8]; });
      tenon::add(ctx, out.view(), a.view(), b.view());
      CHECK(support::mismatch(out.view(), tenon::reference::add(a.view(), b.view()), support::tolerance<TestType>()) ==
            "");
      CHECK_FALSE(std::signbit(static_cast<float>(out.view()(4))));
      CHECK(std::signbit(static_cast<float>(out.view()(5))));
    }
  });
}

TEST_CASE("add gives the same bits with one thread and with several", "[ops][add]") {
  std::mt19937 random(3);
  Operand<float, 2> a({301, 503}, Form::padded);
  Operand<float, 2> b({301, 503}, Form::transposed);
  a.fill(random);
  b.fill(random);
  Operand<float, 2> one({301, 503});
  Operand<float, 2> four({301, 503});
  tenon::Context<tenon::Cpu> single(1);
  tenon::Context<tenon::Cpu> several(4);
  tenon::add(single, one.view(), a.view(), b.view());
  tenon::add(several, four.view(), a.view(), b.view());
  CHECK(support::bits(one.view()) == support::bits(four.view()));
  CHECK(support::mismatch(four.view(), tenon::reference::add(a.view(), b.view()), support::tolerance<float>()) == "");
}

TEST_CASE("add on scalars, and shapes that differ are named", "[ops][add]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 0> a({});
  Operand<float, 0> b({});
  Operand<float, 0> out({});
  a.fill([] { return 2.0; });
  b.fill([] { return 0.5; });
  tenon::add(ctx, out.view(), a.view(), b.view());
  CHECK(*out.view().data() == 2.5f);

  Operand<float, 2> wide({2, 3});
  Operand<float, 2> narrow({2, 2});
  CHECK_THROWS_MATCHES(tenon::add(ctx, wide.view(), wide.view(), narrow.view()), tenon::ShapeError,
                       Catch::Matchers::Message("add: b has shape (2, 2), expected (2, 3) as out"));
  CHECK_THROWS_MATCHES(tenon::add(ctx, wide.view(), narrow.view(), wide.view()), tenon::ShapeError,
                       Catch::Matchers::Message("add: a has shape (2, 2), expected (2, 3) as out"));
}
