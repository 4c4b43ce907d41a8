#include <tenon/ops/matmul.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
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
using tenon::Sizes;

namespace {

template <class T>
using Matrices = tenon::View<const T, 3>;

template <class T>
std::string compare(const tenon::View<T, 3>& out, const std::vector<double>& expected, std::int64_t k) {
  return support::mismatch(out, expected, support::tolerance<T>(k, static_cast<double>(k) * 4.0));
}

template <class T>
void check_product(const Matrices<T>& a, const Matrices<T>& b, Form form, int threads) {
  const auto expected = tenon::reference::matmul<T>(a, b);
  const Sizes<3> sizes{a.size(0), a.size(1), b.size(2)};
  support::for_each_level(
      [&](auto& ctx) {
        Operand<T, 3> out(sizes, form);
        tenon::matmul(ctx, out.view(), a, b);
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", (" << a.size(1) << ", " << a.size(2)
                                    << ") . (" << b.size(1) << ", " << b.size(2) << "), strides of b "
                                    << tenon::shape_string(b.strides()));
        CHECK(compare(out.view(), expected, a.size(2)) == "");
        CHECK(out.intact());
      },
      threads);
}

}  // namespace

TEMPLATE_TEST_CASE("matmul equals its definition for every size and instruction set", "[ops][matmul]", float, double,
                   tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const std::int64_t m : {0, 1, 2, 3, 5, 12, 13, 20}) {
    for (const std::int64_t k : {0, 1, 7, 8, 11, 16, 17, 64, 172}) {
      for (const std::int64_t n : {0, 1, 8, 15, 64, 83, 300}) {
        if (m > 3 && k > 64 && n > 64) continue;
        Operand<TestType, 3> a({2, m, k}), rows({2, k, n}), columns({2, n, k});
        a.fill(random);
        rows.fill(random);
        columns.fill(random);
        check_product<TestType>(a.view(), rows.view(), Form::contiguous, 1);
        check_product<TestType>(a.view(), columns.view().transpose(1, 2), Form::contiguous, 1);
      }
    }
  }
}

TEMPLATE_TEST_CASE("matmul takes any strides", "[ops][matmul]", float, double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(2);
  for (const std::int64_t m : {1, 3, 14}) {
    for (const Form a_form : support::all_forms) {
      for (const Form b_form : support::all_forms) {
        Operand<TestType, 3> a({3, m, 21}, a_form), b({3, 21, 34}, b_form);
        a.fill(random);
        b.fill(random);
        const Form form = a_form == Form::broadcast ? b_form == Form::broadcast ? Form::padded : b_form : a_form;
        check_product<TestType>(a.view(), b.view(), form, 1);
        check_product<TestType>(a.view().slice(2, 3, 12), b.view().slice(1, 5, 14), Form::contiguous, 2);
      }
    }
    Operand<TestType, 3> one({1, 1, 1});
    one.fill(random);
    Operand<TestType, 3> b({3, 21, 34});
    b.fill(random);
    check_product<TestType>(one.view().expand({3, m, 21}), b.view(), Form::contiguous, 1);
    check_product<TestType>(b.view().slice(1, 0, 21), one.view().expand({3, 34, 40}), Form::contiguous, 1);
  }
}

TEMPLATE_TEST_CASE("matmul of the scores and values of an attention", "[ops][matmul]", float, double, tenon::bfloat16) {
  std::mt19937 random(3);
  for (const auto& [heads, group, dim] : {std::tuple{4, 2, 8}, {2, 4, 128}, {3, 1, 48}}) {
    Operand<TestType, 3> cache({100, heads, dim}), q({heads, group, dim}), weights({heads, group, 100});
    cache.fill(random);
    q.fill(random);
    weights.fill(random);
    check_product<TestType>(q.view(), cache.view().permute({1, 2, 0}), Form::contiguous, 2);
    check_product<TestType>(weights.view(), cache.view().permute({1, 0, 2}), Form::contiguous, 2);
  }
}

TEMPLATE_TEST_CASE("matmul of large matrices, on several threads", "[ops][matmul]", float, tenon::float16,
                   tenon::bfloat16) {
  std::mt19937 random(4);
  for (const auto& [m, k, n] : {std::tuple{1, 1500, 700}, {4, 600, 900}, {70, 300, 200}}) {
    Operand<TestType, 3> a({1, m, k}), rows({1, k, n}), columns({1, n, k});
    a.fill(random);
    rows.fill(random);
    columns.fill(random);
    check_product<TestType>(a.view(), rows.view(), Form::contiguous, 3);
    check_product<TestType>(a.view(), columns.view().transpose(1, 2), Form::contiguous, 3);
    support::for_each_level([&, m = m, n = n](auto& ctx) {
      Operand<TestType, 3> alone({1, m, n}), shared({1, m, n});
      tenon::matmul(ctx, alone.view(), a.view(), rows.view());
      ctx.set_threads(3);
      tenon::matmul(ctx, shared.view(), a.view(), rows.view());
      CHECK(support::bits(alone.view()) == support::bits(shared.view()));
    });
  }
}

TEMPLATE_TEST_CASE("matmul gives the bits of the product and then its epilogue", "[ops][matmul]", float, double,
                   tenon::float16, tenon::bfloat16) {
  std::mt19937 random(5);
  for (const PointwiseProgram& program : {pointwise_program("01+"), pointwise_program("0s2*1+r")}) {
    for (const Sizes<3>& sizes : {Sizes<3>{1, 1, 64}, {2, 3, 300}, {2, 20, 37}}) {
      for (const Form form : support::writable_forms) {
        Operand<TestType, 3> a({sizes[0], sizes[1], 30}), b({sizes[0], sizes[2], 30}), other(sizes, form);
        Operand<TestType, 3> row({1, 1, sizes[2]});
        a.fill(random);
        b.fill(random);
        other.fill(random);
        row.fill(random);
        const Matrices<TestType> right = b.view().transpose(1, 2);
        const Matrices<TestType> operands[] = {other.view(), row.view().expand(sizes)};
        const auto expected = tenon::reference::matmul<TestType>(a.view(), right, &program, operands);
        support::for_each_level([&](auto& ctx) {
          Operand<TestType, 3> plain(sizes), steps(sizes), out(sizes, form);
          tenon::matmul(ctx, plain.view(), a.view(), right);
          const tenon::PointwiseView<const TestType, tenon::Cpu> views[] = {
              plain.view().unsqueeze(0), operands[0].unsqueeze(0), operands[1].unsqueeze(0)};
          tenon::pointwise(ctx, steps.view().unsqueeze(0), views, program);
          tenon::matmul(ctx, out.view(), a.view(), right, {&program, operands});
          INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << tenon::shape_string(sizes));
          CHECK(support::bits(out.view()) == support::bits(steps.view()));
          CHECK(support::mismatch(out.view(), expected,
                                  {120 * support::epsilon<TestType>(), 8 * support::epsilon<TestType>()}) == "");
          CHECK(out.intact());
          // An operand may be the output.
          tenon::copy(ctx, out.view(), operands[0]);
          const Matrices<TestType> in_place[] = {out.view(), operands[1]};
          tenon::matmul(ctx, out.view(), a.view(), right, {&program, in_place});
          CHECK(support::bits(out.view()) == support::bits(steps.view()));
        });
      }
    }
  }
}

TEST_CASE("matmul lets NaN and infinity through, in their places only", "[ops][matmul]") {
  support::for_each_level([&](auto& ctx) {
    for (const std::int64_t k : {5, 8, 40}) {
      std::mt19937 random(6);
      Operand<float, 3> a({1, 2, k}), b({1, k, 20}), c({1, 20, k}), out({1, 2, 20});
      a.fill(random, 0.5, 1.0);
      b.fill(random, 0.5, 1.0);
      c.fill(random, 0.5, 1.0);
      b.view()(0, k - 1, 3) = std::numeric_limits<float>::quiet_NaN();
      b.view()(0, 0, 19) = std::numeric_limits<float>::infinity();
      c.view()(0, 3, k - 1) = std::numeric_limits<float>::quiet_NaN();
      c.view()(0, 19, 0) = std::numeric_limits<float>::infinity();
      for (const Matrices<float>& right : {Matrices<float>(b.view()), Matrices<float>(c.view().transpose(1, 2))}) {
        tenon::matmul(ctx, out.view(), a.view(), right);
        CHECK(compare(out.view(), tenon::reference::matmul<float>(a.view(), right), k) == "");
      }
    }
  });
}

TEST_CASE("matmul names what does not fit", "[ops][matmul]") {
  using Catch::Matchers::Message;
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 3> a({2, 3, 4}), b({2, 4, 5}), out({2, 3, 5});
  CHECK_THROWS_MATCHES(tenon::matmul(ctx, out.view(), a.view(), a.view()), tenon::ShapeError,
                       Message("matmul: b has shape (2, 3, 4), expected (2, 4, 4) (batch, columns of a, any)"));
  CHECK_THROWS_MATCHES(tenon::matmul(ctx, a.view(), a.view(), b.view()), tenon::ShapeError,
                       Message("matmul: out has shape (2, 3, 4), expected (2, 3, 5) (batch, rows of a, columns of b)"));
  const PointwiseProgram sum = pointwise_program("01+");
  const PointwiseProgram product = pointwise_program("01c");
  const Matrices<float> wrong[] = {a.view()};
  CHECK_THROWS_MATCHES(tenon::matmul(ctx, out.view(), a.view(), b.view(), {&sum, {}}), tenon::ValueError,
                       Message("matmul: the epilogue takes 1 operands, but there are 0"));
  CHECK_THROWS_MATCHES(tenon::matmul(ctx, out.view(), a.view(), b.view(), {&sum, wrong}), tenon::ShapeError,
                       Message("matmul: an operand of the epilogue has shape (2, 3, 4), expected (2, 3, 5) as out"));
  CHECK_THROWS_MATCHES(tenon::matmul(ctx, out.view(), a.view(), b.view(), {&product, wrong}), tenon::ValueError,
                       Message("matmul: a product of complex numbers in its epilogue"));
}
