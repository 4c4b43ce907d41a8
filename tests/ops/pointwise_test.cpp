#include <tenon/ops/pointwise.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference_graph.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"
#include "support/pointwise.hpp"

using support::Form;
using support::Operand;
using support::pointwise_program;
using tenon::PointwiseProgram;
using tenon::PointwiseView;
using tenon::Sizes;

namespace {

template <class T>
using Views = std::vector<PointwiseView<const T, tenon::Cpu>>;

template <class T>
void check_programs(const std::vector<std::string>& programs, const std::vector<Sizes<4>>& shapes) {
  std::mt19937 random(1);
  for (const std::string& text : programs) {
    const PointwiseProgram program = pointwise_program(text);
    for (const Sizes<4>& sizes : shapes) {
      for (const Form form : support::all_forms) {
        std::vector<Operand<T, 4>> operands;
        Views<T> views;
        for (int i = 0; i < program.operands(); ++i) {
          const Form other = i == 0 ? form : support::all_forms[random() % support::all_forms.size()];
          operands.emplace_back(sizes, other);
          operands.back().fill(random, -3, 3);
          const tenon::View<T, 4>& view = operands.back().view();
          views.push_back({view.data(), support::sometimes_broadcast(view.layout(), random)});
        }
        const auto expected = tenon::reference::pointwise<T>(views, sizes, program);
        support::for_each_level([&](auto& ctx) {
          Operand<T, 4> out(sizes, form == Form::broadcast ? Form::contiguous : form);
          tenon::pointwise(ctx, out.view(), views, program);
          INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << text << ", "
                                      << tenon::shape_string(sizes));
          CHECK(support::mismatch(out.view(), expected, support::pointwise_tolerance<T>()) == "");
          CHECK(out.intact());
        });
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("pointwise equals its definition for every size, layout and instruction set", "[ops][pointwise]",
                   float, double, tenon::float16, tenon::bfloat16) {
  check_programs<TestType>({"0", "0r", "01+", "0s1*", "01+r2*s", "0 1 2 3 + * +", "0 1+ 2 3+ * s 0 +", "00+0*"},
                           {{1, 1, 1, 1},
                            {0, 2, 3, 4},
                            {1, 1, 1, 64},
                            {1, 1, 1, 83},
                            {2, 3, 5, 7},
                            {1, 3, 1, 300},
                            {2, 1, 2, 700},
                            {3, 1, 17, 40},
                            {1, 1, 5, 512}});
}

TEST_CASE("pointwise on integers", "[ops][pointwise]") {
  check_programs<std::int64_t>({"0", "0r", "01+", "01*r", "01+2*r3+"},
                               {{1, 1, 1, 1}, {1, 0, 1, 1}, {2, 3, 5, 7}, {1, 1, 3, 600}});
}

TEMPLATE_TEST_CASE("pointwise multiplies complex numbers", "[ops][pointwise]", float, double, tenon::float16,
                   tenon::bfloat16) {
  check_programs<TestType>({"01c", "01c2+", "01+2c", "01c2cr"},
                           {{1, 1, 1, 2}, {1, 0, 3, 2}, {1, 8, 4, 2}, {2, 3, 5, 2}, {1, 1, 513, 2}, {3, 1, 200, 2}});
}

TEMPLATE_TEST_CASE("pointwise gives the bits of its steps one by one", "[ops][pointwise]", float, double,
                   tenon::float16, tenon::bfloat16) {
  std::mt19937 random(2);
  const Sizes<4> sizes{1, 2, 3, 701};
  support::for_each_level([&](auto& ctx) {
    Operand<TestType, 4> a(sizes), b(sizes), c(sizes), all(sizes), one(sizes);
    a.fill(random);
    b.fill(random);
    c.fill(random);
    const auto run = [&](const PointwiseView<TestType, tenon::Cpu>& out, const char* text,
                         const Views<TestType>& views) { tenon::pointwise(ctx, out, views, pointwise_program(text)); };
    run(all.view(), "01*2+s0*r", {a.view(), b.view(), c.view()});
    run(one.view(), "01*", {a.view(), b.view()});
    run(one.view(), "01+", {one.view(), c.view()});
    run(one.view(), "0s", {one.view()});
    run(one.view(), "01*", {one.view(), a.view()});
    run(one.view(), "0r", {one.view()});
    INFO(support::describe(ctx));
    CHECK(support::bits(one.view()) == support::bits(all.view()));
  });
}

TEMPLATE_TEST_CASE("pointwise in place, strided, and on several threads", "[ops][pointwise]", float, double,
                   tenon::bfloat16) {
  std::mt19937 random(3);
  const Sizes<4> sizes{4, 5, 41, 90};
  const PointwiseProgram program = pointwise_program("01*0+s");
  for (const Form form : {Form::contiguous, Form::transposed, Form::stepped, Form::reversed}) {
    Operand<TestType, 4> x(sizes, form), y(sizes), out(sizes, form);
    y.fill(random);
    support::for_each_level([&](auto& ctx) {
      x.fill(random);
      const Views<TestType> views{x.view(), y.view()};
      ctx.set_threads(1);
      tenon::pointwise(ctx, out.view(), views, program);
      ctx.set_threads(3);
      tenon::pointwise(ctx, x.view(), views, program);
      INFO(support::describe(ctx) << ", " << support::form_name(form));
      CHECK(support::bits(x.view()) == support::bits(out.view()));
      CHECK(x.intact());
    });
  }
}

TEST_CASE("pointwise past the caches gives the same bits", "[ops][pointwise]") {
  // So large that stores go past the caches, and once at an address that does not allow that.
  const std::int64_t n = tenon::detail::pointwise_stream_bytes / 4 + 1000;
  const auto memory = std::make_unique<float[]>(static_cast<std::size_t>(2 * n + 32));
  const auto offset = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory.get()) / 4 % 16);
  float* aligned = memory.get() + (16 - offset);
  float* in = aligned + n + 1;
  for (std::int64_t i = 0; i < n; ++i) in[i] = static_cast<float>(i % 1021) - 500.0f;
  const PointwiseProgram program = pointwise_program("00*0+r");
  support::for_each_level(
      [&](auto& ctx) {
        for (float* out : {aligned, aligned + 1}) {
          const Sizes<4> sizes{1, 1, 1, n};
          const PointwiseView<const float, tenon::Cpu> operand(in, sizes);
          tenon::pointwise(ctx, PointwiseView<float, tenon::Cpu>(out, sizes), {&operand, 1}, program);
          std::int64_t wrong = 0;
          for (std::int64_t i = 0; i < n; ++i) wrong += out[i] != std::max(0.0f, in[i] * in[i] + in[i]);
          CHECK(wrong == 0);
        }
      },
      2);
}

TEST_CASE("pointwise keeps NaN and infinities", "[ops][pointwise]") {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  support::for_each_level([&](auto& ctx) {
    for (const std::int64_t n : {1, 5, 40}) {
      Operand<float, 4> x({1, 1, 1, n}), out({1, 1, 1, n});
      for (const auto& [text, value, expected] : {std::tuple{"0r", nan, nan},
                                                  {"0r", -inf, 0.0},
                                                  {"0r", inf, inf},
                                                  {"0s", inf, inf},
                                                  {"0s", -inf, nan},
                                                  {"0s", nan, nan},
                                                  {"00+", inf, inf},
                                                  {"00*", -inf, inf}}) {
        x.fill([&, v = value] { return v; });
        tenon::pointwise(ctx, out.view(), Views<float>{x.view()}, pointwise_program(text));
        INFO(support::describe(ctx) << ", " << text << " of " << value);
        CHECK(support::mismatch(out.view(), std::vector<double>(static_cast<std::size_t>(n), expected), {}) == "");
      }
    }
  });
}

TEST_CASE("pointwise names what does not fit", "[ops][pointwise]") {
  using Catch::Matchers::Message;
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 4> x({1, 2, 3, 4}), y({1, 2, 4, 3});
  CHECK_THROWS_MATCHES(tenon::pointwise(ctx, x.view(), Views<float>{x.view()}, pointwise_program("01+")),
                       tenon::ValueError, Message("pointwise: the program takes 2 operands, but there are 1"));
  CHECK_THROWS_MATCHES(tenon::pointwise(ctx, x.view(), Views<float>{x.view(), y.view()}, pointwise_program("01+")),
                       tenon::ShapeError,
                       Message("pointwise: operand 1 has shape (1, 2, 4, 3), expected (1, 2, 3, 4) as out"));
  CHECK_THROWS_MATCHES(
      tenon::pointwise(ctx, x.view(), Views<float>{x.view()}, pointwise_program("00c")), tenon::ShapeError,
      Message("pointwise: out has shape (1, 2, 3, 4), and complex numbers need a last dimension of 2"));
  Operand<std::int64_t, 4> i({1, 1, 1, 2});
  for (const char* text : {"0s", "00c"}) {
    CHECK_THROWS_MATCHES(tenon::pointwise(ctx, i.view(), Views<std::int64_t>{i.view()}, pointwise_program(text)),
                         tenon::DTypeError,
                         Message("pointwise: silu and products of complex numbers need a floating-point type"));
  }
  CHECK_THROWS_MATCHES(pointwise_program("0+"), tenon::ValueError, Message("pointwise: step 1 needs two values"));
  CHECK_THROWS_MATCHES(pointwise_program("r"), tenon::ValueError, Message("pointwise: step 0 needs a value"));
  CHECK_THROWS_MATCHES(pointwise_program("01"), tenon::ValueError,
                       Message("pointwise: the program leaves 2 values instead of one"));
  CHECK_THROWS_MATCHES(pointwise_program(""), tenon::ValueError,
                       Message("pointwise: the program leaves 0 values instead of one"));
  CHECK_THROWS_MATCHES(pointwise_program("8"), tenon::ValueError, Message("pointwise: operand 8, of at most 8"));
  CHECK_THROWS_MATCHES(pointwise_program("00000++++"), tenon::ValueError,
                       Message("pointwise: a stack of 5 values, of at most 4"));
  CHECK_THROWS_MATCHES(pointwise_program("0" + std::string(32, 'r')), tenon::ValueError,
                       Message("pointwise: a program of 33 steps, of at most 32"));
}
