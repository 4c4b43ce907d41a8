// Integer helpers shared by layouts, arenas and loaders.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

/// Smallest integer not below a / b, for a >= 0 and b > 0.
template <std::integral I>
TENON_HD constexpr I ceil_div(I a, I b) noexcept {
  return static_cast<I>((a / b) + (a % b != 0 ? 1 : 0));
}

/// Smallest multiple of b not below a, for a >= 0 and b > 0.
template <std::integral I>
TENON_HD constexpr I align_up(I a, I b) noexcept {
  return static_cast<I>(ceil_div(a, b) * b);
}

/// a * b, or nothing where the product does not fit.
template <std::integral I>
constexpr std::optional<I> checked_mul(I a, I b) noexcept {
  I product{};
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

/// a + b, or nothing where the sum does not fit.
template <std::integral I>
constexpr std::optional<I> checked_add(I a, I b) noexcept {
  I sum{};
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}

/// a * b modulo 2^64: for strides that no element is reached by, which may be anything.
constexpr std::int64_t wrapping_mul(std::int64_t a, std::int64_t b) noexcept {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

TENON_NAMESPACE_END
