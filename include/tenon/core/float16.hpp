// float16 (IEEE binary16), bfloat16 and float8_e4m3: value types that hold the bits and convert.
//
// Widening to float is exact and implicit. Narrowing is explicit and rounds to nearest, ties to even; NaN stays NaN.
// Arithmetic on them is arithmetic on float: `float(a) + float(b)`, then round where the algorithm rounds.
#pragma once

#include <cstdint>
#include <limits>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// std::bit_cast, which kernels may not call without a compiler flag.
template <class To, class From>
TENON_HD constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

/// double to float, rounded to odd: a value between two floats becomes the one with an odd last bit. Rounding that to
/// 16 or 8 bits gives what rounding the double once would give (Boldo and Melquiond, 2008), since float keeps more than
/// two bits beyond them.
TENON_HD constexpr float round_to_odd(double value) noexcept {
  const auto nearest = static_cast<float>(value);
  const auto back = static_cast<double>(nearest);
  if (back == value || value != value) return nearest;
  auto bits = detail::bit_cast<std::uint32_t>(nearest);
  if (value > 0.0 ? back > value : back < value) --bits;  // towards zero; infinity becomes the largest float
  return detail::bit_cast<float>(bits | 1u);
}

}  // namespace detail

/// Truncated binary32: 8 exponent bits, 7 fraction bits.
class bfloat16 {
 public:
  bfloat16() = default;

  TENON_HD constexpr explicit bfloat16(float value) noexcept {
    const auto bits = detail::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
      bits_ = static_cast<std::uint16_t>((bits >> 16) | 0x40u);  // quiet, so that the payload cannot round to infinity
    } else {
      bits_ = static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
    }
  }
  TENON_HD constexpr explicit bfloat16(double value) noexcept : bfloat16(detail::round_to_odd(value)) {}

  TENON_HD constexpr operator float() const noexcept {
    return detail::bit_cast<float>(static_cast<std::uint32_t>(bits_) << 16);
  }

  [[nodiscard]] TENON_HD constexpr std::uint16_t bits() const noexcept { return bits_; }
  [[nodiscard]] TENON_HD static constexpr bfloat16 from_bits(std::uint16_t bits) noexcept {
    bfloat16 result{};
    result.bits_ = bits;
    return result;
  }

 private:
  std::uint16_t bits_;
};

/// IEEE 754 binary16: 5 exponent bits, 10 fraction bits. Values from 65520 on round to infinity.
class float16 {
 public:
  float16() = default;

  TENON_HD constexpr explicit float16(float value) noexcept {
    const auto bits = detail::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000u) {
      half = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
    } else if (magnitude >= 0x477ff000u) {
      half = 0x7c00u;
    } else if (magnitude >= 0x38800000u) {
      const std::uint32_t rebased = magnitude - 0x38000000u;  // exponent bias 127 -> 15
      half = (rebased + 0xfffu + ((rebased >> 13) & 1u)) >> 13;
    } else if (magnitude >= 0x33000000u) {  // subnormal result: units of 2^-24
      const std::uint32_t exponent = magnitude >> 23;
      const std::uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
      const std::uint32_t shift = 126u - exponent;
      const std::uint32_t remainder = fraction & ((1u << shift) - 1u);
      const std::uint32_t halfway = 1u << (shift - 1u);
      half = fraction >> shift;
      if (remainder > halfway || (remainder == halfway && (half & 1u) != 0u)) ++half;
    }
    bits_ = static_cast<std::uint16_t>(sign | half);
  }
  TENON_HD constexpr explicit float16(double value) noexcept : float16(detail::round_to_odd(value)) {}

  TENON_HD constexpr operator float() const noexcept {
    const std::uint32_t sign = (bits_ & 0x8000u) << 16;
    const std::uint32_t exponent = (bits_ >> 10) & 0x1fu;
    const std::uint32_t fraction = bits_ & 0x3ffu;
    if (exponent == 0x1fu) return detail::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
    if (exponent == 0) {  // zero and subnormals: fraction * 2^-24 is exact in float
      const float value = static_cast<float>(fraction) * 0x1p-24f;
      return sign != 0 ? -value : value;
    }
    return detail::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
  }

  [[nodiscard]] TENON_HD constexpr std::uint16_t bits() const noexcept { return bits_; }
  [[nodiscard]] TENON_HD static constexpr float16 from_bits(std::uint16_t bits) noexcept {
    float16 result{};
    result.bits_ = bits;
    return result;
  }

 private:
  std::uint16_t bits_;
};

/// FP8 E4M3 (the "FN" variant of the OCP 8-bit floating point specification 1.0): no infinity, one NaN pattern, largest
/// value 448. Narrowing saturates finite values to ±448 and turns infinity into NaN.
class float8_e4m3 {
 public:
  float8_e4m3() = default;

  TENON_HD constexpr explicit float8_e4m3(float value) noexcept {
    const auto bits = detail::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = (bits >> 24) & 0x80u;
    const std::uint32_t magnitude = bits & 0x7fffffffu;
    std::uint32_t result = 0;
    if (magnitude >= 0x7f800000u) {
      result = 0x7fu;
    } else if (magnitude >= 0x43e00000u) {  // 448
      result = 0x7eu;
    } else if (magnitude >= 0x3c800000u) {                    // 2^-6, the smallest normal value
      const std::uint32_t rebased = magnitude - 0x3c000000u;  // exponent bias 127 -> 7
      result = (rebased + 0x7ffffu + ((rebased >> 20) & 1u)) >> 20;
    } else if (magnitude >= 0x3a800000u) {  // 2^-10, half of the smallest subnormal value: units of 2^-9
      const std::uint32_t exponent = magnitude >> 23;
      const std::uint32_t fraction = (magnitude & 0x7fffffu) | 0x800000u;
      const std::uint32_t shift = 141u - exponent;
      const std::uint32_t remainder = fraction & ((1u << shift) - 1u);
      const std::uint32_t halfway = 1u << (shift - 1u);
      result = fraction >> shift;
      if (remainder > halfway || (remainder == halfway && (result & 1u) != 0u)) ++result;
    }
    bits_ = static_cast<std::uint8_t>(sign | result);
  }
  TENON_HD constexpr explicit float8_e4m3(double value) noexcept : float8_e4m3(detail::round_to_odd(value)) {}

  TENON_HD constexpr operator float() const noexcept {
    const std::uint32_t sign = (bits_ & 0x80u) << 24;
    const std::uint32_t exponent = (bits_ >> 3) & 0xfu;
    const std::uint32_t fraction = bits_ & 0x7u;
    if ((bits_ & 0x7fu) == 0x7fu) return detail::bit_cast<float>(sign | 0x7fc00000u);
    if (exponent == 0) {
      const float value = static_cast<float>(fraction) * 0x1p-9f;
      return sign != 0 ? -value : value;
    }
    return detail::bit_cast<float>(sign | ((exponent + 120u) << 23) | (fraction << 20));
  }

  [[nodiscard]] TENON_HD constexpr std::uint8_t bits() const noexcept { return bits_; }
  [[nodiscard]] TENON_HD static constexpr float8_e4m3 from_bits(std::uint8_t bits) noexcept {
    float8_e4m3 result{};
    result.bits_ = bits;
    return result;
  }

 private:
  std::uint8_t bits_;
};

static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2 && sizeof(float8_e4m3) == 1);

TENON_NAMESPACE_END
