// View<T, Rank, Device>: pointer + layout, not owning, trivially copyable. What operators and kernels take.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/tensor/layout.hpp>

TENON_NAMESPACE_BEGIN

/// A window on elements that somebody else owns; it must not outlive them. Copying copies the window, not the elements.
///
/// `View<T, …>` converts to `View<const T, …>`. Element access by `operator()` exists for views on the CPU only.
/// Views share no state: any number of threads may hold views of the same elements, and writing follows the usual rule
/// of C++ for the elements themselves.
template <class T, std::size_t Rank, DeviceTag Device = Cpu>
requires Element<T>
class View {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  using device_type = Device;
  static constexpr std::size_t rank = Rank;

  View() = default;

  /// `data` points to the first element (index 0 in every dimension), also where strides are negative.
  View(T* data, const Layout<Rank>& layout) noexcept : data_(data), layout_(layout) {}

  /// Row-major. Throws ShapeError for negative sizes.
  View(T* data, const Sizes<Rank>& sizes) : data_(data), layout_(sizes) {}

  /// View of T to view of const T.
  template <class U>
  requires(std::same_as<const U, T> && !std::is_const_v<U>) TENON_HD View(const View<U, Rank, Device>& other)
  noexcept : data_(other.data()), layout_(other.layout()) {}

  [[nodiscard]] TENON_HD T* data() const noexcept { return data_; }
  [[nodiscard]] TENON_HD const Layout<Rank>& layout() const noexcept { return layout_; }
  [[nodiscard]] TENON_HD const Sizes<Rank>& sizes() const noexcept { return layout_.sizes(); }
  [[nodiscard]] TENON_HD const Sizes<Rank>& strides() const noexcept { return layout_.strides(); }
  [[nodiscard]] TENON_HD std::int64_t size(std::int64_t dim) const noexcept { return layout_.size(dim); }
  [[nodiscard]] TENON_HD std::int64_t stride(std::int64_t dim) const noexcept { return layout_.stride(dim); }
  [[nodiscard]] TENON_HD std::int64_t numel() const noexcept { return layout_.numel(); }
  [[nodiscard]] bool empty() const noexcept { return numel() == 0; }
  [[nodiscard]] bool is_contiguous() const noexcept { return layout_.is_contiguous(); }
  [[nodiscard]] static constexpr DType dtype() noexcept { return dtype_of<T>; }

  /// Address of an element, on any device; indices are not checked.
  template <std::integral... I>
  requires(sizeof...(I) == Rank) [[nodiscard]] TENON_HD T* ptr(I... index) const noexcept {
    return data_ + layout_.offset(index...);
  }

  /// The element itself; indices are not checked.
  template <std::integral... I>
  requires(sizeof...(I) == Rank && std::same_as<Device, Cpu>) [[nodiscard]] T& operator()(I... index) const noexcept {
    return data_[layout_.offset(index...)];
  }

  /// The element itself; throws IndexError for an index out of range.
  template <std::integral... I>
  requires(sizeof...(I) == Rank && std::same_as<Device, Cpu>) [[nodiscard]] T& at(I... index) const {
    const Sizes<Rank> indices{static_cast<std::int64_t>(index)...};
    for (std::size_t i = 0; i < Rank; ++i) {
      if (indices[i] < 0 || indices[i] >= size(i)) {
        throw IndexError("index " + shape_string(indices) + " is out of range for shape " + shape_string(sizes()));
      }
    }
    return (*this)(index...);
  }

  // Other windows on the same elements; see Layout for the rules and errors of each.

  template <std::size_t N>
  [[nodiscard]] View<T, N, Device> view(const std::int64_t (&sizes)[N]) const {
    return {data_, layout_.view(std::to_array(sizes))};
  }
  template <std::size_t N>
  [[nodiscard]] View<T, N, Device> view(const Sizes<N>& sizes) const {
    return {data_, layout_.view(sizes)};
  }
  [[nodiscard]] View permute(const Sizes<Rank>& order) const { return {data_, layout_.permute(order)}; }
  [[nodiscard]] View transpose(std::int64_t dim0, std::int64_t dim1) const {
    return {data_, layout_.transpose(dim0, dim1)};
  }
  [[nodiscard]] View slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const {
    const auto sub = layout_.slice(dim, start, end, step);
    return {data_ + sub.offset, sub.layout};
  }
  [[nodiscard]] View<T, Rank - 1, Device> select(std::int64_t dim, std::int64_t index) const requires(Rank > 0) {
    const auto sub = layout_.select(dim, index);
    return {data_ + sub.offset, sub.layout};
  }
  [[nodiscard]] View<T, Rank + 1, Device> unsqueeze(std::int64_t dim) const { return {data_, layout_.unsqueeze(dim)}; }
  [[nodiscard]] View<T, Rank - 1, Device> squeeze(std::int64_t dim) const requires(Rank > 0) {
    return {data_, layout_.squeeze(dim)};
  }
  [[nodiscard]] View expand(const Sizes<Rank>& sizes) const { return {data_, layout_.expand(sizes)}; }

 private:
  T* data_ = nullptr;
  Layout<Rank> layout_;
};

static_assert(std::is_trivially_copyable_v<View<float, 3>>);

TENON_NAMESPACE_END
