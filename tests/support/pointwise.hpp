// Point-wise programs of tests, written as text.
#pragma once

#include <cstdint>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tenon/ops/pointwise_program.hpp>
#include <tenon/tensor/layout.hpp>

#include "support/compare.hpp"

namespace support {

/// "0 1 + r 2 * s" and so on: digits load, + * sum and multiply, c multiplies complex numbers, r is relu, s is silu.
inline tenon::PointwiseProgram pointwise_program(std::string_view text) {
  using tenon::PointwiseCode;
  std::vector<tenon::PointwiseStep> steps;
  for (const char c : text) {
    if (c >= '0' && c <= '9') steps.push_back({PointwiseCode::load, static_cast<std::uint8_t>(c - '0')});
    if (c == '+') steps.push_back({PointwiseCode::sum, 0});
    if (c == '*') steps.push_back({PointwiseCode::hadamard_product, 0});
    if (c == 'c') steps.push_back({PointwiseCode::complex_hadamard_product, 0});
    if (c == 'r') steps.push_back({PointwiseCode::relu, 0});
    if (c == 's') steps.push_back({PointwiseCode::silu, 0});
  }
  return tenon::PointwiseProgram(steps);
}

/// What a program of a few steps on numbers between -3 and 3 may be off by.
template <class T>
Tolerance pointwise_tolerance() {
  if constexpr (std::is_integral_v<T>) {
    return {};
  } else {
    // Each step may land beside its rounding and is multiplied later.
    return {60 * epsilon<T>() + denormal<T>(), 4 * epsilon<T>()};
  }
}

/// The layout as it is, or, once in three times, broadcast along some of its dimensions.
inline tenon::Layout<4> sometimes_broadcast(const tenon::Layout<4>& layout, std::mt19937& random) {
  if (random() % 3 != 0) return layout;
  tenon::Sizes<4> strides = layout.strides();
  for (std::int64_t& stride : strides) stride = random() % 2 == 0 ? 0 : stride;
  return {layout.sizes(), strides};
}

}  // namespace support
