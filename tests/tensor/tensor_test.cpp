#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <support/sanitizer_options.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/tensor.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::float16;
using tenon::Layout;
using tenon::ShapeError;
using tenon::Sizes;
using tenon::Tensor;
using tenon::View;

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0.0f);
  return values;
}

/// 2 x 3 x 4 with value 100 i + 10 j + k at (i, j, k).
Tensor<float, 3> labelled(Context<Cpu>& ctx) {
  auto x = tenon::empty<float>(ctx, {2, 3, 4});
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) x(i, j, k) = static_cast<float>(100 * i + 10 * j + k);
    }
  }
  return x;
}

template <std::size_t Rank>
std::vector<float> values(const View<const float, Rank>& x) {
  Context<Cpu> ctx(1);
  std::vector<float> result(static_cast<std::size_t>(x.numel()));
  tenon::copy(ctx, View<float, Rank>(result.data(), x.sizes()), x);
  return result;
}

}  // namespace

TEST_CASE("tensor: elements lie where the layout says", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = labelled(ctx);
  CHECK(x.permute({2, 0, 1})(3, 1, 2) == 123.0f);
  CHECK(x.transpose(0, -1)(3, 2, 1) == 123.0f);
  CHECK(x.slice(2, 1, 4, 2)(1, 0, 1) == 103.0f);
  CHECK(x.slice(1, 1, 3).slice(1, 1, 2)(0, 0, 0) == 20.0f);
  CHECK(x.select(0, 1)(2, 3) == 123.0f);
  CHECK(x.select(0, 1).select(0, 2).select(0, 3)() == 123.0f);
  CHECK(x.unsqueeze(1)(1, 0, 2, 3) == 123.0f);
  CHECK(x.slice(1, 1, 2).squeeze(1)(1, 3) == 113.0f);
  CHECK(x.slice(0, 1, 2).expand({5, 3, 4})(4, 2, 3) == 123.0f);
  CHECK(x.view({6, 4})(5, 3) == 123.0f);
  CHECK(x.view({-1})(23) == 123.0f);
  CHECK(*x.ptr(1, 2, 3) == 123.0f);
  CHECK(x.at(1, 2, 3) == 123.0f);
  CHECK_THROWS_AS(x.at(1, 3, 0), tenon::IndexError);
  CHECK_THROWS_AS(x.at(-1, 0, 0), tenon::IndexError);
  CHECK_THROWS_WITH(x.at(2, 0, 0), "index (2, 0, 0) is out of range for shape (2, 3, 4)");
  CHECK_THROWS_AS(x.select(0, 1).select(0, 1).select(0, 4), tenon::IndexError);
}

TEST_CASE("tensor: copies share the elements and clones do not", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = labelled(ctx);
  const auto shared = x;
  const auto cloned = x.clone(ctx);
  const auto window = x.slice(2, 1, 3).permute({1, 0, 2});
  x(1, 2, 2) = -1.0f;
  CHECK(shared(1, 2, 2) == -1.0f);
  CHECK(window(2, 1, 1) == -1.0f);
  CHECK(cloned(1, 2, 2) == 122.0f);

  CHECK(x.contiguous(ctx).data() == x.data());
  CHECK(x.reshape(ctx, {4, 6}).data() == x.data());
  CHECK(x.to(ctx).data() == x.data());
  const auto dense = window.contiguous(ctx);
  CHECK(dense.is_contiguous());
  CHECK(dense.data() != window.data());
  CHECK(values<3>(dense) == values<3>(window));
  const auto reshaped = window.reshape(ctx, {-1});
  CHECK(values<1>(reshaped) == values<3>(window));
  CHECK_THROWS_AS(window.view({-1}), ShapeError);
  CHECK_THROWS_WITH(window.reshape(ctx, {5}), ContainsSubstring("reshape: shape (3, 2, 2)"));
  CHECK(window.reshape(ctx, {3, 1, 2, 2}).data() == window.data());  // only ones added: no copy
  CHECK(window.clone(ctx).is_contiguous());
}

TEST_CASE("E1: what is made from temporaries keeps its elements alive", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto chained = labelled(ctx).permute({2, 1, 0}).slice(0, 1, 3).select(1, 2).unsqueeze(0);
  const auto noise = tenon::full<float>(ctx, {2, 3, 4}, -5.0f);  // would reuse the block if it had been freed
  CHECK(chained(0, 0, 1) == 121.0f);
  CHECK(chained(0, 1, 0) == 22.0f);
  CHECK(noise(0, 0, 0) == -5.0f);
  const auto converted = labelled(ctx).cast<double>(ctx).view({24});
  CHECK(converted(23) == 123.0);
  const Tensor<const float, 1> fixed = labelled(ctx).view({24});
  const auto more_noise = tenon::full<float>(ctx, {2, 3, 4}, -6.0f);
  CHECK(fixed(23) == 123.0f);
  CHECK(more_noise(1, 2, 3) == -6.0f);

  auto owner = std::make_shared<std::vector<float>>(counted(6));
  const std::weak_ptr<std::vector<float>> watch = owner;
  auto* bytes = reinterpret_cast<std::byte*>(owner->data());
  std::optional<Tensor<float, 1>> last;
  {
    const Tensor<float, 2> borrowed(tenon::Storage<Cpu>(bytes, 24, owner, false), owner->data(), Layout<2>({2, 3}));
    owner.reset();
    last = borrowed.select(0, 1);
  }
  CHECK_FALSE(watch.expired());
  CHECK((*last)(2) == 5.0f);
  last.reset();
  CHECK(watch.expired());
}

TEST_CASE("tensor: converts to the const form, and never back", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = labelled(ctx);
  const Tensor<const float, 3> fixed = x;
  const View<const float, 3> window = x;
  const View<float, 3> writable = x;
  CHECK(fixed.data() == x.data());
  CHECK(window(1, 2, 3) == 123.0f);
  writable(0, 0, 0) = 7.0f;
  CHECK(fixed(0, 0, 0) == 7.0f);
  static_assert(!std::is_convertible_v<Tensor<const float, 3>, Tensor<float, 3>>);
  static_assert(!std::is_convertible_v<View<const float, 3>, View<float, 3>>);
  static_assert(!std::is_convertible_v<View<float, 3>, View<const double, 3>>);
  static_assert(!std::is_convertible_v<View<float, 3>, View<float, 2>>);
  static_assert(std::is_trivially_copyable_v<View<float16, 2>>);
  static_assert(!std::is_assignable_v<decltype(fixed(0, 0, 0)), float>);
  static_assert(std::is_same_v<decltype(fixed.clone(ctx)), Tensor<float, 3>>);
  CHECK(fixed.contiguous(ctx).data() == x.data());
  CHECK(fixed.permute({2, 1, 0}).contiguous(ctx)(3, 2, 1) == 123.0f);
  CHECK(fixed.permute({2, 1, 0}).reshape(ctx, {24})(23) == 123.0f);
}

TEST_CASE("tensor: load fills any layout in row-major order and refuses another count", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::zeros<float>(ctx, {4, 6});
  const auto target = x.slice(1, 1, 4).transpose(0, 1);  // (3, 4)
  target.load(ctx, counted(12));
  CHECK(values<2>(target) == counted(12));
  CHECK(x(0, 0) == 0.0f);
  CHECK(x(0, 1) == 0.0f);
  CHECK(x(0, 2) == 4.0f);
  CHECK(x(0, 4) == 0.0f);
  CHECK_THROWS_WITH(target.load(ctx, counted(11)), "load: 11 elements do not fill shape (3, 4)");
  CHECK_THROWS_AS(target.load(ctx, counted(13)), ShapeError);
  CHECK_NOTHROW((tenon::empty<float>(ctx, {0, 3}).load(ctx, {})));
  const bool flags[2]{true, false};
  CHECK(tenon::from_span<bool>(ctx, {2}, flags)(0));
}

TEST_CASE("tensor: cast rounds to nearest even and otherwise converts like static_cast", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::from_list<double>(ctx, {2, 2}, {1.0 + 0x1p-11 + 0x1p-40, -2.75, 0.0, 1e6});
  const auto half = x.transpose(0, 1).cast<float16>(ctx);
  CHECK(half.is_contiguous());
  CHECK(float(half(0, 0)) == 1.0f + 0x1p-10f);  // one rounding; by way of float it would be 1
  CHECK(float(half(1, 0)) == -2.75f);
  CHECK(std::isinf(float(half(1, 1))));
  CHECK(x.cast<std::int32_t>(ctx)(0, 1) == -2);
  CHECK_FALSE(x.cast<bool>(ctx)(1, 0));
  CHECK(x.cast<bool>(ctx)(0, 1));
  CHECK(tenon::from_list<float>(ctx, {1}, {0x1p-149}).cast<bool>(ctx)(0));
  const auto whole = tenon::full<std::int64_t>(ctx, {1}, 0x1010001);
  CHECK(float(whole.cast<bfloat16>(ctx)(0)) == 0x1.02p24f);  // 24 bits of float would have made it a tie
  CHECK(float(tenon::full<bfloat16>(ctx, {1}, bfloat16(3.0f)).cast<float16>(ctx)(0)) == 3.0f);
  CHECK(tenon::full<float16>(ctx, {1}, float16(-3.5f)).cast<std::int8_t>(ctx)(0) == -3);
}

TEST_CASE("tensor: copy between any two layouts of one shape", "[copy]") {
  Context<Cpu> ctx(1);
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    Sizes<3> sizes{};
    for (auto& size : sizes) size = static_cast<std::int64_t>(random() % 5);
    std::vector<float> memory(2000, -1.0f);
    std::vector<float> source(2000);
    std::iota(source.begin(), source.end(), 0.0f);
    const auto strides_for = [&](bool broadcast) {
      Sizes<3> order{0, 1, 2};
      std::shuffle(order.begin(), order.end(), random);
      Sizes<3> strides{};
      std::int64_t step = 1;
      for (const std::int64_t dim : order) {
        strides[static_cast<std::size_t>(dim)] = random() % 3 == 0 ? -step : step;
        step = step * std::max<std::int64_t>(1, sizes[static_cast<std::size_t>(dim)]) +
               static_cast<std::int64_t>(random() % 2);
      }
      if (broadcast) strides[random() % 3] = 0;
      return strides;
    };
    const View<float, 3> to(memory.data() + 1000, Layout<3>(sizes, strides_for(false)));
    const View<const float, 3> from(source.data() + 1000, Layout<3>(sizes, strides_for(random() % 2 == 0)));
    tenon::copy(ctx, to, from);
    std::int64_t written = 0;
    bool right = true;
    for (std::int64_t i = 0; i < sizes[0]; ++i) {
      for (std::int64_t j = 0; j < sizes[1]; ++j) {
        for (std::int64_t k = 0; k < sizes[2]; ++k) {
          right = right && to(i, j, k) == from(i, j, k);
          ++written;
        }
      }
    }
    CHECK(right);
    CHECK(std::count(memory.begin(), memory.end(), -1.0f) == 2000 - written);  // and nothing beside them
  }
  const auto x = tenon::zeros<float>(ctx, {2, 3});
  const auto y = tenon::zeros<float>(ctx, {3, 2});
  CHECK_THROWS_WITH(tenon::copy(ctx, View<float, 2>(x), View<float, 2>(y)),
                    "copy: dst has shape (2, 3), but src has shape (3, 2)");
}

TEST_CASE("tensor: creation", "[create]") {
  Context<Cpu> ctx(1);
  CHECK(values<2>(tenon::full<float>(ctx, {2, 2}, 1.5f)) == std::vector<float>(4, 1.5f));
  CHECK(values<1>(tenon::arange<float>(ctx, 4)) == counted(4));
  CHECK(tenon::arange<std::int64_t>(ctx, 0).empty());
  CHECK_THROWS_AS(tenon::arange<float>(ctx, -1), ShapeError);
  CHECK(float(tenon::zeros<bfloat16>(ctx, {3})(2)) == 0.0f);
  CHECK(tenon::from_list<bool>(ctx, {2}, {0, 1})(1));
  CHECK_THROWS_AS(tenon::from_list<float>(ctx, {3}, {1, 2}), ShapeError);
  CHECK_THROWS_AS(tenon::from_span<float>(ctx, {2, 2}, counted(5)), ShapeError);
  CHECK(tenon::full<float>(ctx, Sizes<0>{}, 2.0f)() == 2.0f);

  const auto grid = tenon::zeros<float>(ctx, {3, 4});
  tenon::fill(ctx, View<float, 2>(grid.slice(1, 1, 4, 2)), 9.0f);
  CHECK(values<2>(grid) == std::vector<float>{0, 9, 0, 9, 0, 9, 0, 9, 0, 9, 0, 9});
}

TEST_CASE("E8: storage is aligned to 64 bytes whatever flags a file is compiled with", "[storage]") {
  Context<Cpu> ctx(1);
  static_assert(tenon::storage_alignment == 64);
  // Sizes that no alignment macro of a compiler or of Eigen may change.
  static_assert(sizeof(View<float, 2>) == 40 && alignof(View<float, 2>) == 8);
  static_assert(sizeof(tenon::Storage<Cpu>) == 40 && alignof(tenon::Storage<Cpu>) == 8);
  static_assert(sizeof(Tensor<float, 2>) == 80 && alignof(Tensor<float, 2>) == 8);
  for (const std::int64_t count : {0, 1, 3, 17, 63, 64, 65, 1000, 100000, 600000, 1200001}) {
    const auto x = tenon::empty<float>(ctx, {count});
    CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 64 == 0);
    CHECK(x.storage().bytes() == static_cast<std::size_t>(count) * 4);
    if (count > 0) x(count - 1) = 1.0f;
  }
}

TEST_CASE("E10: memory that cannot be had is an Error, and everything works afterwards", "[storage]") {
  Context<Cpu> ctx(1);
  CHECK_THROWS_AS(tenon::empty<float>(ctx, {std::int64_t{1} << 58}), tenon::Error);
  CHECK_THROWS_WITH(tenon::empty<std::int8_t>(ctx, {std::int64_t{1} << 60}),
                    "cannot allocate 1152921504606846976 bytes of CPU memory");
  CHECK_THROWS_AS(tenon::empty<std::int8_t>(ctx, {std::numeric_limits<std::int64_t>::max()}), tenon::Error);
  CHECK_THROWS_AS(tenon::empty<double>(ctx, {std::numeric_limits<std::int64_t>::max()}), ShapeError);
  CHECK_THROWS_AS(tenon::detail::allocate_host_block(std::numeric_limits<std::size_t>::max()), tenon::Error);
  CHECK_THROWS_AS(tenon::detail::allocate_host_block(std::numeric_limits<std::size_t>::max() - 64), tenon::Error);
  CHECK_THROWS_AS(tenon::detail::allocate_host_block(std::numeric_limits<std::size_t>::max() - 129), tenon::Error);
  const auto huge = tenon::full<float>(ctx, {1}, 3.0f).expand({1}).expand({1});
  CHECK_THROWS_AS((tenon::full<float>(ctx, {1}, 3.0f).expand({std::int64_t{1} << 60}).clone(ctx)), tenon::Error);
  CHECK(huge(0) == 3.0f);
  const auto x = tenon::full<float>(ctx, {1000}, 2.0f);
  CHECK(x(999) == 2.0f);
}

TEST_CASE("tensor: empty shapes go through everything", "[tensor]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::empty<float>(ctx, {0, 3});
  CHECK(x.empty());
  CHECK(x.clone(ctx).sizes() == Sizes<2>{0, 3});
  CHECK(x.transpose(0, 1).contiguous(ctx).sizes() == Sizes<2>{3, 0});
  CHECK(x.reshape(ctx, {3, 0, 7}).empty());
  CHECK(x.cast<float16>(ctx).empty());
  CHECK(x.slice(1, 1, 3).sizes() == Sizes<2>{0, 2});
  CHECK(x.select(1, 2).empty());
  CHECK(x.expand({0, 3}).empty());
  CHECK(tenon::zeros<float>(ctx, {3, 4}).slice(0, 3, 3).select(1, 0).empty());
  CHECK(Tensor<float, 2>().empty());
  CHECK(Tensor<float, 2>().clone(ctx).empty());
}
