// Comparing results with an oracle: the tolerance a + eps(T) * |ref|, scaled by the length of the reduction.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include <tenon/core/dtype.hpp>
#include <tenon/cpu/reference.hpp>
#include <tenon/tensor/view.hpp>

namespace support {

/// Distance of 1 to the next value of T.
template <class T>
constexpr double epsilon() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-52;
  if constexpr (std::is_same_v<T, float>) return 0x1p-23;
  if constexpr (std::is_same_v<T, tenon::float16>) return 0x1p-10;
  return 0x1p-7;
}

/// Smallest positive value of T.
template <class T>
constexpr double denormal() {
  if constexpr (std::is_same_v<T, double>) return 0x1p-1074;
  if constexpr (std::is_same_v<T, tenon::float16>) return 0x1p-24;
  if constexpr (std::is_same_v<T, float>) return 0x1p-149;
  return 0x1p-133;
}

struct Tolerance {
  double absolute = 0.0;
  double relative = 0.0;
};

/// What a result may be off by after sums of `length` products whose sizes add up to `magnitude`: the error of the sum,
/// which is formed in the accumulator type, and `roundings` roundings to T.
template <class T>
Tolerance tolerance(std::int64_t length = 1, double magnitude = 1.0, double roundings = 1.0) {
  const double sum = epsilon<tenon::accumulator_t<T>>() * (4.0 + std::sqrt(static_cast<double>(length)));
  return {sum * magnitude + denormal<T>(), roundings * 0.5 * epsilon<T>() + sum};
}

/// Empty where every element is within the tolerance of `expected` (row-major), else a sentence about the worst one.
/// NaN must meet NaN. An infinity meets itself, and where T's range ends, whatever rounds to it.
template <class T, std::size_t Rank>
std::string mismatch(const tenon::View<T, Rank>& actual, const std::vector<double>& expected, Tolerance tolerance) {
  using Value = std::remove_cv_t<T>;
  const std::vector<double> values = tenon::reference::elements(actual);
  std::ostringstream text;
  text.precision(17);
  if (values.size() != expected.size()) {
    text << values.size() << " elements, expected " << expected.size();
    return text.str();
  }
  double worst = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = values[i];
    const double y = expected[i];
    if (x == y || (std::isnan(x) && std::isnan(y)) || x == tenon::reference::rounded<Value>(y)) continue;
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(y);
    const double error = std::abs(x - y);
    if (error <= allowed) continue;
    const double excess = std::isnan(error) ? INFINITY : error / allowed;
    if (excess <= worst) continue;
    worst = excess;
    text.str("");
    text << "element " << i << " of " << values.size() << " is " << x << ", expected " << y << " within " << allowed;
  }
  return text.str();
}

/// Bits of all elements in row-major order, for comparisons that must be exact.
template <class T, std::size_t Rank>
std::vector<std::uint64_t> bits(const tenon::View<T, Rank>& x) {
  std::vector<std::uint64_t> result;
  for (const double value : tenon::reference::elements(x)) result.push_back(std::bit_cast<std::uint64_t>(value));
  return result;
}

}  // namespace support
