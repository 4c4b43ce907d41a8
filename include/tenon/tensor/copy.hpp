// copy: elements from one view to another on the CPU, converting the dtype on the way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/tensor/convert.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

template <class T, std::size_t Rank, DeviceTag Device>
class Tensor;

namespace detail {

template <class U, std::size_t Rank, DeviceTag Device>
Tensor<U, Rank, Device> allocate_tensor(Context<Device>& ctx, const Sizes<Rank>& sizes);
template <class U, std::size_t Rank>
Tensor<U, Rank, Cpu> allocate_host_tensor(const Sizes<Rank>& sizes);

/// Whether memory of the context's kind of device is on another one than the context. For CUDA in cuda/copy.hpp.
inline bool is_elsewhere(const Context<Cpu>&, const void*) noexcept { return false; }
inline bool is_elsewhere(const Context<Cuda>& ctx, const void* data);

template <class To, class From, std::size_t Rank>
void copy_recursive(To* to, const Layout<Rank>& to_layout, const From* from, const Layout<Rank>& from_layout,
                    std::size_t dim) {
  const std::int64_t count = to_layout.sizes()[dim];
  const std::int64_t to_stride = to_layout.strides()[dim];
  const std::int64_t from_stride = from_layout.strides()[dim];
  if (dim + 1 < Rank) {
    for (std::int64_t i = 0; i < count; ++i) {
      copy_recursive(to + i * to_stride, to_layout, from + i * from_stride, from_layout, dim + 1);
    }
    return;
  }
  if constexpr (std::same_as<To, From>) {
    if (to_stride == 1 && from_stride == 1) {
      std::memmove(to, from, static_cast<std::size_t>(count) * sizeof(To));
      return;
    }
  }
  for (std::int64_t i = 0; i < count; ++i) to[i * to_stride] = convert<To>(from[i * from_stride]);
}

}  // namespace detail

/// Copies `src` to `dst`, both of one shape and any strides, on one thread. Shapes that differ throw ShapeError.
/// The two may be the same elements, but must not overlap otherwise.
template <class T, std::size_t Rank, class U>
requires(!std::is_const_v<T>) void copy(Context<Cpu>&, View<T, Rank, Cpu> dst, View<U, Rank, Cpu> src) {
  using From = std::remove_cv_t<U>;
  if (dst.sizes() != src.sizes()) {
    throw ShapeError("copy: dst has shape " + shape_string(dst.sizes()) + ", but src has shape " +
                     shape_string(src.sizes()));
  }
  if (dst.empty()) return;
  if constexpr (Rank == 0) {
    *dst.data() = detail::convert<T>(From(*src.data()));
  } else if (dst.is_contiguous() && src.is_contiguous()) {
    const Layout<1> flat(Sizes<1>{dst.numel()});
    detail::copy_recursive<T, From>(dst.data(), flat, src.data(), flat, 0);
  } else {
    detail::copy_recursive<T, From>(dst.data(), dst.layout(), src.data(), src.layout(), 0);
  }
}

TENON_NAMESPACE_END
