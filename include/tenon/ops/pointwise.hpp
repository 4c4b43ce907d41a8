// pointwise: a small program of element-wise steps, run as one loop or one kernel without temporaries.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/pointwise_program.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

/// Types of point-wise programs. On int64 only load, sum, hadamard_product and relu.
template <class T>
concept PointwiseElement = std::same_as<T, float> || std::same_as<T, float16> || std::same_as<T, bfloat16> ||
    std::same_as<T, double> || std::same_as<T, std::int64_t>;

/// Dimensions that point-wise operands have; shorter shapes get leading ones.
inline constexpr std::size_t pointwise_rank = 4;

template <class T, DeviceTag Device>
using PointwiseView = View<T, pointwise_rank, Device>;

namespace detail {
/// Throws ShapeError or ValueError where program and operands do not fit `out`.
template <class T, DeviceTag Device>
void check_pointwise(const PointwiseView<T, Device>& out, std::span<const PointwiseView<const T, Device>> operands,
                     const PointwiseProgram& program) {
  if (static_cast<int>(operands.size()) < program.operands()) {
    throw ValueError("pointwise: the program takes " + std::to_string(program.operands()) +
                     " operands, but there are " + std::to_string(operands.size()));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].sizes() == out.sizes()) continue;
    throw_shape("pointwise", "operand " + std::to_string(i), operands[i].sizes(), out.sizes(), "as out");
  }
  if (program.is_complex() && out.size(pointwise_rank - 1) != 2) {
    throw ShapeError("pointwise: out has shape " + shape_string(out.sizes()) +
                     ", and complex numbers need a last dimension of 2");
  }
  for (int i = 0; std::is_integral_v<T> && i < program.size(); ++i) {
    if (program[i].code == PointwiseCode::silu || program[i].code == PointwiseCode::complex_hadamard_product) {
      throw DTypeError("pointwise: silu and products of complex numbers need a floating-point type");
    }
  }
  check_output("pointwise", "out", out.layout());
}
}  // namespace detail

/// out[i] = program(operands[0][i], operands[1][i], …). All have the shape of `out` and any strides, 0 where an operand
/// is broadcast. Every step computes in float (double for double) and rounds to T, so that a program gives the bits of
/// its steps done one by one. `out` may be an operand itself, with the same strides, and must not overlap one otherwise.
/// With complex products, the last dimension is 2. Throws ShapeError, ValueError, DTypeError.
template <PointwiseElement T>
void pointwise(Context<Cpu>& ctx, PointwiseView<T, Cpu> out,
               std::type_identity_t<std::span<const PointwiseView<const T, Cpu>>> operands,
               const PointwiseProgram& program);
template <PointwiseElement T>
void pointwise(Context<Cuda>& ctx, PointwiseView<T, Cuda> out,
               std::type_identity_t<std::span<const PointwiseView<const T, Cuda>>> operands,
               const PointwiseProgram& program);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/pointwise.hpp>
#endif
