#include <cstdint>
#include <type_traits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/eigen.hpp>

namespace {
using tenon::Context;
using tenon::Cpu;
using tenon::View;
}  // namespace

TEST_CASE("as_eigen: rows and columns are those of the tensor, and nothing is copied", "[eigen]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::arange<float>(ctx, 12).view({3, 4});
  auto matrix = tenon::as_eigen<float>(x);
  REQUIRE(matrix.rows() == 3);
  REQUIRE(matrix.cols() == 4);
  CHECK(matrix(2, 1) == 9.0f);
  matrix(2, 1) = -1.0f;
  CHECK(x(2, 1) == -1.0f);
  matrix *= 2.0f;
  CHECK(x(1, 1) == 10.0f);

  const auto turned = tenon::as_eigen<float>(x.transpose(0, 1));
  CHECK(turned.rows() == 4);
  CHECK(turned(1, 2) == -2.0f);
  const auto part = tenon::as_eigen<float>(x.slice(0, 0, 3, 2).slice(1, 1, 4, 2));
  CHECK(part(1, 0) == -2.0f);
  CHECK(part(1, 1) == 22.0f);
  const auto broadcast = tenon::as_eigen<float>(x.slice(0, 1, 2).expand({5, 4}));
  CHECK(broadcast(4, 3) == 14.0f);
  CHECK(broadcast.sum() == 5.0f * (8 + 10 + 12 + 14));
}

TEST_CASE("as_eigen: a product equals the sum written out", "[eigen]") {
  Context<Cpu> ctx(1);
  const auto a = tenon::arange<double>(ctx, 6).view({2, 3});
  const auto b = tenon::arange<double>(ctx, 6).view({2, 3}).transpose(0, 1);
  const auto product = (tenon::as_eigen<double>(a) * tenon::as_eigen<double>(b)).eval();
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) {
      double sum = 0;
      for (std::int64_t k = 0; k < 3; ++k) sum += a(i, k) * b(k, j);
      CHECK(product(i, j) == sum);
    }
  }
}

TEST_CASE("as_eigen: vectors, const, empty and integer tensors", "[eigen]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::arange<std::int32_t>(ctx, 10);
  auto column = tenon::as_eigen<std::int32_t>(x.slice(0, 1, 10, 3));
  REQUIRE(column.size() == 3);
  CHECK(column.sum() == 1 + 4 + 7);
  column(1) = 100;
  CHECK(x(4) == 100);
  const View<const std::int32_t, 1> fixed = x;
  const auto constant = tenon::as_eigen(fixed);
  static_assert(std::is_const_v<std::remove_pointer_t<decltype(constant.data())>>);
  CHECK(constant(4) == 100);
  CHECK(tenon::as_eigen<float>(tenon::empty<float>(ctx, {0, 3})).size() == 0);
}

TEST_CASE("as_eigen: negative strides are an error, unless nothing lies along them", "[eigen]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::arange<float>(ctx, 6);
  const View<float, 1> backwards(x.data() + 5, tenon::Layout<1>({6}, {-1}));
  CHECK_THROWS_WITH(tenon::as_eigen(backwards), "as_eigen: strides (-1,) are negative, which Eigen::Map does not take");
  CHECK_THROWS_AS(tenon::as_eigen(View<float, 2>(x.data() + 5, tenon::Layout<2>({2, 3}, {3, -1}))), tenon::ShapeError);
}
