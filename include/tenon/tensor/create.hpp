// Making tensors: empty, zeros, ones, full, arange, from host data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/tensor/tensor.hpp>

TENON_NAMESPACE_BEGIN

/// Row-major, uninitialised: `empty<float>(ctx, {2, 3})`. Throws ShapeError for impossible sizes, Error where memory is
/// short.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> empty(Context<Device>& ctx, const Sizes<Rank>& sizes) {
  return detail::allocate_tensor<T>(ctx, sizes);
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> empty(Context<Device>& ctx, const std::int64_t (&sizes)[Rank]) {
  return detail::allocate_tensor<T>(ctx, std::to_array(sizes));
}

namespace detail {
/// How callers write one element: the narrow floating-point types have no literals and take a double, which is rounded
/// once; every other type is taken as it is, so that all 64 bits of an integer arrive.
template <Element T>
using FillValue = std::conditional_t<std::is_class_v<T>, double, T>;
/// The same for lists, where braces forbid narrowing: every floating-point type takes doubles.
template <Element T>
using ListValue = std::conditional_t<std::is_integral_v<T>, T, double>;
}  // namespace detail

/// Sets every element of a view on the CPU, whatever its strides. `value` is a T, and a double for float16, bfloat16
/// and float8_e4m3.
template <Element T, std::size_t Rank>
void fill(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<detail::FillValue<T>> value) {
  const T element = detail::convert<T>(value);
  if (out.is_contiguous()) {
    std::fill_n(out.data(), out.numel(), element);
  } else {
    const View<const T, Rank, Cpu> one(&element, Layout<Rank>(out.sizes(), Sizes<Rank>{}));  // stride 0 everywhere
    copy(ctx, out, one);
  }
}

/// Row-major, every element `value`, as `fill` takes it: `full<bfloat16>(ctx, {2, 3}, 1.5)`.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> full(Context<Device>& ctx, const Sizes<Rank>& sizes,
                                           std::type_identity_t<detail::FillValue<T>> value) {
  auto result = empty<T>(ctx, sizes);
  fill(ctx, static_cast<View<T, Rank, Device>>(result), value);
  return result;
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> full(Context<Device>& ctx, const std::int64_t (&sizes)[Rank],
                                           std::type_identity_t<detail::FillValue<T>> value) {
  return full<T>(ctx, std::to_array(sizes), value);
}

/// Row-major, every element zero.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> zeros(Context<Device>& ctx, const Sizes<Rank>& sizes) {
  return full<T>(ctx, sizes, detail::convert<T>(0));
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> zeros(Context<Device>& ctx, const std::int64_t (&sizes)[Rank]) {
  return zeros<T>(ctx, std::to_array(sizes));
}

/// Row-major, every element one.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> ones(Context<Device>& ctx, const Sizes<Rank>& sizes) {
  return full<T>(ctx, sizes, detail::convert<T>(1));
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> ones(Context<Device>& ctx, const std::int64_t (&sizes)[Rank]) {
  return ones<T>(ctx, std::to_array(sizes));
}

/// 0, 1, … count - 1.
template <Element T>
[[nodiscard]] Tensor<T, 1, Cpu> arange(Context<Cpu>& ctx, std::int64_t count) {
  auto result = empty<T>(ctx, {count});
  for (std::int64_t i = 0; i < count; ++i) result(i) = detail::convert<T>(i);
  return result;
}

/// A copy of `values` (row-major, CPU memory) with the given sizes. Throws ShapeError where the count differs.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> from_span(Context<Device>& ctx, const Sizes<Rank>& sizes,
                                                std::type_identity_t<std::span<const T>> values) {
  auto result = empty<T>(ctx, sizes);
  result.load(ctx, values);
  return result;
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> from_span(Context<Device>& ctx, const std::int64_t (&sizes)[Rank],
                                                std::type_identity_t<std::span<const T>> values) {
  return from_span<T>(ctx, std::to_array(sizes), values);
}

/// The same from numbers in the source: `from_list<float>(ctx, {2, 2}, {1, 2, 3, 4})`. Integers are taken exactly,
/// `from_list<std::int64_t>(ctx, {2}, {n, n})`; floating-point types take doubles and round them once.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> from_list(Context<Device>& ctx, const std::int64_t (&sizes)[Rank],
                                                std::initializer_list<detail::ListValue<T>> values) {
  const auto host = std::make_unique<T[]>(values.size());  // not std::vector: vector<bool> has no contiguous elements
  std::transform(values.begin(), values.end(), host.get(), [](auto value) { return detail::convert<T>(value); });
  return from_span<T>(ctx, std::to_array(sizes), std::span<const T>(host.get(), values.size()));
}

TENON_NAMESPACE_END
