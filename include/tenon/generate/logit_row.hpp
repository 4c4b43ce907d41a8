// Passes over one row of logits, four at a time with the compilers' vector types, so that they are fast in a binary
// built with default flags on every architecture.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

using Float4 = float __attribute__((vector_size(16)));
using Int4 = std::int32_t __attribute__((vector_size(16)));

inline Float4 load4(const float* p) noexcept {
  Float4 v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

inline bool any_set(const Int4& mask) noexcept {
  std::uint64_t halves[2];
  std::memcpy(halves, &mask, sizeof halves);
  return (halves[0] | halves[1]) != 0;
}

/// What one look at a row tells: its largest value, where it first stands, and where the first NaN is (-1: nowhere).
struct RowScan {
  float max = -std::numeric_limits<float>::infinity();
  std::int64_t argmax = 0;
  std::int64_t first_nan = -1;
};

/// NaN is recognised by its bits, so the answer holds under -ffast-math too.
inline bool is_nan_bits(float x) noexcept { return (std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu) > 0x7F800000u; }

inline RowScan scan_row(const float* x, std::int64_t n) noexcept {
  RowScan result;
  constexpr float lowest = -std::numeric_limits<float>::infinity();
  Float4 best[4] = {};
  for (auto& b : best) b = Float4{lowest, lowest, lowest, lowest};
  Int4 nan = {};
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    for (int k = 0; k < 4; ++k) {
      const Float4 v = load4(x + i + 4 * k);
      best[k] = v > best[k] ? v : best[k];
      nan |= (std::bit_cast<Int4>(v) & 0x7FFFFFFF) > 0x7F800000;
    }
  }
  for (const auto& b : best) {
    for (int k = 0; k < 4; ++k) result.max = std::max(result.max, b[k]);
  }
  bool has_nan = any_set(nan);
  for (; i < n; ++i) {
    result.max = x[i] > result.max ? x[i] : result.max;
    has_nan = has_nan || is_nan_bits(x[i]);
  }
  if (has_nan) {
    result.first_nan = std::find_if(x, x + n, is_nan_bits) - x;
    return result;
  }
  i = 0;
  while (i + 16 <= n && !any_set((load4(x + i) == result.max) | (load4(x + i + 4) == result.max) |
                                 (load4(x + i + 8) == result.max) | (load4(x + i + 12) == result.max))) {
    i += 16;
  }
  result.argmax = std::find(x + i, x + n, result.max) - x;
  return result;
}

/// Four exponentials of non-positive numbers, to about 2e-7 relative; below -87 the result is exactly 0.
/// exp(x) = 2^k exp(r) with |r| <= ln(2) / 2, and the Taylor polynomial of degree 6 for exp(r).
inline Float4 exp4(const Float4& x) noexcept {
  constexpr float to_integer = 12582912.0f;  // 1.5 * 2^23: adding it leaves the rounded value in the low bits
  const Int4 inside = x > -87.0f;
  const Float4 safe = std::bit_cast<Float4>(std::bit_cast<Int4>(x) & inside);
  const Float4 shifted = safe * 1.44269504f + to_integer;
  const Float4 k = shifted - to_integer;
  const Float4 r = (safe - k * 0.693359375f) + k * 2.12194440e-4f;  // ln(2) in two parts, the first exact in products
  Float4 p = r * (1.0f / 720) + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  const Int4 exponent = (std::bit_cast<Int4>(shifted) << 23) + 0x3F800000;
  return std::bit_cast<Float4>(std::bit_cast<Int4>(p * std::bit_cast<Float4>(exponent)) & inside);
}

/// Sum of exp((x[i] - max) * scale). `max` is the largest x and finite, scale > 0; -inf entries count as 0. With
/// `Store` the terms are written to out[0, n).
template <bool Store>
double sum_exp(const float* x, std::int64_t n, float max, float scale, float* out) noexcept {
  double total = 0;
  std::int64_t i = 0;
  while (i < n) {
    Float4 sum[2] = {};
    const std::int64_t end = std::min(n, i + 1024);  // float partial sums stay short, so they stay accurate
    for (; i + 8 <= end; i += 8) {
      for (int k = 0; k < 2; ++k) {
        const Float4 e = exp4((load4(x + i + 4 * k) - max) * scale);
        if constexpr (Store) std::memcpy(out + i + 4 * k, &e, sizeof e);
        sum[k] += e;
      }
    }
    for (; i < end; ++i) {
      const float z = (x[i] - max) * scale;
      const float e = exp4(Float4{z, z, z, z})[0];
      if constexpr (Store) out[i] = e;
      total += static_cast<double>(e);
    }
    const Float4 both = sum[0] + sum[1];
    total += (static_cast<double>(both[0]) + static_cast<double>(both[1])) +
             (static_cast<double>(both[2]) + static_cast<double>(both[3]));
  }
  return total;
}

/// Sum of a few thousand non-negative floats.
inline double sum_row(const float* x, std::int64_t n) noexcept {
  Float4 sum[2] = {};
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    sum[0] += load4(x + i);
    sum[1] += load4(x + i + 4);
  }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(x[i]);
  const Float4 both = sum[0] + sum[1];
  for (int k = 0; k < 4; ++k) total += static_cast<double>(both[k]);
  return total;
}

/// Calls visit(i, x[i]) in ascending order for every x[i] >= bound(). The bound is read again after each visit, so it
/// may grow; blocks without such a value are skipped at vector speed.
template <typename Bound, typename Visit>
void for_each_at_least(const float* x, std::int64_t n, const Bound& bound, const Visit& visit) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const float b = bound();
    if (!any_set((load4(x + i) >= b) | (load4(x + i + 4) >= b) | (load4(x + i + 8) >= b) | (load4(x + i + 12) >= b))) {
      continue;
    }
    for (std::int64_t k = i; k < i + 16; ++k) {
      if (x[k] >= bound()) visit(k, x[k]);
    }
  }
  for (; i < n; ++i) {
    if (x[i] >= bound()) visit(i, x[i]);
  }
}

/// The k-th largest of the finite values, or the lowest float where there are fewer. Linear time for every k: values
/// above the k-th largest so far gather in a buffer, which is cut back to k when it is full.
inline float kth_largest(const float* x, std::int64_t n, std::int64_t k, std::vector<float>& buffer) {
  const auto keep = static_cast<std::size_t>(k);
  const std::size_t capacity = 2 * keep + 64;
  buffer.clear();
  buffer.reserve(capacity);
  float bound = std::numeric_limits<float>::lowest();
  const auto cut = [&] {
    const auto kth = buffer.begin() + static_cast<std::ptrdiff_t>(keep - 1);
    std::nth_element(buffer.begin(), kth, buffer.end(), std::greater<>());
    bound = *kth;
    buffer.resize(keep);
  };
  for_each_at_least(
      x, n, [&] { return bound; },
      [&](std::int64_t, float value) {
        buffer.push_back(value);
        if (buffer.size() == capacity) cut();
      });
  if (buffer.size() < keep) return std::numeric_limits<float>::lowest();
  cut();
  return bound;
}

}  // namespace detail
TENON_NAMESPACE_END
