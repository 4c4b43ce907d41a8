// The operators once more, plain and in double: what they mean, line by line, and the oracle of every device's tests.
//
// Each function takes views on the CPU with any strides and returns the result before its last rounding, in row-major
// order. Where the contract in ops/ rounds on the way (rms_norm, rope, swiglu), so does the reference. Slow on purpose.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace reference {

/// The value that a T holds after `x` is stored in it. Goes through float for the two-byte types, as the operators do.
template <class T>
double rounded(double x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<double>(static_cast<float>(T(static_cast<float>(x))));
  }
}

/// The same element as a double, which holds every float exactly.
template <class T>
double widened(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return x;
  } else {
    return static_cast<double>(static_cast<float>(x));
  }
}

/// Calls `body(index)` for every index of a shape, in row-major order.
template <std::size_t Rank, class Body>
void for_each_index(const Sizes<Rank>& sizes, Body&& body) {
  for (const std::int64_t size : sizes) {
    if (size == 0) return;
  }
  Sizes<Rank> index{};
  while (true) {
    body(std::as_const(index));
    std::size_t dim = Rank;
    while (dim > 0 && ++index[dim - 1] == sizes[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

/// The element at an index, whatever its type, as a double.
template <class T, std::size_t Rank>
double element(const View<T, Rank, Cpu>& x, const Sizes<Rank>& index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < Rank; ++i) offset += index[i] * x.stride(i);
  return widened<std::remove_cv_t<T>>(x.data()[offset]);
}

/// All elements in row-major order.
template <class T, std::size_t Rank>
std::vector<double> elements(const View<T, Rank, Cpu>& x) {
  std::vector<double> result;
  result.reserve(static_cast<std::size_t>(x.numel()));
  for_each_index<Rank>(x.sizes(), [&](const Sizes<Rank>& i) { result.push_back(element(x, i)); });
  return result;
}

template <class T, class U, std::size_t Rank>
std::vector<double> add(const View<T, Rank, Cpu>& a, const View<U, Rank, Cpu>& b) {
  detail::check_shape("reference::add", "b", b.sizes(), a.sizes(), "as a");
  std::vector<double> result;
  for_each_index<Rank>(a.sizes(), [&](const Sizes<Rank>& i) { result.push_back(element(a, i) + element(b, i)); });
  return result;
}

/// Index of the largest element of every row: the first NaN, or else the first of the largest.
template <class T, std::size_t Rank>
std::vector<std::int64_t> argmax(const View<T, Rank, Cpu>& in) {
  const std::int64_t n = in.size(Rank - 1);
  std::vector<std::int64_t> result;
  Sizes<Rank> rows = in.sizes();
  rows[Rank - 1] = n == 0 ? 0 : 1;
  for_each_index<Rank>(rows, [&](Sizes<Rank> i) {
    std::int64_t best = 0;
    double largest = element(in, i);
    for (std::int64_t k = 1; k < n && !std::isnan(largest); ++k) {
      i[Rank - 1] = k;
      const double x = element(in, i);
      if (x > largest || std::isnan(x)) {
        largest = x;
        best = k;
      }
    }
    result.push_back(best);
  });
  return result;
}

template <class I, class W>
std::vector<double> embedding(const View<I, 1, Cpu>& index, const View<W, 2, Cpu>& weight) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < index.size(0); ++i) {
    for (std::int64_t c = 0; c < weight.size(1); ++c) result.push_back(element(weight, Sizes<2>{index(i), c}));
  }
  return result;
}

template <class T, class W, class B = const float>
std::vector<double> linear(const View<T, 2, Cpu>& in, const View<W, 2, Cpu>& weight,
                           const std::optional<View<B, 1, Cpu>>& bias = std::nullopt) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    for (std::int64_t j = 0; j < weight.size(0); ++j) {
      double sum = bias ? element(*bias, Sizes<1>{j}) : 0.0;
      for (std::int64_t k = 0; k < in.size(1); ++k) {
        sum += element(in, Sizes<2>{i, k}) * element(weight, Sizes<2>{j, k});
      }
      result.push_back(sum);
    }
  }
  return result;
}

/// T is the type that the quotient is rounded to before it meets the weight.
template <class T, class W>
std::vector<double> rms_norm(const View<T, 2, Cpu>& in, const View<W, 1, Cpu>& weight, double eps) {
  std::vector<double> result;
  const std::int64_t dim = in.size(1);
  for (std::int64_t i = 0; i < in.size(0); ++i) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < dim; ++c) sum += element(in, Sizes<2>{i, c}) * element(in, Sizes<2>{i, c});
    const double norm = std::sqrt(sum / static_cast<double>(dim) + eps);
    for (std::int64_t c = 0; c < dim; ++c) {
      const double quotient = rounded<std::remove_cv_t<T>>(element(in, Sizes<2>{i, c}) / norm);
      result.push_back(quotient * element(weight, Sizes<1>{c}));
    }
  }
  return result;
}

/// The angle of pair i at a position, in the float arithmetic that Hugging Face's models use: the power, its
/// reciprocal and the product with the position are each a float.
inline double rope_angle(std::int64_t position, std::int64_t i, std::int64_t half, double theta) {
  const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
  const float power = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  return static_cast<double>(static_cast<float>(position) * (1.0f / power));
}

/// cos and sin of a table, (tokens, half) each.
struct RopeTable {
  std::vector<double> cos;
  std::vector<double> sin;
};
template <class I>
RopeTable rope_table(const View<I, 1, Cpu>& pos_ids, std::int64_t half, double theta) {
  RopeTable table;
  for (std::int64_t t = 0; t < pos_ids.size(0); ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = rope_angle(pos_ids(t), i, half, theta);
      table.cos.push_back(std::cos(angle));
      table.sin.push_back(std::sin(angle));
    }
  }
  return table;
}

/// Rotation by given angles; cos and sin hold T's rounding of the table, and products are rounded to T.
template <class T, class C>
std::vector<double> rope(const View<T, 3, Cpu>& in, const View<C, 2, Cpu>& cos, const View<C, 2, Cpu>& sin) {
  using Value = std::remove_cv_t<T>;
  std::vector<double> result;
  const std::int64_t half = in.size(2) / 2;
  for_each_index<3>(in.sizes(), [&](const Sizes<3>& at) {
    const auto [t, h, c] = at;
    const std::int64_t i = c < half ? c : c - half;
    const double co = rounded<Value>(element(cos, Sizes<2>{t, i}));
    const double si = rounded<Value>(element(sin, Sizes<2>{t, i}));
    const double first = element(in, Sizes<3>{t, h, i});
    const double second = element(in, Sizes<3>{t, h, i + half});
    result.push_back(c < half ? rounded<Value>(first * co) - rounded<Value>(second * si)
                              : rounded<Value>(second * co) + rounded<Value>(first * si));
  });
  return result;
}

/// With a window of W > 0 a query sees the last W of the keys that it would see without.
template <class T, class U, class V>
std::vector<double> self_attention(const View<T, 3, Cpu>& q, const View<U, 3, Cpu>& k, const View<V, 3, Cpu>& v,
                                   double scale, std::int64_t window = 0) {
  const std::int64_t tokens = q.size(0);
  const std::int64_t kv_tokens = k.size(0);
  const std::int64_t group = k.size(1) == 0 ? 1 : q.size(1) / k.size(1);
  std::vector<double> result;
  for (std::int64_t t = 0; t < tokens; ++t) {
    for (std::int64_t h = 0; h < q.size(1); ++h) {
      const std::int64_t end = kv_tokens - tokens + t + 1;
      const std::int64_t begin = window > 0 && end > window ? end - window : 0;
      std::vector<double> weights;
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t s = begin; s < end; ++s) {
        double score = 0.0;
        for (std::int64_t c = 0; c < q.size(2); ++c) {
          score += element(q, Sizes<3>{t, h, c}) * element(k, Sizes<3>{s, h / group, c});
        }
        weights.push_back(score * scale);
        largest = score * scale > largest ? score * scale : largest;
      }
      double sum = 0.0;
      for (double& w : weights) sum += (w = std::exp(w - largest));
      for (std::int64_t c = 0; c < v.size(2); ++c) {
        double value = 0.0;
        for (std::int64_t s = begin; s < end; ++s) {
          value += weights[static_cast<std::size_t>(s - begin)] * element(v, Sizes<3>{s, h / group, c});
        }
        result.push_back(end <= 0 ? 0.0 : value / sum);
      }
    }
  }
  return result;
}

/// T is the type that silu(gate) is rounded to before it meets `up`.
template <class T, class U, std::size_t Rank>
std::vector<double> swiglu(const View<T, Rank, Cpu>& gate, const View<U, Rank, Cpu>& up) {
  detail::check_shape("reference::swiglu", "up", up.sizes(), gate.sizes(), "as gate");
  std::vector<double> result;
  for_each_index<Rank>(gate.sizes(), [&](const Sizes<Rank>& i) {
    const double x = element(gate, i);
    result.push_back(rounded<std::remove_cv_t<T>>(x / (1.0 + std::exp(-x))) * element(up, i));
  });
  return result;
}

}  // namespace reference
TENON_NAMESPACE_END
