// Tensor<T, Rank, Device>: shared storage + layout.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/tensor/copy.hpp>
#include <tenon/tensor/storage.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

inline void copy_from_other_device(Context<Cpu>&, const auto&, const auto&) {}  // there is one CPU
/// Defined in cuda/copy.hpp. `to` is row-major and on the context's GPU, `from` on another one.
template <class T, std::size_t Rank, class U>
void copy_from_other_device(Context<Cuda>& ctx, const View<T, Rank, Cuda>& to, const Tensor<U, Rank, Cuda>& from);

}  // namespace detail

/// A View that keeps its elements alive.
///
/// Copying a Tensor shares the elements, as NumPy and PyTorch do; `clone` copies them. A Tensor is a View and goes
/// wherever one is taken, and converts to `Tensor<const T, …>`. `Tensor<const T, …>` holds elements that may lie in
/// read-only memory. Copies may be used from different threads as long as nobody writes the shared elements.
template <class T, std::size_t Rank, DeviceTag Device = Cpu>
class Tensor : public View<T, Rank, Device> {
  using Base = View<T, Rank, Device>;

 public:
  Tensor() = default;

  /// `data` must point into `storage`, and `layout` must stay inside it.
  Tensor(Storage<Device> storage, T* data, const Layout<Rank>& layout)
      : Base(data, layout), storage_(std::move(storage)) {}

  template <class U>
  requires(std::same_as<const U, T> && !std::is_const_v<U>) Tensor(const Tensor<U, Rank, Device>& other)
      : Base(other), storage_(other.storage()) {}

  [[nodiscard]] const Storage<Device>& storage() const noexcept { return storage_; }

  /// Copies `host` (row-major, numel() elements in CPU memory) into the elements. Throws ShapeError for another count.
  void load(Context<Device>& ctx, std::span<const std::remove_cv_t<T>> host) const requires(!std::is_const_v<T>) {
    if (static_cast<std::int64_t>(host.size()) != this->numel()) {
      throw ShapeError("load: " + std::to_string(host.size()) + " elements do not fill shape " +
                       shape_string(this->sizes()));
    }
    copy(ctx, Base(*this), View<const T, Rank, Cpu>(host.data(), this->sizes()));
  }

  // Shared elements under another layout; see Layout for the rules and errors of each.

  template <std::size_t N>
  [[nodiscard]] Tensor<T, N, Device> view(const std::int64_t (&sizes)[N]) const {
    return with(this->layout().view(std::to_array(sizes)));
  }
  template <std::size_t N>
  [[nodiscard]] Tensor<T, N, Device> view(const Sizes<N>& sizes) const {
    return with(this->layout().view(sizes));
  }
  [[nodiscard]] Tensor permute(const Sizes<Rank>& order) const { return with(this->layout().permute(order)); }
  [[nodiscard]] Tensor transpose(std::int64_t dim0, std::int64_t dim1) const {
    return with(this->layout().transpose(dim0, dim1));
  }
  [[nodiscard]] Tensor slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const {
    const auto sub = this->layout().slice(dim, start, end, step);
    return with(sub.layout, sub.offset);
  }
  [[nodiscard]] Tensor<T, Rank - 1, Device> select(std::int64_t dim, std::int64_t index) const requires(Rank > 0) {
    const auto sub = this->layout().select(dim, index);
    return with(sub.layout, sub.offset);
  }
  [[nodiscard]] Tensor<T, Rank + 1, Device> unsqueeze(std::int64_t dim) const {
    return with(this->layout().unsqueeze(dim));
  }
  [[nodiscard]] Tensor<T, Rank - 1, Device> squeeze(std::int64_t dim) const requires(Rank > 0) {
    return with(this->layout().squeeze(dim));
  }
  [[nodiscard]] Tensor expand(const Sizes<Rank>& sizes) const { return with(this->layout().expand(sizes)); }

  // Copies. Each returns a row-major tensor; `contiguous`, `reshape` and `to` share where nothing has to change.

  [[nodiscard]] Tensor<std::remove_cv_t<T>, Rank, Device> clone(Context<Device>& ctx) const {
    return cast<std::remove_cv_t<T>>(ctx);
  }
  [[nodiscard]] Tensor contiguous(Context<Device>& ctx) const {
    return this->is_contiguous() ? *this : Tensor(clone(ctx));
  }
  /// As `view`, but copies where the strides cannot be merged.
  template <std::size_t N>
  [[nodiscard]] Tensor<T, N, Device> reshape(Context<Device>& ctx, const std::int64_t (&sizes)[N]) const {
    return reshape(ctx, std::to_array(sizes));
  }
  template <std::size_t N>
  [[nodiscard]] Tensor<T, N, Device> reshape(Context<Device>& ctx, Sizes<N> sizes) const {
    detail::infer_size("reshape", this->sizes(), this->numel(), sizes);
    Sizes<N> strides{};
    if (detail::try_view_strides(this->sizes(), this->strides(), sizes, strides)) {
      return with(Layout<N>(sizes, strides));
    }
    return Tensor<T, N, Device>(clone(ctx).view(sizes));
  }
  /// Converts every element: to nearest even between floating-point types; from those to integers towards zero, at most
  /// to the type's limits, NaN to 0.
  template <class U>
  [[nodiscard]] Tensor<U, Rank, Device> cast(Context<Device>& ctx) const {
    auto result = detail::allocate_tensor<U>(ctx, this->sizes());
    copy(ctx, View<U, Rank, Device>(result), View<const T, Rank, Device>(*this));
    return result;
  }
  /// The same elements on the device of `ctx`; shared where they are there already. From a GPU to the CPU: `cpu`. From
  /// one GPU to another: everything that was given to the first one is waited for.
  template <DeviceTag Target>
  requires(std::same_as<Target, Device> || std::same_as<Device, Cpu>)
      [[nodiscard]] Tensor<T, Rank, Target> to(Context<Target>& ctx) const {
    if constexpr (std::same_as<Target, Device>) {
      if (!detail::is_elsewhere(ctx, this->data())) return *this;
      auto result = detail::allocate_tensor<std::remove_cv_t<T>>(ctx, this->sizes());
      detail::copy_from_other_device(ctx, View<std::remove_cv_t<T>, Rank, Target>(result), *this);
      return result;
    } else {
      auto result = detail::allocate_tensor<std::remove_cv_t<T>>(ctx, this->sizes());
      copy(ctx, View<std::remove_cv_t<T>, Rank, Target>(result), View<const T, Rank, Device>(*this));
      return result;
    }
  }
  /// The same elements in CPU memory; shared where they are there already. `ctx` is the context of this tensor's device,
  /// which is waited for.
  [[nodiscard]] Tensor<T, Rank, Cpu> cpu(Context<Device>& ctx) const {
    if constexpr (std::same_as<Device, Cpu>) {
      static_cast<void>(ctx);
      return *this;
    } else {
      Tensor<std::remove_cv_t<T>, Rank, Cpu> result = detail::allocate_host_tensor<std::remove_cv_t<T>>(this->sizes());
      copy(ctx, View<std::remove_cv_t<T>, Rank, Cpu>(result), View<const T, Rank, Device>(*this));
      return result;
    }
  }

 private:
  template <std::size_t N>
  [[nodiscard]] Tensor<T, N, Device> with(const Layout<N>& layout, std::int64_t offset = 0) const {
    return {storage_, this->data() + offset, layout};
  }

  Storage<Device> storage_;
};

namespace detail {

template <class U, std::size_t Rank, DeviceTag Device, class Allocate>
Tensor<U, Rank, Device> allocate_tensor_with(const Sizes<Rank>& sizes, Allocate&& allocate) {
  const Layout<Rank> layout(sizes);
  const auto bytes = checked_mul(layout.numel(), static_cast<std::int64_t>(sizeof(U)));
  if (!bytes) throw ShapeError("shape " + shape_string(sizes) + " has more bytes than 63 bits can count");
  Storage<Device> storage = allocate(static_cast<std::size_t>(*bytes));
  auto* data = reinterpret_cast<U*>(storage.data());
  return {std::move(storage), data, layout};
}

template <class U, std::size_t Rank, DeviceTag Device>
Tensor<U, Rank, Device> allocate_tensor(Context<Device>& ctx, const Sizes<Rank>& sizes) {
  return allocate_tensor_with<U, Rank, Device>(sizes, [&](std::size_t bytes) { return allocate_storage(ctx, bytes); });
}

template <class U, std::size_t Rank>
Tensor<U, Rank, Cpu> allocate_host_tensor(const Sizes<Rank>& sizes) {
  return allocate_tensor_with<U, Rank, Cpu>(sizes, allocate_host_block);
}

}  // namespace detail

TENON_NAMESPACE_END
