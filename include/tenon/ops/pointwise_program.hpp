// PointwiseProgram: the element-wise steps that pointwise runs, and that may follow a matmul.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>

TENON_NAMESPACE_BEGIN

/// What a step of a point-wise program does with the top of the stack.
enum class PointwiseCode : std::uint8_t {
  load,                      ///< puts an element of an operand on it
  sum,                       ///< replaces the upper two by a + b
  hadamard_product,          ///< … by a * b
  complex_hadamard_product,  ///< … by the product of complex numbers; neighbours in the last dimension are (re, im)
  relu,                      ///< replaces the top by max(0, x); NaN stays NaN
  silu,                      ///< … by x / (1 + exp(-x))
};

struct PointwiseStep {
  PointwiseCode code = PointwiseCode::load;
  std::uint8_t operand = 0;  ///< of load

  bool operator==(const PointwiseStep&) const = default;
};

/// A program in postfix order: `load 0, load 1, sum, relu` is relu(x0 + x1). A plain value that kernels take as it is.
class PointwiseProgram {
 public:
  static constexpr int max_steps = 32;
  static constexpr int max_operands = 8;
  static constexpr int max_depth = 4;  ///< of the stack, for which GPU kernels keep room

  /// Throws ValueError where the program is too long, has a code that is none, needs an operand or depth beyond the limits,
  /// or does not leave exactly one value.
  explicit PointwiseProgram(std::span<const PointwiseStep> steps);

  [[nodiscard]] TENON_HD int size() const noexcept { return size_; }
  [[nodiscard]] TENON_HD const PointwiseStep& operator[](int i) const noexcept { return steps_[i]; }
  /// One more than the largest operand that is loaded.
  [[nodiscard]] TENON_HD int operands() const noexcept { return operands_; }
  [[nodiscard]] TENON_HD int depth() const noexcept { return depth_; }
  /// Whether some step takes pairs of elements.
  [[nodiscard]] TENON_HD bool is_complex() const noexcept { return complex_; }

 private:
  PointwiseStep steps_[max_steps] = {};
  int size_ = 0;
  int operands_ = 0;
  int depth_ = 0;
  bool complex_ = false;
};

inline PointwiseProgram::PointwiseProgram(std::span<const PointwiseStep> steps) {
  if (steps.size() > static_cast<std::size_t>(max_steps)) {
    throw ValueError("pointwise: a program of " + std::to_string(steps.size()) + " steps, of at most " +
                     std::to_string(max_steps));
  }
  int top = 0;
  for (const PointwiseStep& step : steps) {
    steps_[size_++] = step;
    switch (step.code) {
      case PointwiseCode::load:
        if (step.operand >= max_operands) {
          throw ValueError("pointwise: operand " + std::to_string(step.operand) + ", of at most " +
                           std::to_string(max_operands));
        }
        operands_ = step.operand + 1 > operands_ ? step.operand + 1 : operands_;
        ++top;
        depth_ = top > depth_ ? top : depth_;
        break;
      case PointwiseCode::complex_hadamard_product: complex_ = true; [[fallthrough]];
      case PointwiseCode::sum:
      case PointwiseCode::hadamard_product:
        if (top < 2) throw ValueError("pointwise: step " + std::to_string(size_ - 1) + " needs two values");
        --top;
        break;
      case PointwiseCode::relu:
      case PointwiseCode::silu:
        if (top < 1) throw ValueError("pointwise: step " + std::to_string(size_ - 1) + " needs a value");
        break;
      default:
        throw ValueError("pointwise: step " + std::to_string(size_ - 1) + " has the code " +
                         std::to_string(static_cast<int>(step.code)) + ", which is none");
    }
  }
  if (top != 1) throw ValueError("pointwise: the program leaves " + std::to_string(top) + " values instead of one");
  if (depth_ > max_depth) {
    throw ValueError("pointwise: a stack of " + std::to_string(depth_) + " values, of at most " +
                     std::to_string(max_depth));
  }
}

TENON_NAMESPACE_END
