#include <tenon/ops/replace_slice.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

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
}  // namespace

TEMPLATE_TEST_CASE("replace_slice writes its rows and nothing else", "[ops][replace_slice]", float, double,
                   tenon::float16, tenon::bfloat16, std::int64_t) {
  std::mt19937 random(1);
  for (const int threads : {1, 3}) {
    for (const Sizes<4>& sizes :
         {Sizes<4>{1, 1, 1, 1}, {0, 2, 3, 4}, {6, 0, 2, 2}, {6, 1, 4, 8}, {5, 3, 2, 7}, {16, 1, 70, 80}}) {
      for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, sizes[0] / 2, sizes[0]}) {
        if (count > sizes[0]) continue;
        for (const Form form : support::writable_forms) {
          Operand<TestType, 4> x(sizes, form);
          Operand<TestType, 4> rows({count, sizes[1], sizes[2], sizes[3]}, support::all_forms[random() % 6]);
          x.fill(random, -100, 100);
          rows.fill(random, -100, 100);
          const std::int64_t begin = (sizes[0] - count) / 2;
          const auto expected = tenon::reference::replace_slice<TestType>(x.view(), rows.view(), begin);
          tenon::Context<tenon::Cpu> ctx(threads);
          tenon::replace_slice(ctx, x.view(), rows.view(), one(begin), one(begin + count));
          INFO(support::form_name(form) << ", " << tenon::shape_string(sizes) << ", " << count);
          CHECK(support::mismatch(x.view(), expected, {}) == "");
          CHECK(x.intact());
        }
      }
    }
  }
}

TEST_CASE("replace_slice copies NaN and infinity", "[ops][replace_slice]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 4> x({3, 1, 1, 2}), rows({1, 1, 1, 2});
  x.fill([] { return 1.0; });
  rows.view()(0, 0, 0, 0) = std::numeric_limits<float>::quiet_NaN();
  rows.view()(0, 0, 0, 1) = -std::numeric_limits<float>::infinity();
  tenon::replace_slice(ctx, x.view(), rows.view(), one(2), one(3));
  CHECK(support::mismatch(
            x.view(), {1, 1, 1, 1, std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()},
            {}) == "");
}

TEST_CASE("replace_slice names what does not fit, and writes nothing then", "[ops][replace_slice]") {
  using Catch::Matchers::Message;
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 4> x({4, 1, 2, 3}), rows({2, 1, 2, 3}), wide({2, 1, 3, 3});
  x.fill([] { return 1.0; });
  rows.fill([] { return 2.0; });
  CHECK_THROWS_MATCHES(tenon::replace_slice(ctx, x.view(), wide.view(), one(0), one(2)), tenon::ShapeError,
                       Message("replace_slice: rows has shape (2, 1, 3, 3), expected (2, 1, 2, 3) (any, as x)"));
  const std::int64_t two[] = {0, 2};
  const tenon::View<const std::int64_t, 1> pair(two, Sizes<1>{2});
  CHECK_THROWS_MATCHES(tenon::replace_slice(ctx, x.view(), rows.view(), pair, one(2)), tenon::ShapeError,
                       Message("replace_slice: begin has shape (2,), expected (1,)"));
  CHECK_THROWS_MATCHES(tenon::replace_slice(ctx, x.view(), rows.view(), one(0), pair), tenon::ShapeError,
                       Message("replace_slice: end has shape (2,), expected (1,)"));
  const std::int64_t least = std::numeric_limits<std::int64_t>::min();
  const std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const auto& [begin, end] :
       {std::pair<std::int64_t, std::int64_t>{-1, 1}, {3, 5}, {0, 1}, {2, 0}, {least, most}, {most, least}, {0, 4}}) {
    CHECK_THROWS_MATCHES(tenon::replace_slice(ctx, x.view(), rows.view(), one(begin), one(end)), tenon::ValueError,
                         Message("replace_slice: [" + std::to_string(begin) + ", " + std::to_string(end) +
                                 ") does not name 2 rows of 4"));
  }
  CHECK(support::mismatch(x.view(), std::vector<double>(24, 1.0), {}) == "");
}
