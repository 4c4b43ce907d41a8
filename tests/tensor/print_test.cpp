#include <clocale>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>

#include <catch2/catch_test_macros.hpp>

#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/print.hpp>

namespace {
using tenon::Context;
using tenon::Cpu;
using tenon::Sizes;
}  // namespace

TEST_CASE("print: small tensors are shown whole, columns aligned", "[print]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::from_list<float>(ctx, {2, 3}, {1, -2.5, 3, 1000, 0.001, 1e20});
  CHECK(tenon::to_string(x) ==
        "float32 cpu tensor of shape (2, 3), strides (3, 1)\n"
        "[[    1,  -2.5,     3],\n"
        " [ 1000, 0.001, 1e+20]]");
  CHECK(tenon::to_string(x.transpose(0, 1)) ==
        "float32 cpu tensor of shape (3, 2), strides (1, 3)\n"
        "[[    1,  1000],\n"
        " [ -2.5, 0.001],\n"
        " [    3, 1e+20]]");
  CHECK(tenon::to_string(tenon::arange<std::int64_t>(ctx, 8).view({2, 2, 2})) ==
        "int64 cpu tensor of shape (2, 2, 2), strides (4, 2, 1)\n"
        "[[[0, 1],\n"
        "  [2, 3]],\n"
        "\n"
        " [[4, 5],\n"
        "  [6, 7]]]");
}

TEST_CASE("print: the middle of long dimensions is left out", "[print]") {
  Context<Cpu> ctx(1);
  CHECK(tenon::to_string(tenon::arange<std::int32_t>(ctx, 6)) ==
        "int32 cpu tensor of shape (6,), strides (1,)\n"
        "[0, 1, 2, 3, 4, 5]");
  CHECK(tenon::to_string(tenon::arange<std::int32_t>(ctx, 7)) ==
        "int32 cpu tensor of shape (7,), strides (1,)\n"
        "[0, 1, 2, ..., 4, 5, 6]");
  CHECK(tenon::to_string(tenon::arange<std::int32_t>(ctx, 1000)) ==
        "int32 cpu tensor of shape (1000,), strides (1,)\n"
        "[  0,   1,   2, ..., 997, 998, 999]");
  CHECK(tenon::to_string(tenon::arange<std::int32_t>(ctx, 16).view({8, 2})) ==
        "int32 cpu tensor of shape (8, 2), strides (2, 1)\n"
        "[[ 0,  1],\n"
        " [ 2,  3],\n"
        " [ 4,  5],\n"
        " ...,\n"
        " [10, 11],\n"
        " [12, 13],\n"
        " [14, 15]]");
  // Only what is shown is looked at: this tensor would need an exabyte.
  const auto keep = tenon::full<float>(ctx, {1}, 1.0f);
  CHECK(tenon::to_string(keep.expand({std::int64_t{1} << 60})) ==
        "float32 cpu tensor of shape (1152921504606846976,), strides (0,)\n"
        "[1, 1, 1, ..., 1, 1, 1]");
}

TEST_CASE("print: every dtype, rank 0, empty, and values that are no numbers", "[print]") {
  Context<Cpu> ctx(1);
  CHECK(tenon::to_string(tenon::full<float>(ctx, Sizes<0>{}, 0.1f)) ==
        "float32 cpu tensor of shape (), strides ()\n0.1");
  CHECK(tenon::to_string(tenon::empty<double>(ctx, {0})) == "float64 cpu tensor of shape (0,), strides (1,)\n[]");
  CHECK(tenon::to_string(tenon::empty<float>(ctx, {2, 0})) ==
        "float32 cpu tensor of shape (2, 0), strides (1, 1)\n[[],\n []]");
  CHECK(tenon::to_string(tenon::from_list<bool>(ctx, {2}, {1, 0})) ==
        "bool cpu tensor of shape (2,), strides (1,)\n[ true, false]");
  CHECK(tenon::to_string(tenon::from_list<std::int8_t>(ctx, {3}, {-128, 0, 127})) ==
        "int8 cpu tensor of shape (3,), strides (1,)\n[-128,    0,  127]");
  CHECK(tenon::to_string(tenon::from_list<std::uint8_t>(ctx, {2}, {65, 255})) ==
        "uint8 cpu tensor of shape (2,), strides (1,)\n[ 65, 255]");
  CHECK(tenon::to_string(tenon::from_list<tenon::float16>(ctx, {2}, {0.1, -65504})) ==
        "float16 cpu tensor of shape (2,), strides (1,)\n[0.099976,   -65504]");
  CHECK(tenon::to_string(tenon::from_list<tenon::bfloat16>(ctx, {1}, {3.14})) ==
        "bfloat16 cpu tensor of shape (1,), strides (1,)\n[3.1406]");
  CHECK(tenon::to_string(tenon::from_list<tenon::float8_e4m3>(ctx, {2}, {448, 0.3})) ==
        "float8_e4m3 cpu tensor of shape (2,), strides (1,)\n[   448, 0.3125]");
  const double infinity = std::numeric_limits<double>::infinity();
  CHECK(tenon::to_string(tenon::from_list<double>(ctx, {4}, {std::nan(""), -std::nan(""), infinity, -infinity})) ==
        "float64 cpu tensor of shape (4,), strides (1,)\n[ nan,  nan,  inf, -inf]");
}

TEST_CASE("print: views, tensors and any tensors print alike, on streams too", "[print]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::from_list<float>(ctx, {2}, {1, 2});
  const std::string expected = "float32 cpu tensor of shape (2,), strides (1,)\n[1, 2]";
  const tenon::View<const float, 1> view = x;
  const tenon::AnyTensor any = x;
  std::ostringstream stream;
  stream << x << "|" << view << "|" << any;
  CHECK(stream.str() == expected + "|" + expected + "|" + expected);
  CHECK(tenon::to_string(any) == expected);
}

TEST_CASE("print: a locale with a decimal comma changes nothing", "[print]") {
  Context<Cpu> ctx(1);
  const auto x = tenon::from_list<float>(ctx, {1}, {1.5});
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"}) {
    if (std::setlocale(LC_NUMERIC, name) != nullptr) break;  // where none is installed this is the C locale's check
  }
  const std::string text = tenon::to_string(x);
  std::setlocale(LC_NUMERIC, before.c_str());
  CHECK(text == "float32 cpu tensor of shape (1,), strides (1,)\n[1.5]");
}
