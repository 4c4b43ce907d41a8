#include <tenon/ops/add_rms_norm.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <random>

#include <tenon/ops/add.hpp>
#include <tenon/ops/rearrange.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

TEMPLATE_TEST_CASE("add_rms_norm gives the bits of add and rms_norm, in every layout", "[ops][add_rms_norm]", float,
                   double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 8}, {3, 0}, {1, 15}, {3, 64}, {5, 83}, {2, 1536}}) {
    for (const Form form : support::all_forms) {
      const Form out_form = form == Form::broadcast ? Form::padded : form;
      Operand<TestType, 2> a(sizes, form);
      Operand<TestType, 2> b(sizes, support::all_forms[random() % support::all_forms.size()]);
      Operand<TestType, 1> weight({sizes[1]}, form == Form::broadcast ? Form::stepped : form);
      a.fill(random, -4, 4);
      b.fill(random, -4, 4);
      weight.fill(random);
      support::for_each_level([&](auto& ctx) {
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << sizes[0] << " x " << sizes[1]);
        Operand<TestType, 2> expected_sum(sizes);
        Operand<TestType, 2> expected(sizes);
        tenon::add(ctx, expected_sum.view(), a.view(), b.view());
        tenon::rms_norm(ctx, expected.view(), expected_sum.view(), weight.view(), 1e-6);
        Operand<TestType, 2> sum(sizes, out_form);
        Operand<TestType, 2> out(sizes, out_form);
        tenon::add_rms_norm(ctx, sum.view(), out.view(), a.view(), b.view(), weight.view(), 1e-6);
        CHECK(support::bits(sum.view()) == support::bits(expected_sum.view()));
        CHECK(support::bits(out.view()) == support::bits(expected.view()));
        CHECK(sum.intact());
        CHECK(out.intact());
        // The residual stream: the sum replaces an operand, the norm the other one.
        for (const bool swapped : {false, true}) {
          Operand<TestType, 2> stream(sizes, out_form);
          Operand<TestType, 2> branch(sizes, out_form);
          tenon::rearrange(ctx, stream.view(), a.view());
          tenon::rearrange(ctx, branch.view(), b.view());
          if (swapped) {
            tenon::add_rms_norm(ctx, branch.view(), out.view(), stream.view(), branch.view(), weight.view(), 1e-6);
            CHECK(support::bits(branch.view()) == support::bits(expected_sum.view()));
            CHECK(support::bits(out.view()) == support::bits(expected.view()));
          } else {
            tenon::add_rms_norm(ctx, stream.view(), branch.view(), stream.view(), branch.view(), weight.view(), 1e-6);
            CHECK(support::bits(stream.view()) == support::bits(expected_sum.view()));
            CHECK(support::bits(branch.view()) == support::bits(expected.view()));
          }
        }
      });
    }
  }
}

TEST_CASE("add_rms_norm checks everything before it writes anything", "[ops][add_rms_norm]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> a({2, 3});
  Operand<float, 2> sum({2, 3});
  Operand<float, 2> out({2, 3});
  Operand<float, 2> wide({2, 4});
  Operand<float, 1> weight({3});
  Operand<float, 1> long_weight({4});
  a.fill([] { return 1.0; });
  sum.fill([] { return 7.0; });
  out.fill([] { return 7.0; });
  weight.fill([] { return 1.0; });
  const auto call = [&](const auto& sum_view, const auto& out_view, const auto& a_view, const auto& b_view,
                        const auto& weight_view, double eps) {
    tenon::add_rms_norm<float>(ctx, sum_view, out_view, a_view, b_view, weight_view, eps);
  };
  using Catch::Matchers::Message;
  CHECK_THROWS_MATCHES(call(wide.view(), out.view(), a.view(), a.view(), weight.view(), 1e-6), tenon::ShapeError,
                       Message("add_rms_norm: sum has shape (2, 4), expected (2, 3) as a"));
  CHECK_THROWS_MATCHES(call(sum.view(), out.view(), a.view(), wide.view(), weight.view(), 1e-6), tenon::ShapeError,
                       Message("add_rms_norm: b has shape (2, 4), expected (2, 3) as a"));
  CHECK_THROWS_MATCHES(call(sum.view(), wide.view(), a.view(), a.view(), weight.view(), 1e-6), tenon::ShapeError,
                       Message("rms_norm: out has shape (2, 4), expected (2, 3) as in"));
  CHECK_THROWS_AS(call(sum.view(), out.view(), a.view(), a.view(), long_weight.view(), 1e-6), tenon::ShapeError);
  CHECK_THROWS_AS(call(sum.view(), out.view(), a.view(), a.view(), weight.view(), -1.0), tenon::ValueError);
  CHECK_THROWS_AS(call(sum.view(), out.view(), a.view(), a.view(), weight.view(), std::nan("")), tenon::ValueError);
  const tenon::View<float, 2> shared(out.view().data(), tenon::Layout<2>({2, 3}, {0, 1}));
  CHECK_THROWS_MATCHES(call(sum.view(), shared, a.view(), a.view(), weight.view(), 1e-6), tenon::ShapeError,
                       Message("add_rms_norm: out has shape (2, 3) with strides (0, 1), so several results would share "
                               "one element"));
  CHECK_THROWS_MATCHES(call(shared, out.view(), a.view(), a.view(), weight.view(), 1e-6), tenon::ShapeError,
                       Message("add_rms_norm: sum has shape (2, 3) with strides (0, 1), so several results would share "
                               "one element"));
  CHECK(tenon::reference::elements(sum.view()) == std::vector<double>(6, 7.0));
  CHECK(tenon::reference::elements(out.view()) == std::vector<double>(6, 7.0));
}
