#include <tenon/ops/embedding.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstdint>
#include <random>
#include <tuple>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

template <class T, class W>
struct Types {
  using Out = T;
  using Table = W;
};

}  // namespace

TEMPLATE_TEST_CASE("embedding picks rows in every layout and widens them exactly", "[ops][embedding]",
                   (Types<float, float>), (Types<double, double>), (Types<tenon::float16, tenon::float16>),
                   (Types<tenon::bfloat16, tenon::bfloat16>), (Types<float, tenon::bfloat16>),
                   (Types<float, tenon::float16>)) {
  using T = typename TestType::Out;
  using W = typename TestType::Table;
  std::mt19937 random(1);
  for (const std::int64_t dim : {0, 1, 7, 16, 65}) {
    for (const std::int64_t n : {0, 1, 5}) {
      for (const Form form : support::all_forms) {
        Operand<W, 2> weight({11, dim}, form);
        weight.fill(random, -100, 100);
        Operand<std::int64_t, 1> index({n}, form == Form::broadcast ? Form::stepped : form);
        index.fill([&] { return static_cast<double>(random() % 11); });
        const auto expected = tenon::reference::embedding(index.view(), weight.view());
        support::for_each_level([&](auto& ctx) {
          Operand<T, 2> out({n, dim}, form == Form::broadcast ? Form::padded : form);
          tenon::embedding(ctx, out.view(), index.view(), weight.view());
          INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << n << " x " << dim);
          CHECK(support::mismatch(out.view(), expected, support::Tolerance{}) == "");
          CHECK(out.intact());
        });
      }
    }
  }
}

TEST_CASE("embedding widens float16 subnormals, infinities and NaN", "[ops][embedding]") {
  // All 65536 bit patterns, as a table of 256 rows.
  Operand<tenon::float16, 2> weight({256, 256});
  for (std::int64_t i = 0; i < 65536; ++i) {
    weight.view().data()[i] = tenon::float16::from_bits(static_cast<std::uint16_t>(i));
  }
  Operand<std::int64_t, 1> index({256});
  std::int64_t next = 0;
  index.fill([&] { return static_cast<double>(next++); });
  support::for_each_level([&](auto& ctx) {
    Operand<float, 2> out({256, 256});
    tenon::embedding(ctx, out.view(), index.view(), weight.view());
    CHECK(support::mismatch(out.view(), tenon::reference::elements(weight.view()), support::Tolerance{}) == "");
  });
}

TEST_CASE("embedding refuses an index out of range before it writes anything", "[ops][embedding]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> weight({1536, 4});
  weight.fill([] { return 1.0; });
  for (const std::int64_t bad : {std::int64_t{1600}, std::int64_t{1536}, std::int64_t{-1}, INT64_MAX, INT64_MIN}) {
    Operand<std::int64_t, 1> index({5});
    index.fill([] { return 0.0; });
    index.view()(3) = bad;
    Operand<float, 2> out({5, 4});
    out.fill([] { return 7.0; });
    CHECK_THROWS_MATCHES(
        tenon::embedding(ctx, out.view(), index.view(), weight.view()), tenon::IndexError,
        Catch::Matchers::Message("embedding: index[3] is " + std::to_string(bad) + ", not in [0, 1536)"));
    CHECK(tenon::reference::elements(out.view()) == std::vector<double>(20, 7.0));
    index.view()(3) = 1535;  // the context is still usable
    CHECK_NOTHROW(tenon::embedding(ctx, out.view(), index.view(), weight.view()));
    CHECK(tenon::reference::elements(out.view()) == std::vector<double>(20, 1.0));
  }
}

TEST_CASE("embedding names shapes that do not fit", "[ops][embedding]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> weight({10, 4});
  Operand<std::int64_t, 1> index({3});
  index.fill([] { return 0.0; });
  Operand<float, 2> out({3, 5});
  CHECK_THROWS_MATCHES(
      tenon::embedding(ctx, out.view(), index.view(), weight.view()), tenon::ShapeError,
      Catch::Matchers::Message("embedding: out has shape (3, 5), expected (3, 4) (size of index, columns of weight)"));
  Operand<float, 2> empty_weight({0, 5});
  CHECK_THROWS_AS(tenon::embedding(ctx, out.view(), index.view(), empty_weight.view()), tenon::IndexError);
}
