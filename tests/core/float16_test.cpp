#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <tenon/core/dtype.hpp>
#include <tenon/core/float16.hpp>

namespace {

using tenon::bfloat16;
using tenon::float16;
using tenon::float8_e4m3;

/// What the bits mean, straight from the definition of a binary floating-point format, in double.
double value_of(std::uint32_t bits, int exponent_bits, int fraction_bits, bool has_infinity) {
  const std::uint32_t fraction = bits & ((1u << fraction_bits) - 1u);
  const std::uint32_t exponent = (bits >> fraction_bits) & ((1u << exponent_bits) - 1u);
  const std::uint32_t all_ones = (1u << exponent_bits) - 1u;
  const double sign = ((bits >> (exponent_bits + fraction_bits)) & 1u) != 0 ? -1.0 : 1.0;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double scaled = std::ldexp(static_cast<double>(fraction), -fraction_bits);
  if (has_infinity && exponent == all_ones) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  if (!has_infinity && exponent == all_ones && fraction == (1u << fraction_bits) - 1u) return std::nan("");
  if (exponent == 0) return sign * std::ldexp(scaled, 1 - bias);
  return sign * std::ldexp(1.0 + scaled, static_cast<int>(exponent) - bias);
}

/// Round to nearest, ties to even, on the grid of a format with `fraction_bits` and smallest normal exponent `lowest`;
/// what exceeds the largest finite value after rounding becomes infinity. Double arithmetic only.
double nearest_even(double value, int fraction_bits, int lowest, double largest) {
  if (value == 0.0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);  // |value| in [2^(exponent-1), 2^exponent)
  const int unit = std::max(exponent - 1, lowest) - fraction_bits;
  const double scaled = std::ldexp(value, -unit);
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  if (rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2.0) != 0.0)) whole += 1.0;
  const double result = std::ldexp(whole, unit);
  return std::abs(result) > largest ? std::copysign(HUGE_VAL, value) : std::copysign(result, value);
}

bool same(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b && std::signbit(a) == std::signbit(b);
}

double half_oracle(double value) { return nearest_even(value, 10, -14, 65504.0); }
double brain_oracle(double value) { return nearest_even(value, 7, -126, 0x1.FEp127); }

/// Nearest of all 256 values, ties to the even pattern, finite values saturate: by search.
std::uint8_t e4m3_oracle(double value) {
  if (std::isnan(value) || std::isinf(value)) return static_cast<std::uint8_t>(std::signbit(value) ? 0xffu : 0x7fu);
  const std::uint32_t sign = std::signbit(value) ? 0x80u : 0u;
  std::uint32_t best = 0;
  double best_distance = HUGE_VAL;
  for (std::uint32_t code = 0; code < 0x7fu; ++code) {
    const double distance = std::abs(value_of(code, 4, 3, false) - std::abs(value));
    if (distance < best_distance || (distance == best_distance && (code & 1u) == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return static_cast<std::uint8_t>(sign | best);
}

/// Floats of every size: all exponents, with fractions at and around what 16-bit formats round at.
std::vector<float> interesting_floats() {
  std::vector<float> values;
  std::mt19937 random(1);
  std::vector<std::uint32_t> fractions{0u, 1u, 2u, 0x7fffffu, 0x7ffffeu, 0x400000u, 0x3fffffu, 0x400001u};
  for (const int shift : {13, 16, 20}) {
    for (const std::uint32_t base : {0u, 1u, 2u, 3u, 5u}) {
      for (const int around : {-1, 0, 1}) {
        const std::uint32_t halfway = (base << shift) + (1u << (shift - 1));
        fractions.push_back((halfway + static_cast<std::uint32_t>(around)) & 0x7fffffu);
        fractions.push_back(((base << shift) + static_cast<std::uint32_t>(around)) & 0x7fffffu);
      }
    }
  }
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t fraction : fractions) {
      for (const std::uint32_t sign : {0u, 1u})
        values.push_back(std::bit_cast<float>(sign << 31 | exponent << 23 | fraction));
    }
    for (int i = 0; i < 200; ++i)
      values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random() & 0x807fffffu) | exponent << 23));
  }
  return values;
}

}  // namespace

TEST_CASE("float16: every pattern widens to its value and comes back", "[float16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const float16 half = float16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = half;
    const double expected = value_of(bits, 5, 10, true);
    if (!same(wide, expected)) ++wrong;
    if (std::isnan(expected) ? !std::isnan(static_cast<float>(float16(wide))) : float16(wide).bits() != bits) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16: every pattern widens to its value and comes back", "[float16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const bfloat16 brain = bfloat16::from_bits(static_cast<std::uint16_t>(bits));
    const float wide = brain;
    const double expected = value_of(bits, 8, 7, true);
    if (!same(wide, expected)) ++wrong;
    if (std::isnan(expected) ? !std::isnan(static_cast<float>(bfloat16(wide))) : bfloat16(wide).bits() != bits) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("float8_e4m3: every pattern widens to its value and comes back", "[float16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 256; ++bits) {
    const float8_e4m3 eight = float8_e4m3::from_bits(static_cast<std::uint8_t>(bits));
    const float wide = eight;
    if (!same(wide, value_of(bits, 4, 3, false))) ++wrong;
    if (float8_e4m3(wide).bits() != bits) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("narrowing rounds to nearest, ties to even", "[float16]") {
  int wrong_half = 0;
  int wrong_brain = 0;
  int wrong_eight = 0;
  for (const float value : interesting_floats()) {
    const double wide = static_cast<double>(value);
    if (!same(static_cast<float>(float16(value)), half_oracle(wide))) ++wrong_half;
    if (!same(static_cast<float>(bfloat16(value)), brain_oracle(wide))) ++wrong_brain;
    const std::uint8_t eight = float8_e4m3(value).bits();
    if (std::isnan(value) ? (eight & 0x7fu) != 0x7fu : eight != e4m3_oracle(wide)) ++wrong_eight;
  }
  CHECK(wrong_half == 0);
  CHECK(wrong_brain == 0);
  CHECK(wrong_eight == 0);
}

TEST_CASE("narrowing a double rounds once, not twice", "[float16]") {
  // Just above the middle of two neighbours, by less than a float can hold: through float it would be a tie.
  CHECK(float16(1.0 + 0x1p-11 + 0x1p-40).bits() == float16(1.0f + 0x1p-10f).bits());
  CHECK(float16(1.0 + 0x1p-11).bits() == float16(1.0f).bits());
  CHECK(float16(-1.0 - 0x1p-11 - 0x1p-40).bits() == float16(-1.0f - 0x1p-10f).bits());
  CHECK(float16(1.0 + 0x3p-11 - 0x1p-40).bits() == float16(1.0f + 0x1p-10f).bits());
  CHECK(bfloat16(1.0 + 0x1p-8 + 0x1p-45).bits() == bfloat16(1.0f + 0x1p-7f).bits());
  CHECK(float8_e4m3(1.0 + 0x1p-4 + 0x1p-45).bits() == float8_e4m3(1.125f).bits());
  CHECK(float16(0x1p-25).bits() == 0);
  CHECK(float16(0x1p-25 + 0x1p-60).bits() == 1);
  CHECK(bfloat16(0x1p-134 + 0x1p-180).bits() == 1);
  CHECK(float16(65520.0).bits() == 0x7c00u);
  CHECK(float16(65520.0 - 0x1p-30).bits() == float16(65504.0f).bits());
  CHECK(std::isinf(static_cast<float>(bfloat16(1e300))));
  CHECK(float16(1e-300).bits() == 0);
  CHECK(float16(-1e-300).bits() == 0x8000u);
  CHECK(float8_e4m3(1e300).bits() == 0x7eu);
  CHECK(std::isnan(static_cast<float>(float16(std::nan("")))));
  CHECK(float16(HUGE_VAL).bits() == 0x7c00u);

  std::mt19937_64 random(2);
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const auto exponent = static_cast<std::uint64_t>(1023 - 30 + static_cast<int>(random() % 50));
    std::uint64_t fraction = random() & 0xfffffffffffffu;
    if (i % 2 == 0) fraction = (fraction & 0xffe0000000000u) | 0x10000000000u >> (random() % 3) | (random() & 3u);
    const double value = std::bit_cast<double>((random() & 0x8000000000000000u) | exponent << 52 | fraction);
    if (!same(static_cast<float>(float16(value)), half_oracle(value))) ++wrong;
    if (!same(static_cast<float>(bfloat16(value)), brain_oracle(value))) ++wrong;
    if (float8_e4m3(value).bits() != e4m3_oracle(value)) ++wrong;
  }
  CHECK(wrong == 0);
}

#ifdef __FLT16_MAX__
TEST_CASE("float16 agrees with the compiler's own _Float16", "[float16]") {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto theirs = std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits));
    if (!same(static_cast<float>(float16::from_bits(static_cast<std::uint16_t>(bits))), static_cast<float>(theirs)))
      ++wrong;
  }
  for (const float value : interesting_floats()) {
    if (!same(static_cast<float>(float16(value)), static_cast<float>(static_cast<_Float16>(value)))) ++wrong;
  }
  CHECK(wrong == 0);
}
#endif

TEST_CASE("narrow floats convert at compile time and only explicitly", "[float16]") {
  static_assert(float16(1.5f).bits() == 0x3e00u);
  static_assert(bfloat16(1.5f).bits() == 0x3fc0u);
  static_assert(float8_e4m3(448.0f).bits() == 0x7eu);
  static_assert(float(float16(0.1f)) != 0.1f);
  static_assert(!std::is_convertible_v<float, float16>);
  static_assert(!std::is_convertible_v<float, bfloat16>);
  static_assert(!std::is_convertible_v<float, float8_e4m3>);
  static_assert(std::is_convertible_v<float16, float>);
  static_assert(std::is_trivially_copyable_v<float16> && std::is_trivially_copyable_v<bfloat16>);
  CHECK(float16(2.0f) + float16(0.5f) == 2.5f);  // arithmetic is float arithmetic
  CHECK(float16(-0.0f) == float16(0.0f));
  CHECK_FALSE(float16(std::numeric_limits<float>::quiet_NaN()) == float16(std::numeric_limits<float>::quiet_NaN()));
}
