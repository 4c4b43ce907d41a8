#include <tenon/ops/sliced_softmax.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include <tenon/cpu/reference_graph.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

tenon::View<const std::int64_t, 1> one(const std::int64_t& x) { return {&x, Sizes<1>{1}}; }

template <class T>
support::Tolerance bound(std::int64_t n) {
  auto result = support::tolerance<T>(n);
  // Arguments are rounded differences: an error of eps in 20 is one of 20 eps in the exponential. float flushes 1e-38.
  result.relative += 25 * support::epsilon<tenon::accumulator_t<T>>();
  result.absolute = 1e-35 + support::denormal<T>();
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("sliced_softmax equals its definition for every size, layout and instruction set",
                   "[ops][sliced_softmax]", float, double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<3>& sizes :
       {Sizes<3>{1, 1, 1}, {0, 2, 4}, {2, 0, 3}, {2, 3, 0}, {2, 3, 7}, {1, 2, 64}, {2, 2, 83}, {4, 2, 256}}) {
    for (const std::int64_t prefix : {std::int64_t{0}, std::int64_t{1}, sizes[2] / 2 + 1, sizes[2] - 1, sizes[2]}) {
      if (prefix < 0 || prefix > sizes[2]) continue;
      for (const Form form : support::all_forms) {
        Operand<TestType, 3> in(sizes, form);
        in.fill(random, -12, 12);
        const auto expected = tenon::reference::sliced_softmax<TestType>(in.view(), prefix);
        support::for_each_level([&](auto& ctx) {
          Operand<TestType, 3> out(sizes, form == Form::broadcast ? Form::padded : form);
          tenon::sliced_softmax(ctx, out.view(), in.view(), one(prefix));
          INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << tenon::shape_string(sizes) << ", "
                                      << prefix);
          CHECK(support::mismatch(out.view(), expected, bound<TestType>(sizes[2])) == "");
          CHECK(out.intact());
        });
      }
    }
  }
}

TEMPLATE_TEST_CASE("sliced_softmax in place and on several threads", "[ops][sliced_softmax]", float, double,
                   tenon::float16, tenon::bfloat16) {
  std::mt19937 random(2);
  for (const Form form : support::writable_forms) {
    support::for_each_level([&](auto& ctx) {
      Operand<TestType, 3> x({5, 40, 300}, form), out({5, 40, 300});
      x.fill(random);
      const std::int64_t prefix = 211;
      tenon::sliced_softmax(ctx, out.view(), x.view(), one(prefix));
      ctx.set_threads(3);
      tenon::sliced_softmax(ctx, x.view(), x.view(), one(prefix));
      INFO(support::describe(ctx) << ", " << support::form_name(form));
      CHECK(support::bits(x.view()) == support::bits(out.view()));
      CHECK(x.intact());
    });
  }
}

TEST_CASE("sliced_softmax of huge scores, infinities and NaN", "[ops][sliced_softmax]") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  support::for_each_level([&](auto& ctx) {
    for (const std::int64_t n : {3, 16, 40}) {
      INFO(support::describe(ctx) << ", " << n);
      Operand<float, 3> x({1, 1, n + 2}), out({1, 1, n + 2});
      x.fill([] { return 3e38; });
      tenon::sliced_softmax(ctx, out.view(), x.view(), one(n));
      for (std::int64_t i = 0; i < n; ++i) CHECK(out.view()(0, 0, i) == 1.0f / static_cast<float>(n));
      CHECK(out.view()(0, 0, n) == 3e38f);  // what lies behind the prefix is copied

      x.view()(0, 0, 1) = -inf;
      x.view()(0, 0, n) = nan;
      tenon::sliced_softmax(ctx, out.view(), x.view(), one(n));
      CHECK(out.view()(0, 0, 1) == 0.0f);
      CHECK(out.view()(0, 0, n - 1) == 1.0f / static_cast<float>(n - 1));
      CHECK(std::isnan(out.view()(0, 0, n)));

      for (const float bad : {nan, inf}) {
        x.view()(0, 0, 1) = bad;
        tenon::sliced_softmax(ctx, out.view(), x.view(), one(n));
        CHECK(std::isnan(out.view()(0, 0, 1)));
        CHECK(std::isnan(out.view()(0, 0, n - 1)));
      }
      x.fill([&] { return -inf; });  // no weight to share: 0 / 0
      tenon::sliced_softmax(ctx, out.view(), x.view(), one(n));
      CHECK(std::isnan(out.view()(0, 0, 0)));
    }
  });
}

TEST_CASE("sliced_softmax names what does not fit", "[ops][sliced_softmax]") {
  using Catch::Matchers::Message;
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 3> x({1, 2, 3}), y({1, 3, 2});
  const std::int64_t prefixes[] = {-1, 4};
  CHECK_THROWS_MATCHES(tenon::sliced_softmax(ctx, x.view(), y.view(), one(prefixes[0])), tenon::ShapeError,
                       Message("sliced_softmax: out has shape (1, 2, 3), expected (1, 3, 2) as in"));
  CHECK_THROWS_MATCHES(
      tenon::sliced_softmax(ctx, x.view(), x.view(), tenon::View<const std::int64_t, 1>(prefixes, Sizes<1>{2})),
      tenon::ShapeError, Message("sliced_softmax: prefix has shape (2,), expected (1,)"));
  CHECK_THROWS_MATCHES(tenon::sliced_softmax(ctx, x.view(), x.view(), one(prefixes[0])), tenon::ValueError,
                       Message("sliced_softmax: prefix is -1, not within 0 and the 3 columns"));
  CHECK_THROWS_MATCHES(tenon::sliced_softmax(ctx, x.view(), x.view(), one(prefixes[1])), tenon::ValueError,
                       Message("sliced_softmax: prefix is 4, not within 0 and the 3 columns"));
}
