// How two lists of numbers differ, and how much they may.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/tensor/view.hpp>

namespace verify {

/// What is measured between our numbers and the reference.
struct Difference {
  double max_absolute = 0;  ///< largest |ours - reference|
  double max_relative = 0;  ///< the same over the larger of |reference| and the root mean square of all references
  double rms = 0;           ///< root mean square of ours - reference
  double reference_rms = 0;
  double reference_max = 0;  ///< largest |reference|
  double cosine = 1;         ///< of the angle between the two as vectors
  bool finite = true;        ///< no NaN or infinity among ours

  /// Length of the difference over the length of the reference.
  [[nodiscard]] double relative_length() const { return reference_rms > 0 ? rms / reference_rms : rms; }
};

template <class T>
Difference compare(const tenon::View<const T, 2>& ours, const tenon::View<const float, 2>& reference) {
  if (ours.sizes() != reference.sizes()) {
    throw tenon::ShapeError("the model gives shape " + tenon::shape_string(ours.sizes()) + ", the reference has " +
                            tenon::shape_string(reference.sizes()));
  }
  Difference result;
  double dot = 0;
  double ours_squares = 0;
  double reference_squares = 0;
  double squares = 0;
  const auto each = [&](auto&& body) {
    for (std::int64_t i = 0; i < ours.size(0); ++i) {
      for (std::int64_t j = 0; j < ours.size(1); ++j) {
        body(static_cast<double>(ours(i, j)), static_cast<double>(reference(i, j)));
      }
    }
  };
  each([&](double a, double b) {
    result.finite = result.finite && std::isfinite(a);
    result.max_absolute = std::max(result.max_absolute, std::abs(a - b));
    result.reference_max = std::max(result.reference_max, std::abs(b));
    dot += a * b;
    ours_squares += a * a;
    reference_squares += b * b;
    squares += (a - b) * (a - b);
  });
  const double count = std::max(1.0, static_cast<double>(ours.numel()));
  result.rms = std::sqrt(squares / count);
  result.reference_rms = std::sqrt(reference_squares / count);
  if (ours_squares > 0 && reference_squares > 0) dot /= std::sqrt(ours_squares) * std::sqrt(reference_squares);
  result.cosine = ours_squares > 0 && reference_squares > 0 ? dot : (ours_squares == reference_squares ? 1.0 : 0.0);
  each([&](double a, double b) {
    const double scale = std::max(std::abs(b), result.reference_rms);
    if (scale > 0) result.max_relative = std::max(result.max_relative, std::abs(a - b) / scale);
  });
  return result;
}

/// Largest relative error of one rounding to this dtype.
inline double unit_roundoff(tenon::DType dtype) {
  switch (dtype) {
    case tenon::DType::bfloat16: return 0x1p-8;
    case tenon::DType::float16: return 0x1p-11;
    default: return 0x1p-24;
  }
}

/// A bound on the largest difference, on the root mean square of all differences, and on it relative to the
/// reference. What is not bounded is infinite.
struct Limit {
  double max_absolute = HUGE_VAL;
  double rms = HUGE_VAL;
  double relative_length = HUGE_VAL;

  [[nodiscard]] bool holds(const Difference& difference) const {
    return difference.finite && difference.max_absolute <= max_absolute && difference.rms <= rms &&
           difference.relative_length() <= relative_length;
  }
};

/// Default tolerance in float32: what logits may differ by.
inline constexpr double float32_tolerance = 2e-4;

/// Limit of the hidden state behind `layers` layers.
///
/// float32 (or a tolerance that was given): the tolerance, on the scale of the state's largest element where that is
/// above 1. Narrower types: a layer rounds about 14 times between one state and the next; were these roundings
/// independent and their effects of equal size, sqrt(14 * layers) of them would add up. One more is the embedding's.
inline Limit state_limit(tenon::DType dtype, double tolerance, std::int64_t layers, const Difference& difference) {
  if (tolerance > 0) return {tolerance * std::max(1.0, difference.reference_max), HUGE_VAL, HUGE_VAL};
  return {HUGE_VAL, HUGE_VAL, unit_roundoff(dtype) * std::sqrt(1.0 + 14.0 * static_cast<double>(layers))};
}

/// Limit of the logits. With a tolerance: that. In a narrower type: what the reference itself lost by computing in
/// bfloat16 (`bfloat16_loss`, from logits_bf16 and logits_f32), half as much again on average and twice as much at
/// most, scaled from bfloat16's precision to that of `dtype`; without logits_bf16, the limit of a state.
inline Limit logits_limit(tenon::DType dtype, double tolerance, std::int64_t layers, const Difference* bfloat16_loss) {
  if (tolerance > 0) return {tolerance, HUGE_VAL, HUGE_VAL};
  if (bfloat16_loss == nullptr) return state_limit(dtype, 0, layers + 1, {});
  const double scale = unit_roundoff(dtype) / unit_roundoff(tenon::DType::bfloat16);
  return {2.0 * scale * bfloat16_loss->max_absolute, 1.5 * scale * bfloat16_loss->rms, HUGE_VAL};
}

}  // namespace verify
