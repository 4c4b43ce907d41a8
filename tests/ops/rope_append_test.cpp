#include <tenon/ops/rope_append.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstdint>
#include <random>

#include <tenon/ops/rearrange.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

TEMPLATE_TEST_CASE("rope_append gives the bits of rope and rearrange, in every layout", "[ops][rope_append]", float,
                   double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  struct Shape {
    std::int64_t tokens, heads, kv_heads, d, dv;
  };
  for (const auto& [tokens, heads, kv_heads, d, dv] : {Shape{1, 1, 1, 2, 2},
                                                       {0, 2, 1, 8, 8},
                                                       {3, 0, 0, 8, 8},
                                                       {3, 2, 1, 0, 0},
                                                       {5, 6, 2, 46, 30},
                                                       {3, 14, 2, 64, 64}}) {
    for (const Form form : support::all_forms) {
      const Form out_form = form == Form::broadcast ? Form::padded : form;
      Operand<TestType, 3> q({tokens, heads, d}, form);
      Operand<TestType, 3> k({tokens, kv_heads, d}, support::all_forms[random() % support::all_forms.size()]);
      Operand<TestType, 3> v({tokens, kv_heads, dv}, support::all_forms[random() % support::all_forms.size()]);
      Operand<float, 2> cos({tokens, d / 2}, form);
      Operand<float, 2> sin({tokens, d / 2});
      q.fill(random);
      k.fill(random);
      v.fill(random);
      cos.fill(random, -1, 1);
      sin.fill(random, -1, 1);
      support::for_each_level([&](auto& ctx) {
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", tokens " << tokens << ", d " << d);
        Operand<TestType, 3> q_expected(q.view().sizes());
        Operand<TestType, 3> k_expected(k.view().sizes());
        tenon::rope(ctx, q_expected.view(), q.view(), cos.view(), sin.view());
        tenon::rope(ctx, k_expected.view(), k.view(), cos.view(), sin.view());
        Operand<TestType, 3> q_out(q.view().sizes(), out_form);
        Operand<TestType, 3> k_out(k.view().sizes(), out_form);
        Operand<TestType, 3> v_out(v.view().sizes(), out_form);
        tenon::rope_append(ctx, q_out.view(), k_out.view(), v_out.view(), q.view(), k.view(), v.view(), cos.view(),
                           sin.view());
        CHECK(support::bits(q_out.view()) == support::bits(q_expected.view()));
        CHECK(support::bits(k_out.view()) == support::bits(k_expected.view()));
        CHECK(support::bits(v_out.view()) == support::bits(v.view()));
        CHECK(q_out.intact());
        CHECK(k_out.intact());
        CHECK(v_out.intact());
        tenon::rearrange(ctx, q_out.view(), q.view());
        tenon::rope_append(ctx, q_out.view(), k_out.view(), v_out.view(), q_out.view(), k.view(), v.view(), cos.view(),
                           sin.view());
        CHECK(support::bits(q_out.view()) == support::bits(q_expected.view()));
      });
    }
  }
}

TEST_CASE("rope_append checks everything before it writes anything", "[ops][rope_append]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 3> q({2, 4, 8});
  Operand<float, 3> k({2, 2, 8});
  Operand<float, 3> q_out({2, 4, 8});
  Operand<float, 3> k_out({2, 2, 8});
  Operand<float, 3> v_out({2, 2, 8});
  Operand<float, 3> other({3, 2, 8});
  Operand<float, 3> odd({2, 2, 7});
  Operand<float, 2> table({2, 4});
  Operand<float, 2> narrow({2, 3});
  for (auto* x : {&q, &k, &q_out, &k_out, &v_out, &other, &odd}) x->fill([] { return 7.0; });
  table.fill([] { return 1.0; });
  narrow.fill([] { return 1.0; });
  const auto call = [&](tenon::View<float, 3> q_to, tenon::View<float, 3> k_to, tenon::View<float, 3> v_to,
                        const Operand<float, 3>& k_in, const Operand<float, 3>& v_in, const Operand<float, 2>& cos) {
    tenon::rope_append<float>(ctx, q_to, k_to, v_to, q.view(), k_in.view(), v_in.view(), cos.view(), table.view());
  };
  using Catch::Matchers::Message;
  CHECK_THROWS_MATCHES(
      call(q_out, k_out, v_out, other, k, table), tenon::ShapeError,
      Message("rope_append: k has shape (3, 2, 8), expected (2, 2, 8) (tokens of q, kv heads, last size of q)"));
  CHECK_THROWS_MATCHES(call(q_out, k_out, v_out, k, other, table), tenon::ShapeError,
                       Message("rope_append: v has shape (3, 2, 8), expected (2, 2, 8) (tokens of q, kv heads, dv)"));
  CHECK_THROWS_MATCHES(call(q_out, k_out, other, k, k, table), tenon::ShapeError,
                       Message("rope_append: v_out has shape (3, 2, 8), expected (2, 2, 8) as v"));
  CHECK_THROWS_AS(call(k_out, k_out, v_out, k, k, table), tenon::ShapeError);
  CHECK_THROWS_AS(call(q_out, odd, v_out, k, k, table), tenon::ShapeError);
  CHECK_THROWS_AS(call(q_out, k_out, v_out, k, k, narrow), tenon::ShapeError);
  const tenon::View<float, 3> shared(v_out.view().data(), tenon::Layout<3>({2, 2, 8}, {0, 8, 1}));
  CHECK_THROWS_MATCHES(call(q_out, k_out, shared, k, k, table), tenon::ShapeError,
                       Message("rope_append: v_out has shape (2, 2, 8) with strides (0, 8, 1), so several results "
                               "would share one element"));
  for (const auto* x : {&q_out, &k_out, &v_out}) {
    for (const double value : tenon::reference::elements(x->view())) CHECK(value == 7.0);
  }
}
