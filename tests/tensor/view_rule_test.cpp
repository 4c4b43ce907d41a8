// The rule of `view`, against an oracle that knows nothing of runs and merging: it walks every element.
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/layout.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using Shape = std::vector<std::int64_t>;

std::int64_t product(const Shape& sizes) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  return count;
}

/// Offset of element number `linear` in row-major order.
std::int64_t offset_of(const Shape& sizes, const Shape& strides, std::int64_t linear) {
  std::int64_t offset = 0;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    offset += linear % sizes[i] * strides[i];
    linear /= sizes[i];
  }
  return offset;
}

/// Whether any strides give the new shape the same elements in the same order. A stride of a dimension longer than one
/// is forced: it is the distance between the element one further along that dimension and the first. So take those, and
/// look at every element.
bool some_strides_exist(const Shape& sizes, const Shape& strides, const Shape& new_sizes) {
  const std::int64_t count = product(sizes);
  if (count == 0) return true;
  Shape forced(new_sizes.size(), 0);
  std::int64_t inner = 1;
  for (std::size_t i = new_sizes.size(); i-- > 0;) {
    if (new_sizes[i] > 1) forced[i] = offset_of(sizes, strides, inner);
    inner *= new_sizes[i];
  }
  for (std::int64_t linear = 0; linear < count; ++linear) {
    if (offset_of(sizes, strides, linear) != offset_of(new_sizes, forced, linear)) return false;
  }
  return true;
}

/// A random way to write `count` as a product, with ones in between.
Shape random_factors(std::int64_t count, std::size_t max_rank, std::mt19937& random) {
  Shape sizes;
  while (count > 1 && sizes.size() + 1 < max_rank) {
    Shape divisors;
    for (std::int64_t d = 1; d <= count; ++d) {
      if (count % d == 0) divisors.push_back(d);
    }
    const std::int64_t divisor = divisors[random() % divisors.size()];
    sizes.push_back(divisor);
    count /= divisor;
  }
  sizes.push_back(count);
  while (sizes.size() < max_rank && random() % 3 == 0) {
    sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(random() % (sizes.size() + 1)), 1);
  }
  return sizes;
}

/// Strides that a chain of permute, slice, expand and flip could leave behind, and some that none could.
Shape random_strides(const Shape& sizes, std::mt19937& random) {
  Shape strides(sizes.size());
  std::int64_t step = random() % 3 == 0 ? static_cast<std::int64_t>(random() % 4) : 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] == 0 ? 1 : sizes[i];
    switch (random() % 8) {
      case 0: step += static_cast<std::int64_t>(random() % 5); break;
      case 1: step = static_cast<std::int64_t>(random() % 7); break;
      case 2: step = -step; break;
      default: break;
    }
    if (sizes[i] == 1 && random() % 2 == 0) strides[i] = static_cast<std::int64_t>(random() % 50);
  }
  if (random() % 4 == 0) {
    for (std::size_t i = 0; i < sizes.size(); ++i) std::swap(strides[i], strides[random() % sizes.size()]);
  }
  return strides;
}

}  // namespace

TEST_CASE("view: exists exactly where strides exist that keep the order of elements", "[view]") {
  std::mt19937 random(20240917);
  int possible = 0;
  int impossible = 0;
  const Shape counts{1, 2, 3, 4, 6, 8, 12, 16, 24, 30, 36, 60};
  for (int round = 0; round < 60000; ++round) {
    const std::int64_t count = counts[random() % counts.size()];
    const Shape sizes = random_factors(count, 1 + random() % 5, random);
    const Shape strides = random_strides(sizes, random);
    const Shape new_sizes = random_factors(count, 1 + random() % 5, random);
    Shape new_strides(new_sizes.size(), -99);
    const bool expected = some_strides_exist(sizes, strides, new_sizes);
    const bool found = tenon::detail::try_view_strides(sizes, strides, new_sizes, new_strides);
    bool same_elements = true;
    if (found) {
      for (std::int64_t i = 0; i < count; ++i) {
        same_elements = same_elements && offset_of(sizes, strides, i) == offset_of(new_sizes, new_strides, i);
      }
    }
    (expected ? possible : impossible) += 1;
    if (found != expected || !same_elements) {
      CAPTURE(tenon::shape_string(sizes), tenon::shape_string(strides), tenon::shape_string(new_sizes));
      CHECK(found == expected);
      CHECK(same_elements);
    }
  }
  CHECK(possible > 5000);
  CHECK(impossible > 5000);
}

TEST_CASE("view: the conflict that is reported is one", "[view]") {
  // Merging the two dimensions that the message names must itself be impossible, or the message would mislead.
  std::mt19937 random(7);
  int seen = 0;
  for (int round = 0; round < 20000; ++round) {
    const Shape sizes = random_factors(24, 4, random);
    const Shape strides = random_strides(sizes, random);
    const Shape new_sizes = random_factors(24, 4, random);
    Shape new_strides(new_sizes.size());
    tenon::detail::ViewConflict conflict;
    if (tenon::detail::try_view_strides(sizes, strides, new_sizes, new_strides, &conflict)) continue;
    ++seen;
    REQUIRE(conflict.dim + 1 < sizes.size());
    CAPTURE(tenon::shape_string(sizes), tenon::shape_string(strides), tenon::shape_string(new_sizes), conflict.dim);
    CHECK(sizes[conflict.dim] != 1);
    CHECK(strides[conflict.dim] != conflict.needed);
  }
  CHECK(seen > 100);
}

TEST_CASE("view: (2, 3, 5) with strides (30, 10, 1) cannot become (2, 15), and the error says why", "[view]") {
  tenon::Context<tenon::Cpu> ctx(1);
  const tenon::Layout<3> layout({2, 3, 5}, {30, 10, 1});
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{2, 15}), tenon::ShapeError);
  CHECK_THROWS_WITH(layout.view(tenon::Sizes<2>{2, 15}),
                    "view: shape (2, 3, 5) with strides (30, 10, 1) cannot become (2, 15) without a copy, because "
                    "dimensions 1 and 2 cannot be merged: stride 10 is not 5; reshape copies");
  CHECK(layout.view(tenon::Sizes<2>{6, 5}).strides() == tenon::Sizes<2>{10, 1});
  CHECK(layout.view(tenon::Sizes<4>{1, 6, 1, 5}).sizes() == tenon::Sizes<4>{1, 6, 1, 5});

  // The same through tensors of every kind.
  const auto wide = tenon::zeros<float>(ctx, {2, 3, 10});
  const auto tensor = wide.slice(2, 0, 5);
  REQUIRE(tensor.strides() == tenon::Sizes<3>{30, 10, 1});
  CHECK_THROWS_WITH(tensor.view({2, 15}), ContainsSubstring("(30, 10, 1)") && ContainsSubstring("(2, 15)"));
  CHECK_THROWS_WITH(tenon::AnyTensor(tensor).view({2, 15}), ContainsSubstring("dimensions 1 and 2"));
  CHECK(tensor.view({6, 5}).data() == wide.data());
  const auto copied = tensor.reshape(ctx, {2, 15});
  CHECK(copied.sizes() == tenon::Sizes<2>{2, 15});
  CHECK(copied.data() != wide.data());
}

TEST_CASE("view: one size may be inferred, and counts must agree", "[view]") {
  const tenon::Layout<3> layout({2, 3, 4});
  CHECK(layout.view(tenon::Sizes<2>{-1, 4}).sizes() == tenon::Sizes<2>{6, 4});
  CHECK(layout.view(tenon::Sizes<1>{-1}).sizes() == tenon::Sizes<1>{24});
  CHECK_THROWS_WITH(layout.view(tenon::Sizes<2>{-1, -1}), ContainsSubstring("only one size may be -1"));
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{-1, 5}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{-2, 12}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{5, 5}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{-1, 0}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<0>{}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<3>{std::int64_t{1} << 62, std::int64_t{1} << 62, 24}), tenon::ShapeError);
  CHECK_THROWS_AS(layout.view(tenon::Sizes<2>{std::numeric_limits<std::int64_t>::min(), 1}), tenon::ShapeError);
}

TEST_CASE("view: empty and rank 0", "[view]") {
  const tenon::Layout<2> empty({0, 3});
  CHECK(empty.view(tenon::Sizes<3>{3, 0, 5}).sizes() == tenon::Sizes<3>{3, 0, 5});
  CHECK(empty.view(tenon::Sizes<2>{-1, 7}).sizes() == tenon::Sizes<2>{0, 7});
  CHECK_THROWS_AS(empty.view(tenon::Sizes<2>{-1, 0}), tenon::ShapeError);  // ambiguous, as in PyTorch
  CHECK_THROWS_AS(empty.view(tenon::Sizes<1>{1}), tenon::ShapeError);
  CHECK_THROWS_AS(empty.view(tenon::Sizes<3>{0, std::int64_t{1} << 62, 4}), tenon::ShapeError);
  const tenon::Layout<2> odd({0, 3}, {7, -2});
  CHECK(odd.view(tenon::Sizes<1>{0}).sizes() == tenon::Sizes<1>{0});

  const tenon::Layout<0> scalar{tenon::Sizes<0>{}};
  CHECK(scalar.numel() == 1);
  CHECK(scalar.view(tenon::Sizes<3>{1, 1, 1}).sizes() == tenon::Sizes<3>{1, 1, 1});
  CHECK(scalar.view(tenon::Sizes<1>{-1}).sizes() == tenon::Sizes<1>{1});
  CHECK_THROWS_AS(scalar.view(tenon::Sizes<1>{2}), tenon::ShapeError);
  CHECK(tenon::Layout<3>({1, 1, 1}, {5, -9, 0}).view(tenon::Sizes<0>{}).numel() == 1);
}

TEST_CASE("view: strides at the edge of 63 bits do not overflow", "[view]") {
  constexpr std::int64_t big = std::int64_t{1} << 62;
  const tenon::Layout<2> layout({2, 2}, {1, big});
  CHECK_THROWS_AS(layout.view(tenon::Sizes<1>{4}), tenon::ShapeError);
  CHECK(layout.view(tenon::Sizes<3>{2, 1, 2}).sizes() == tenon::Sizes<3>{2, 1, 2});
  CHECK(layout.view(tenon::Sizes<3>{2, 2, 1}).stride(1) == big);
}
