// Making tensors: empty, zeros, full, arange, from host data.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>

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

/// Sets every element of a view on the CPU, whatever its strides.
template <Element T, std::size_t Rank>
void fill(Context<Cpu>& ctx, View<T, Rank, Cpu> out, std::type_identity_t<T> value) {
  if (out.is_contiguous()) {
    std::fill_n(out.data(), out.numel(), value);
  } else {
    const View<const T, Rank, Cpu> one(&value, Layout<Rank>(out.sizes(), Sizes<Rank>{}));  // stride 0 everywhere
    copy(ctx, out, one);
  }
}

/// Row-major, every element `value`.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> full(Context<Device>& ctx, const Sizes<Rank>& sizes,
                                           std::type_identity_t<T> value) {
  auto result = empty<T>(ctx, sizes);
  fill(ctx, static_cast<View<T, Rank, Device>>(result), value);
  return result;
}
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> full(Context<Device>& ctx, const std::int64_t (&sizes)[Rank],
                                           std::type_identity_t<T> value) {
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

/// The same from numbers in the source: `from_list<float>(ctx, {2, 2}, {1, 2, 3, 4})`.
template <Element T, DeviceTag Device, std::size_t Rank>
[[nodiscard]] Tensor<T, Rank, Device> from_list(Context<Device>& ctx, const std::int64_t (&sizes)[Rank],
                                                std::initializer_list<double> values) {
  const auto host = std::make_unique<T[]>(values.size());  // not std::vector: vector<bool> has no contiguous elements
  std::transform(values.begin(), values.end(), host.get(), [](double value) { return detail::convert<T>(value); });
  return from_span<T>(ctx, std::to_array(sizes), std::span<const T>(host.get(), values.size()));
}

TENON_NAMESPACE_END
