// pointwise on the CPU: a program is run on one element after another.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// What a step computes in: float for the two-byte types, else T itself.
template <class T>
using pointwise_value_t = std::conditional_t<std::same_as<T, std::int64_t>, std::int64_t, accumulator_t<T>>;

/// The program on numbers x[0], x[1], …; no products of complex numbers.
template <class T>
T pointwise_scalar(const PointwiseProgram& program, const T* x) {
  using V = pointwise_value_t<T>;
  T stack[PointwiseProgram::max_depth] = {};
  int top = 0;
  for (int s = 0; s < program.size(); ++s) {
    switch (program[s].code) {
      case PointwiseCode::load: stack[top++] = x[program[s].operand]; break;
      case PointwiseCode::sum:
        --top;
        stack[top - 1] = T(static_cast<V>(stack[top - 1]) + static_cast<V>(stack[top]));
        break;
      case PointwiseCode::hadamard_product:
        --top;
        stack[top - 1] = T(static_cast<V>(stack[top - 1]) * static_cast<V>(stack[top]));
        break;
      case PointwiseCode::complex_hadamard_product: break;
      case PointwiseCode::relu:
        stack[top - 1] = V(0) > static_cast<V>(stack[top - 1]) ? T(V(0)) : stack[top - 1];
        break;
      case PointwiseCode::silu:
        if constexpr (std::is_same_v<V, std::int64_t>)
          break;
        else {
          const V v = static_cast<V>(stack[top - 1]);
          stack[top - 1] = T(v / (V(1) + std::exp(-v)));
          break;
        }
    }
  }
  return stack[0];
}
/// The same on complex numbers: x[i][0] and x[i][1].
template <class T>
void pointwise_complex(const PointwiseProgram& program, const T (*x)[2], T (&out)[2]) {
  using V = pointwise_value_t<T>;
  T stack[PointwiseProgram::max_depth][2] = {};
  int top = 0;
  for (int s = 0; s < program.size(); ++s) {
    const PointwiseStep step = program[s];
    if (step.code == PointwiseCode::complex_hadamard_product) {
      --top;
      const V a = static_cast<V>(stack[top - 1][0]), b = static_cast<V>(stack[top - 1][1]);
      const V c = static_cast<V>(stack[top][0]), d = static_cast<V>(stack[top][1]);
      stack[top - 1][0] = T(a * c - b * d);
      stack[top - 1][1] = T(a * d + b * c);
      continue;
    }
    int after = top;
    for (int k = 0; k < 2; ++k) {
      after = top;
      T& a = stack[top > 1 ? top - 2 : 0][k];
      const PointwiseStep binary[3] = {{PointwiseCode::load, 0}, {PointwiseCode::load, 1}, {step.code, 0}};
      const PointwiseStep unary[2] = {{PointwiseCode::load, 0}, {step.code, 0}};
      if (step.code == PointwiseCode::load) {
        stack[after++][k] = x[step.operand][k];
      } else if (step.code == PointwiseCode::sum || step.code == PointwiseCode::hadamard_product) {
        const T in[2] = {a, stack[top - 1][k]};
        a = pointwise_scalar<T>(PointwiseProgram(binary), in);
        --after;
      } else {
        const T in[1] = {stack[top - 1][k]};
        stack[top - 1][k] = pointwise_scalar<T>(PointwiseProgram(unary), in);
      }
    }
    top = after;
  }
  out[0] = stack[0][0];
  out[1] = stack[0][1];
}
}  // namespace detail

template <PointwiseElement T>
void pointwise(Context<Cpu>&, PointwiseView<T, Cpu> out,
               std::type_identity_t<std::span<const PointwiseView<const T, Cpu>>> operands,
               const PointwiseProgram& program) {
  detail::check_pointwise<T, Cpu>(out, operands, program);
  const auto n = static_cast<std::size_t>(program.operands());
  for (std::int64_t i = 0; i < out.size(0); ++i)
    for (std::int64_t j = 0; j < out.size(1); ++j)
      for (std::int64_t k = 0; k < out.size(2); ++k) {
        if (program.is_complex()) {
          T x[PointwiseProgram::max_operands][2] = {};
          T y[2];
          for (std::size_t o = 0; o < n; ++o) {
            x[o][0] = operands[o](i, j, k, 0);
            x[o][1] = operands[o](i, j, k, 1);
          }
          detail::pointwise_complex<T>(program, x, y);
          out(i, j, k, 0) = y[0];
          out(i, j, k, 1) = y[1];
          continue;
        }
        for (std::int64_t l = 0; l < out.size(3); ++l) {
          T x[PointwiseProgram::max_operands] = {};
          for (std::size_t o = 0; o < n; ++o) x[o] = operands[o](i, j, k, l);
          out(i, j, k, l) = detail::pointwise_scalar<T>(program, x);
        }
      }
}

TENON_NAMESPACE_END
