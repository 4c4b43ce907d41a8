// Making tensors from values in the source.
#include <cstdint>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include <tenon/ops/linear.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/tensor.hpp>

namespace {

using tenon::Cpu;

TEST_CASE("full and fill take doubles for the narrow floating-point types", "[create]") {
  tenon::Context<Cpu> ctx;
  const auto brain = tenon::full<tenon::bfloat16>(ctx, {2, 3}, 1.5f);
  CHECK(static_cast<float>(brain(1, 2)) == 1.5f);
  // 1 + 2^-8 + 2^-40 is above the middle of two neighbours; rounded to float first it would be the middle.
  const auto rounded = tenon::full<tenon::bfloat16>(ctx, {1}, 1.0 + 0x1p-8 + 0x1p-40);
  CHECK(static_cast<float>(rounded(0)) == 1.0f + 0x1p-7f);

  auto half = tenon::zeros<tenon::float16>(ctx, {2, 2});
  tenon::View<tenon::float16, 2, Cpu> view = half;
  fill(ctx, view, 1.0f);
  CHECK(static_cast<float>(half(1, 1)) == 1.0f);
  fill(ctx, view.transpose(0, 1), tenon::float16(0.25f));
  CHECK(static_cast<float>(half(0, 1)) == 0.25f);
}

TEST_CASE("Integers reach a tensor with all their bits", "[create]") {
  tenon::Context<Cpu> ctx;
  const std::int64_t n = (std::int64_t{1} << 53) + 1;  // no double
  CHECK(tenon::full<std::int64_t>(ctx, {1}, n)(0) == n);
  const auto list = tenon::from_list<std::int64_t>(ctx, {3}, {n, -n, std::numeric_limits<std::int64_t>::max()});
  CHECK(list(0) == n);
  CHECK(list(1) == -n);
  CHECK(list(2) == std::numeric_limits<std::int64_t>::max());
  const auto flags = tenon::from_list<bool>(ctx, {2}, {true, false});
  CHECK(flags(0));
  CHECK_FALSE(flags(1));
  CHECK(static_cast<float>(tenon::from_list<tenon::float16>(ctx, {2}, {1, 0.5})(1)) == 0.5f);
}

TEST_CASE("ones is full of ones", "[create]") {
  tenon::Context<Cpu> ctx;
  CHECK(tenon::ones<float>(ctx, {2, 2})(1, 0) == 1.0f);
  CHECK(static_cast<float>(tenon::ones<tenon::bfloat16>(ctx, {2})(1)) == 1.0f);
  CHECK(tenon::ones<std::int32_t>(ctx, tenon::Sizes<1>{3})(2) == 1);
}

TEST_CASE("linear needs no bias argument", "[create][linear]") {
  tenon::Context<Cpu> ctx;
  const auto in = tenon::from_list<float>(ctx, {1, 2}, {1, 2});
  const auto weight = tenon::from_list<float>(ctx, {3, 2}, {1, 0, 0, 1, 1, 1});
  auto out = tenon::zeros<float>(ctx, {1, 3});
  tenon::linear(ctx, out, in, weight);
  CHECK(out(0, 0) == 1.0f);
  CHECK(out(0, 1) == 2.0f);
  CHECK(out(0, 2) == 3.0f);
}

}  // namespace
