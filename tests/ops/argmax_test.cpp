#include <tenon/ops/argmax.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
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

// Runs argmax on every level and compares index and value with `expected` (one index for each row).
template <class T, std::size_t Rank>
void check(const Operand<T, Rank>& in, const std::vector<std::int64_t>& expected, Form form = Form::contiguous) {
  Sizes<Rank> sizes = in.view().sizes();
  const std::int64_t n = sizes[Rank - 1];
  sizes[Rank - 1] = 1;
  const auto all = tenon::reference::elements(in.view());
  std::vector<double> values;
  for (std::size_t row = 0; row < expected.size(); ++row) {
    values.push_back(all[row * static_cast<std::size_t>(n) + static_cast<std::size_t>(expected[row])]);
  }
  support::for_each_level([&](auto& ctx) {
    Operand<std::int64_t, Rank> index(sizes, form);
    Operand<T, Rank> value(sizes, form);
    tenon::argmax(ctx, index.view(), value.view(), in.view());
    std::vector<std::int64_t> found;
    for (const double x : tenon::reference::elements(index.view())) found.push_back(static_cast<std::int64_t>(x));
    INFO(support::describe(ctx));
    CHECK(found == expected);
    CHECK(support::mismatch(value.view(), values, support::Tolerance{}) == "");
    CHECK(index.intact());
    CHECK(value.intact());
  });
}

}  // namespace

TEMPLATE_TEST_CASE("argmax finds the largest element in every layout", "[ops][argmax]", float, double, tenon::float16,
                   tenon::bfloat16) {
  std::mt19937 random(1);
  for (const std::int64_t n : {1, 2, 3, 15, 16, 17, 63, 64, 65, 127, 1000}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 2> in({3, n}, form);
      in.fill(random, -100, 100);
      check(in, tenon::reference::argmax(in.view()), form == Form::broadcast ? Form::contiguous : form);
    }
  }
}

TEMPLATE_TEST_CASE("argmax takes the lowest index among equal elements", "[ops][argmax]", float, double, tenon::float16,
                   tenon::bfloat16) {
  for (const std::int64_t n : {2, 40, 300}) {
    for (std::int64_t first = 0; first < n; first += 7) {
      Operand<TestType, 1> in({n});
      std::int64_t i = 0;
      in.fill([&] { return i++ >= first ? 1.5 : -1.5; });  // everything from `first` on is equal
      check(in, {first});
      i = 0;
      in.fill([&] { return i++ == first ? 0.0 : -0.0; });  // +0 and -0 are equal
      check(in, {0});
    }
  }
}

TEMPLATE_TEST_CASE("argmax gives the first NaN of a row that holds one", "[ops][argmax]", float, double, tenon::float16,
                   tenon::bfloat16) {
  const double inf = std::numeric_limits<double>::infinity();
  for (const std::int64_t n : {1, 5, 40, 300}) {
    for (std::int64_t first = 0; first < n; first += 3) {
      Operand<TestType, 1> in({n});
      std::int64_t i = 0;
      in.fill([&] {
        const std::int64_t k = i++;
        return k == first || (k > first && k % 2 == 0) ? (k % 4 == 0 ? -std::nan("") : std::nan("")) : inf;
      });
      check(in, {first});
    }
  }
}

TEST_CASE("argmax of rows of one value, of infinities and of the lowest values", "[ops][argmax]") {
  for (const double value : {0.0, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(),
                             static_cast<double>(std::numeric_limits<float>::lowest())}) {
    for (const std::int64_t n : {1, 33, 257}) {
      Operand<float, 1> in({n});
      in.fill([&] { return value; });
      check(in, {0});
    }
  }
}

TEST_CASE("E4: argmax on degenerate axes", "[ops][argmax]") {
  Operand<float, 2> wide({1, 2});
  std::int64_t i = 0;
  wide.fill([&] { return i++ == 0 ? 1.0 : 2.0; });
  check(wide, {1});
  Operand<float, 2> tall({2, 1});
  tall.fill([&] { return 3.0; });
  check(tall, {0, 0});
  Operand<float, 1> flat({5});
  i = 0;
  flat.fill([&] { return i++ == 3 ? 9.0 : static_cast<double>(-i); });
  check(flat, {3});
  Operand<float, 1> single({1});
  single.fill([] { return -4.0; });
  check(single, {0});

  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> no_rows({0, 7});
  Operand<float, 2> no_columns({3, 0});
  Operand<std::int64_t, 2> index({3, 1});
  Operand<float, 2> value({3, 1});
  Operand<std::int64_t, 2> no_index({0, 1});
  Operand<float, 2> no_value({0, 1});
  CHECK_NOTHROW(tenon::argmax(ctx, no_index.view(), no_value.view(), no_rows.view()));
  CHECK_THROWS_MATCHES(
      tenon::argmax(ctx, index.view(), value.view(), no_columns.view()), tenon::ShapeError,
      Catch::Matchers::Message("argmax: in has shape (3, 0), and an empty row has no largest element"));
  CHECK_THROWS_AS(tenon::argmax(ctx, no_index.view(), value.view(), wide.view()), tenon::ShapeError);
}

TEST_CASE("argmax over a vocabulary, and over many rows on several threads", "[ops][argmax]") {
  std::mt19937 random(4);
  Operand<float, 2> in({1, 151936});
  in.fill(random);
  check(in, tenon::reference::argmax(in.view()));

  Operand<tenon::bfloat16, 3> many({5, 41, 301}, Form::padded);
  many.fill(random);
  tenon::Context<tenon::Cpu> ctx(3);
  Operand<std::int64_t, 3> index({5, 41, 1});
  Operand<tenon::bfloat16, 3> value({5, 41, 1});
  tenon::argmax(ctx, index.view(), value.view(), many.view());
  const auto expected = tenon::reference::argmax(many.view());
  for (std::size_t i = 0; i < expected.size(); ++i) REQUIRE(index.view().data()[i] == expected[i]);
}
