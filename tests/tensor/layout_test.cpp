#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/tensor/layout.hpp>

namespace {
using Catch::Matchers::ContainsSubstring;
using tenon::IndexError;
using tenon::Layout;
using tenon::ShapeError;
using tenon::Sizes;
constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
}  // namespace

TEST_CASE("layout: row-major strides, as PyTorch gives them also to empty shapes", "[layout]") {
  CHECK(Layout<3>({2, 3, 4}).strides() == Sizes<3>{12, 4, 1});
  CHECK(Layout<3>({2, 0, 4}).strides() == Sizes<3>{4, 4, 1});
  CHECK(Layout<2>({0, 0}).strides() == Sizes<2>{1, 1});
  CHECK(Layout<0>(Sizes<0>{}).numel() == 1);
  CHECK(Layout<2>().numel() == 0);
  CHECK(Layout<2>().is_contiguous());
  static_assert(std::is_trivially_copyable_v<Layout<4>>);
  static_assert(sizeof(Layout<4>) == 64);
}

TEST_CASE("layout: negative sizes and counts beyond 63 bits are refused", "[layout]") {
  CHECK_THROWS_AS(Layout<2>({2, -1}), ShapeError);
  CHECK_THROWS_AS(Layout<2>({0, -1}), ShapeError);
  CHECK_THROWS_AS(Layout<2>({std::numeric_limits<std::int64_t>::min(), 2}), ShapeError);
  CHECK_THROWS_AS(Layout<2>({largest, 2}), ShapeError);
  CHECK_THROWS_AS(Layout<3>({std::int64_t{1} << 32, std::int64_t{1} << 31, 1}), ShapeError);
  CHECK_THROWS_AS(Layout<3>({std::int64_t{1} << 32, 0, std::int64_t{1} << 31}), ShapeError);
  CHECK(Layout<1>({largest}).numel() == largest);
  CHECK_THROWS_AS(Layout<2>({2, 2}, {largest, largest}), ShapeError);
  CHECK_THROWS_AS(Layout<1>({3}, {largest}), ShapeError);
  CHECK_THROWS_AS(Layout<1>({3}, {std::numeric_limits<std::int64_t>::min()}), ShapeError);
  CHECK_NOTHROW(Layout<2>({1, 5}, {largest, 1}));  // no element lies a stride away
  CHECK_THROWS_WITH(Layout<2>({2, -1}), ContainsSubstring("(2, -1)"));
}

TEST_CASE("layout: contiguous means that walking rows is walking memory", "[layout]") {
  // Oracle: element number i in row-major order lies at offset i.
  std::mt19937 random(3);
  int contiguous = 0;
  for (int round = 0; round < 20000; ++round) {
    Sizes<3> sizes{};
    Sizes<3> strides{};
    for (auto& size : sizes) size = static_cast<std::int64_t>(random() % 4);
    std::int64_t step = 1;
    for (std::size_t i = 3; i-- > 0;) {
      strides[i] = random() % 4 != 0 ? step : static_cast<std::int64_t>(random() % 9) - 3;
      step *= sizes[i];
    }
    const Layout<3> layout(sizes, strides);
    bool expected = true;
    std::int64_t linear = 0;
    for (std::int64_t i = 0; i < sizes[0]; ++i) {
      for (std::int64_t j = 0; j < sizes[1]; ++j) {
        for (std::int64_t k = 0; k < sizes[2]; ++k) expected = expected && layout.offset(i, j, k) == linear++;
      }
    }
    contiguous += expected ? 1 : 0;
    if (layout.is_contiguous() != expected) {
      CAPTURE(tenon::shape_string(sizes), tenon::shape_string(strides));
      CHECK(layout.is_contiguous() == expected);
    }
  }
  CHECK(contiguous > 1000);
  CHECK(contiguous < 19000);
}

TEST_CASE("layout: permute and transpose", "[layout]") {
  const Layout<3> layout({2, 3, 4});
  CHECK(layout.permute({2, 0, 1}).sizes() == Sizes<3>{4, 2, 3});
  CHECK(layout.permute({2, 0, 1}).strides() == Sizes<3>{1, 12, 4});
  CHECK(layout.permute({2, 0, 1}).permute({1, 2, 0}) == layout);
  CHECK(layout.transpose(0, 2).sizes() == Sizes<3>{4, 3, 2});
  CHECK(layout.transpose(-1, 0) == layout.transpose(0, 2));
  CHECK(layout.transpose(1, 1) == layout);
  CHECK_THROWS_AS(layout.permute({0, 1, 1}), ShapeError);
  CHECK_THROWS_AS(layout.permute({0, 1, 3}), ShapeError);
  CHECK_THROWS_AS(layout.permute({0, 1, -1}), ShapeError);
  CHECK_THROWS_WITH(layout.permute({0, 0, 2}), "permute: (0, 0, 2) is not a permutation of 0 … 2");
  CHECK_THROWS_AS(layout.transpose(0, 3), IndexError);
  CHECK_THROWS_AS(layout.transpose(-4, 0), IndexError);
  CHECK(Layout<0>(Sizes<0>{}).permute({}).numel() == 1);
}

TEST_CASE("layout: slice", "[layout]") {
  const Layout<2> layout({5, 7});
  const auto sub = layout.slice(1, 2, 6);
  CHECK(sub.layout.sizes() == Sizes<2>{5, 4});
  CHECK(sub.layout.strides() == Sizes<2>{7, 1});
  CHECK(sub.offset == 2);
  const auto stepped = layout.slice(-2, 1, 5, 3);
  CHECK(stepped.layout.sizes() == Sizes<2>{2, 7});
  CHECK(stepped.layout.strides() == Sizes<2>{21, 1});
  CHECK(stepped.offset == 7);
  CHECK(layout.slice(0, 5, 5).layout.sizes() == Sizes<2>{0, 7});
  CHECK(layout.slice(0, 5, 5).offset == 0);  // no pointer behind the end
  CHECK(layout.slice(0, 0, 5, largest).layout.size(0) == 1);
  CHECK(layout.slice(0, 0, 0, largest).layout.size(0) == 0);
  CHECK_THROWS_AS(layout.slice(0, 0, 6), IndexError);
  CHECK_THROWS_AS(layout.slice(0, -1, 3), IndexError);
  CHECK_THROWS_AS(layout.slice(0, 3, 2), IndexError);
  CHECK_THROWS_AS(layout.slice(0, 0, 3, 0), IndexError);
  CHECK_THROWS_AS(layout.slice(0, 0, 3, -1), IndexError);
  CHECK_THROWS_AS(layout.slice(2, 0, 1), IndexError);
  CHECK_THROWS_WITH(layout.slice(1, 3, 9), "slice: [3, 9) with step 1 is out of range for a dimension of size 7");
}

TEST_CASE("layout: select, squeeze and unsqueeze", "[layout]") {
  const Layout<3> layout({2, 1, 4});
  CHECK(layout.select(0, 1).layout.sizes() == Sizes<2>{1, 4});
  CHECK(layout.select(0, 1).offset == 4);
  CHECK(layout.select(-1, 3).offset == 3);
  CHECK_THROWS_AS(layout.select(0, 2), IndexError);
  CHECK_THROWS_AS(layout.select(0, -1), IndexError);
  CHECK_THROWS_AS(layout.select(3, 0), IndexError);
  CHECK_THROWS_AS(Layout<1>({0}).select(0, 0), IndexError);
  CHECK(Layout<1>({3}).select(0, 2).layout.numel() == 1);

  CHECK(layout.squeeze(1).sizes() == Sizes<2>{2, 4});
  CHECK(layout.squeeze(-2).sizes() == Sizes<2>{2, 4});
  CHECK_THROWS_WITH(layout.squeeze(0), "squeeze: dimension 0 of shape (2, 1, 4) does not have size 1");
  for (std::int64_t dim = -4; dim <= 3; ++dim) {
    const auto more = layout.unsqueeze(dim);
    CHECK(more.size(static_cast<std::size_t>(dim < 0 ? dim + 4 : dim)) == 1);
    CHECK(more.is_contiguous());
    CHECK(more.squeeze(dim).sizes() == layout.sizes());
  }
  CHECK_THROWS_AS(layout.unsqueeze(4), IndexError);
  CHECK_THROWS_AS(layout.unsqueeze(-5), IndexError);
  CHECK(Layout<2>({2, 2}, {1, std::int64_t{1} << 62}).unsqueeze(1).size(1) == 1);  // its stride wraps, unused
}

TEST_CASE("layout: expand", "[layout]") {
  const Layout<2> layout({1, 3});
  CHECK(layout.expand({4, 3}).strides() == Sizes<2>{0, 1});
  CHECK(layout.expand({0, 3}).numel() == 0);
  CHECK(layout.expand({1, 3}) == layout);
  CHECK_THROWS_WITH(layout.expand({4, 6}), "expand: shape (1, 3) cannot be broadcast to (4, 6)");
  CHECK_THROWS_AS(layout.expand({-1, 3}), ShapeError);
  CHECK_THROWS_AS(Layout<2>({1, 1}).expand({largest, 2}), ShapeError);
}

TEST_CASE("layout: shapes print as Python prints tuples", "[layout]") {
  CHECK(tenon::shape_string(Sizes<0>{}) == "()");
  CHECK(tenon::shape_string(Sizes<1>{4}) == "(4,)");
  CHECK(tenon::shape_string(Sizes<3>{2, -1, 0}) == "(2, -1, 0)");
}
