// The operators of graphs once more, plain and in double; see reference.hpp.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/cpu/reference.hpp>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
namespace reference {

/// A program on the numbers x[0], x[1], …, pairs of real and imaginary part; steps round to T.
template <class T>
std::array<double, 2> pointwise_pair(const PointwiseProgram& program, std::span<const std::array<double, 2>> x) {
  std::vector<std::array<double, 2>> stack;
  for (int s = 0; s < program.size(); ++s) {
    const PointwiseStep& step = program[s];
    if (step.code == PointwiseCode::load) {
      stack.push_back(x[step.operand]);
      continue;
    }
    const std::array<double, 2> b = stack.back();
    if (step.code != PointwiseCode::relu && step.code != PointwiseCode::silu) stack.pop_back();
    std::array<double, 2>& a = stack.back();
    std::array<double, 2> result{};
    for (std::size_t i = 0; i < 2; ++i) {
      switch (step.code) {
        case PointwiseCode::load: break;
        case PointwiseCode::sum: result[i] = a[i] + b[i]; break;
        case PointwiseCode::hadamard_product: result[i] = a[i] * b[i]; break;
        case PointwiseCode::complex_hadamard_product:
          result[i] = i == 0 ? a[0] * b[0] - a[1] * b[1] : a[0] * b[1] + a[1] * b[0];
          break;
        case PointwiseCode::relu: result[i] = std::isnan(a[i]) ? a[i] : std::max(0.0, a[i]); break;
        case PointwiseCode::silu: result[i] = a[i] / (1.0 + std::exp(-a[i])); break;
      }
      if constexpr (!std::is_integral_v<T>) result[i] = rounded<T>(result[i]);
    }
    a = result;
  }
  return stack.back();
}

/// Every step rounds to T, the last one too.
template <class T>
std::vector<double> pointwise(std::span<const View<const T, pointwise_rank, Cpu>> operands, const Sizes<4>& sizes,
                              const PointwiseProgram& program) {
  std::vector<double> result;
  for_each_index<4>(sizes, [&](const Sizes<4>& at) {
    std::vector<std::array<double, 2>> x;
    const std::int64_t part = at[3] % 2;
    for (const auto& operand : operands) {
      if (program.is_complex()) {
        x.push_back({element(operand, {at[0], at[1], at[2], 0}), element(operand, {at[0], at[1], at[2], 1})});
      } else {
        x.push_back({element(operand, at), element(operand, at)});
      }
    }
    result.push_back(pointwise_pair<T>(program, x)[static_cast<std::size_t>(part)]);
  });
  return result;
}

/// With a program the product is rounded to T before it.
template <class T>
std::vector<double> matmul(const View<const T, 3, Cpu>& a, const View<const T, 3, Cpu>& b,
                           const PointwiseProgram* program = nullptr,
                           std::span<const View<const T, 3, Cpu>> operands = {}) {
  std::vector<double> result;
  for_each_index<3>({a.size(0), a.size(1), b.size(2)}, [&](const Sizes<3>& at) {
    double sum = 0.0;
    for (std::int64_t p = 0; p < a.size(2); ++p) sum += element(a, {at[0], at[1], p}) * element(b, {at[0], p, at[2]});
    if (program != nullptr) {
      std::vector<std::array<double, 2>> x{{rounded<T>(sum), 0.0}};
      for (const auto& operand : operands) x.push_back({element(operand, at), 0.0});
      sum = pointwise_pair<T>(*program, x)[0];
    }
    result.push_back(sum);
  });
  return result;
}

template <class T>
std::vector<double> sliced_softmax(const View<const T, 3, Cpu>& in, std::int64_t prefix) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    for (std::int64_t j = 0; j < in.size(1); ++j) {
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t k = 0; k < prefix; ++k) largest = std::max(largest, element(in, {i, j, k}));
      double sum = 0.0;
      for (std::int64_t k = 0; k < prefix; ++k) sum += std::exp(element(in, {i, j, k}) - largest);
      for (std::int64_t k = 0; k < in.size(2); ++k) {
        const double x = element(in, {i, j, k});
        result.push_back(k < prefix ? std::exp(x - largest) / sum : x);
      }
    }
  }
  return result;
}

/// All elements of x afterwards.
template <class T>
std::vector<double> replace_slice(const View<const T, 4, Cpu>& x, const View<const T, 4, Cpu>& rows,
                                  std::int64_t begin) {
  std::vector<double> result;
  for_each_index<4>(x.sizes(), [&](Sizes<4> at) {
    const bool inside = at[0] >= begin && at[0] < begin + rows.size(0);
    if (!inside) return result.push_back(element(x, at));
    at[0] -= begin;
    result.push_back(element(rows, at));
  });
  return result;
}

}  // namespace reference
TENON_NAMESPACE_END
