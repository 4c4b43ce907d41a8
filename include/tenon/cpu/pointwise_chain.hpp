// PointwiseChain: a point-wise program as operations on two registers and on operands in memory.
#pragma once

#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/ops/pointwise_program.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The instructions of a chain. `b` is a register, as `a` is; `x` is an element of an operand.
enum class ChainCode : std::uint8_t {
  load_a,
  load_b,
  sum_ax,  ///< a = a + x
  sum_bx,
  sum_ab,  ///< a = a + b
  product_ax,
  product_bx,
  product_ab,
  complex_ax,
  complex_bx,
  complex_ab,
  relu_a,
  relu_b,
  silu_a,
  silu_b,
};

struct ChainStep {
  ChainCode code;
  std::uint8_t operand;
};

/// Loads join the operations that use them, and what is left of the stack is registers: values stay in them from step to
/// step, where a stack in memory would write and read each. Results are those of the steps, bit by bit. Programs that
/// would need a third register have no chain.
class PointwiseChain {
 public:
  PointwiseChain() = default;
  explicit PointwiseChain(const PointwiseProgram& program) noexcept {
    if (!translate(program)) size_ = 0;
  }

  /// 0 where the program has no chain.
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] const ChainStep& operator[](int i) const noexcept { return steps_[i]; }

 private:
  struct Value {
    bool in_memory = false;
    std::uint8_t index = 0;  ///< of the operand, or of the register
  };

  bool translate(const PointwiseProgram& program) noexcept {
    Value stack[PointwiseProgram::max_depth];
    int top = -1;
    for (int s = 0; s < program.size(); ++s) {
      const PointwiseStep& step = program[s];
      if (step.code == PointwiseCode::load) {
        stack[++top] = {true, step.operand};
        continue;
      }
      if (step.code == PointwiseCode::relu || step.code == PointwiseCode::silu) {
        if (!enter(stack[top])) return false;
        add(step.code == PointwiseCode::relu ? ChainCode::relu_a : ChainCode::silu_a, stack[top].index, 0);
        continue;
      }
      Value& left = stack[top - 1];
      Value& right = stack[top];
      --top;
      const ChainCode code = step.code == PointwiseCode::sum                ? ChainCode::sum_ax
                             : step.code == PointwiseCode::hadamard_product ? ChainCode::product_ax
                                                                            : ChainCode::complex_ax;
      if (right.in_memory) {
        if (!enter(left)) return false;
        add(code, left.index, right.index);
      } else if (left.in_memory) {
        // The factors change places, which rounds products of complex numbers in another way.
        if (step.code == PointwiseCode::complex_hadamard_product) return false;
        add(code, right.index, left.index);
        left = right;
      } else {
        add(code, 2, 0);
        --registers_;
      }
    }
    return enter(stack[0]);
  }

  bool enter(Value& value) noexcept {
    if (!value.in_memory) return true;
    if (registers_ == 2) return false;
    steps_[size_++] = {registers_ == 0 ? ChainCode::load_a : ChainCode::load_b, value.index};
    value = {false, static_cast<std::uint8_t>(registers_++)};
    return true;
  }
  void add(ChainCode code, int form, std::uint8_t operand) noexcept {
    steps_[size_++] = {static_cast<ChainCode>(static_cast<int>(code) + form), operand};
  }

  ChainStep steps_[PointwiseProgram::max_steps];  // every step of a program adds one at most
  int size_ = 0;
  int registers_ = 0;
};

}  // namespace detail
TENON_NAMESPACE_END
