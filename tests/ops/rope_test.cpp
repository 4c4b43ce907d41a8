#include <tenon/ops/rope.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/ops/rearrange.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

struct Table {
  Table(tenon::Context<tenon::Cpu>& ctx, const std::vector<std::int64_t>& positions, std::int64_t half, double theta)
      : cos({static_cast<std::int64_t>(positions.size()), half}),
        sin({static_cast<std::int64_t>(positions.size()), half}) {
    tenon::rope_table(
        ctx, cos.view(), sin.view(),
        tenon::View<const std::int64_t, 1>(positions.data(), {static_cast<std::int64_t>(positions.size())}), theta);
  }
  Operand<float, 2> cos, sin;
};

struct Known {
  std::int64_t position, dim;
  double theta;
  std::int64_t i;
  double cos, sin;
};

}  // namespace

TEST_CASE("N4, N5, N6: angles are formed in float at any position", "[ops][rope]") {
  // Computed with NumPy in float32: inv = 1 / theta ** (arange(0, dim, 2) / dim), angle = position * inv.
  constexpr std::array<Known, 14> known{{{15962, 64, 1e6, 0, -0.908015907, 0.418935686},
                                         {15962, 64, 1e6, 1, -0.252509594, -0.967594385},
                                         {15962, 64, 1e6, 5, -0.658610106, 0.752484381},
                                         {15962, 64, 1e6, 12, -0.223627523, 0.974674702},
                                         {15962, 64, 1e6, 20, -0.954414845, 0.298483312},
                                         {15962, 64, 1e6, 31, 0.999697924, 0.0245778318},
                                         {4095, 128, 1e4, 0, -0.0659759939, -0.997821212},
                                         {4095, 128, 1e4, 1, -0.742445707, 0.669906199},
                                         {4095, 128, 1e4, 7, 0.999948323, -0.0101634804},
                                         {4095, 128, 1e4, 20, -0.587768018, -0.80902952},
                                         {4095, 128, 1e4, 40, 0.927488983, 0.373850524},
                                         {4095, 128, 1e4, 63, 0.890258789, 0.455455005},
                                         {257, 128, 1e6, 0, 0.819305539, -0.573357165},
                                         {257, 128, 1e6, 3, -0.824988306, 0.565149844}}};
  tenon::Context<tenon::Cpu> ctx(1);
  for (const Known& row : known) {
    const Table table(ctx, {row.position}, row.dim / 2, row.theta);
    INFO("position " << row.position << ", pair " << row.i);
    // The power may differ in its last bit between libraries, which moves an angle by position * 2^-24 or so.
    const double slack = static_cast<double>(row.position) * 0x1p-23 *
                         std::pow(row.theta, -2.0 * static_cast<double>(row.i) / static_cast<double>(row.dim));
    CHECK(std::abs(table.cos.view()(0, row.i) - row.cos) <= slack + 1e-7);
    CHECK(std::abs(table.sin.view()(0, row.i) - row.sin) <= slack + 1e-7);
  }
  // N6: neighbouring positions stay apart, which bfloat16 positions would not be.
  const Table pair(ctx, {256, 257}, 64, 1e6);
  CHECK(std::abs(pair.cos.view()(0, 0) - std::cos(256.0)) < 1e-6);
  CHECK(std::abs(pair.cos.view()(1, 0) - std::cos(257.0)) < 1e-6);
}

TEST_CASE("rope_table is as exact as float angles allow, on any strides and threads", "[ops][rope]") {
  std::vector<std::int64_t> positions;
  for (std::int64_t p = 0; p < 5000; p += 37) positions.push_back(p);
  const auto tokens = static_cast<std::int64_t>(positions.size());
  for (const std::int64_t half : {1, 16, 33, 64}) {
    for (const int threads : {1, 3}) {
      tenon::Context<tenon::Cpu> ctx(threads);
      Operand<float, 2> cos({tokens, half}, Form::transposed);
      Operand<float, 2> sin({tokens, half}, Form::padded);
      const tenon::View<const std::int64_t, 1> ids(positions.data(), {tokens});
      tenon::rope_table(ctx, cos.view(), sin.view(), ids, 1e6);
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t i = 0; i < half; ++i) {
          // In double throughout. A float exponent is off by 2^-25, and its power by ln(theta) = 14 times as much.
          const double angle = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                               std::pow(1e6, -static_cast<double>(i) / static_cast<double>(half));
          REQUIRE(std::abs(cos.view()(t, i) - std::cos(angle)) <= angle * 0x1p-20 + 1e-7);
          REQUIRE(std::abs(sin.view()(t, i) - std::sin(angle)) <= angle * 0x1p-20 + 1e-7);
        }
      }
      CHECK(cos.intact());
      CHECK(sin.intact());
    }
  }
}

TEMPLATE_TEST_CASE("rope equals its definition for every size, layout and instruction set", "[ops][rope]", float,
                   double, tenon::float16, tenon::bfloat16) {
  std::mt19937 random(1);
  for (const Sizes<3> sizes :
       {Sizes<3>{1, 1, 2}, {0, 2, 8}, {3, 0, 8}, {2, 3, 0}, {3, 2, 32}, {5, 3, 46}, {4, 14, 64}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 3> in(sizes, form);
      Operand<float, 2> cos({sizes[0], sizes[2] / 2}, form);
      Operand<float, 2> sin({sizes[0], sizes[2] / 2}, form);
      in.fill(random);
      cos.fill(random, -1, 1);
      sin.fill(random, -1, 1);
      const auto expected = tenon::reference::rope(in.view(), cos.view(), sin.view());
      // Products are up to 2 and rounded to T, each perhaps the other way than in the oracle.
      const support::Tolerance bound{2.0 * support::epsilon<TestType>(), support::epsilon<TestType>()};
      support::for_each_level([&](auto& ctx) {
        Operand<TestType, 3> out(sizes, form == Form::broadcast ? Form::padded : form);
        tenon::rope(ctx, out.view(), in.view(), cos.view(), sin.view());
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", " << sizes[0] << " x " << sizes[1]
                                    << " x " << sizes[2]);
        CHECK(support::mismatch(out.view(), expected, bound) == "");
        CHECK(out.intact());
        if (form == Form::broadcast) return;
        Operand<TestType, 3> same(sizes, form);
        tenon::rearrange(ctx, same.view(), in.view());
        tenon::rope(ctx, same.view(), same.view(), cos.view(), sin.view());
        CHECK(support::bits(same.view()) == support::bits(out.view()));
      });
    }
  }
}

TEMPLATE_TEST_CASE("rope rounds cos, sin, products and sums to T", "[ops][rope]", tenon::float16, tenon::bfloat16) {
  std::mt19937 random(2);
  const auto round = [](float x) { return static_cast<float>(TestType(x)); };
  Operand<TestType, 3> in({7, 2, 66});
  Operand<float, 2> cos({7, 33});
  Operand<float, 2> sin({7, 33});
  in.fill(random);
  cos.fill(random, -1, 1);
  sin.fill(random, -1, 1);
  support::for_each_level([&](auto& ctx) {
    Operand<TestType, 3> out({7, 2, 66});
    tenon::rope(ctx, out.view(), in.view(), cos.view(), sin.view());
    for (std::int64_t t = 0; t < 7; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < 33; ++i) {
          const float c = round(cos.view()(t, i));
          const float s = round(sin.view()(t, i));
          const float x = in.view()(t, h, i);
          const float y = in.view()(t, h, i + 33);
          REQUIRE(static_cast<float>(out.view()(t, h, i)) == round(round(x * c) - round(y * s)));
          REQUIRE(static_cast<float>(out.view()(t, h, i + 33)) == round(round(y * c) + round(x * s)));
        }
      }
    }
  });
}

TEST_CASE("rope at position 0 changes nothing, and a quarter turn swaps the halves", "[ops][rope]") {
  support::for_each_level([&](auto& ctx) {
    std::mt19937 random(3);
    Operand<float, 3> in({1, 3, 34});
    Operand<float, 3> out({1, 3, 34});
    in.fill(random);
    const std::vector<std::int64_t> zero{0};
    tenon::rope(ctx, out.view(), in.view(), tenon::View<const std::int64_t, 1>(zero.data(), {1}), 1e4);
    CHECK(support::bits(out.view()) == support::bits(in.view()));
    Operand<float, 2> cos({1, 17});
    Operand<float, 2> sin({1, 17});
    cos.fill([] { return 0.0; });
    sin.fill([] { return 1.0; });
    tenon::rope(ctx, out.view(), in.view(), cos.view(), sin.view());
    for (std::int64_t h = 0; h < 3; ++h) {
      for (std::int64_t i = 0; i < 17; ++i) {
        CHECK(out.view()(0, h, i) == -in.view()(0, h, i + 17));
        CHECK(out.view()(0, h, i + 17) == in.view()(0, h, i));
      }
    }
  });
}

TEST_CASE("rope with positions equals rope with their table, on several threads too", "[ops][rope]") {
  std::mt19937 random(4);
  Operand<tenon::bfloat16, 3> in({129, 7, 64});
  in.fill(random);
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < 129; ++t) positions.push_back(1000 + 3 * t);
  tenon::Context<tenon::Cpu> one(1);
  tenon::Context<tenon::Cpu> several(4);
  const Table table(one, positions, 32, 1e6);
  Operand<tenon::bfloat16, 3> a({129, 7, 64});
  Operand<tenon::bfloat16, 3> b({129, 7, 64});
  tenon::rope(one, a.view(), in.view(), table.cos.view(), table.sin.view());
  tenon::rope(several, b.view(), in.view(), tenon::View<const std::int64_t, 1>(positions.data(), {129}), 1e6);
  CHECK(support::bits(a.view()) == support::bits(b.view()));
}

TEST_CASE("rope refuses shapes that do not fit, odd head sizes and a theta that is not positive", "[ops][rope]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 3> x({2, 1, 8});
  Operand<float, 3> odd({2, 1, 7});
  Operand<float, 2> table({2, 4});
  Operand<float, 2> narrow({2, 3});
  x.fill([] { return 1.0; });
  odd.fill([] { return 1.0; });
  table.fill([] { return 1.0; });
  narrow.fill([] { return 1.0; });
  CHECK_THROWS_MATCHES(tenon::rope(ctx, odd.view(), odd.view(), narrow.view(), narrow.view()), tenon::ShapeError,
                       Catch::Matchers::Message("rope: in has shape (2, 1, 7), and its last size is odd"));
  CHECK_THROWS_MATCHES(
      tenon::rope(ctx, x.view(), x.view(), narrow.view(), table.view()), tenon::ShapeError,
      Catch::Matchers::Message("rope: cos has shape (2, 3), expected (2, 4) (tokens, half of the last size of in)"));
  CHECK_THROWS_AS(tenon::rope(ctx, x.view(), x.view(), table.view(), narrow.view()), tenon::ShapeError);
  CHECK_THROWS_AS(tenon::rope(ctx, x.view(), odd.view(), table.view(), table.view()), tenon::ShapeError);
  const std::vector<std::int64_t> positions{0, 1};
  const tenon::View<const std::int64_t, 1> ids(positions.data(), {2});
  for (const double theta : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_AS(tenon::rope(ctx, x.view(), x.view(), ids, theta), tenon::ValueError);
  }
  const std::vector<std::int64_t> three{0, 1, 2};
  CHECK_THROWS_AS(tenon::rope(ctx, x.view(), x.view(), tenon::View<const std::int64_t, 1>(three.data(), {3}), 1e4),
                  tenon::ShapeError);
}
