// AnyTensor: a tensor whose dtype, rank and device are known at run time only. For loaders, graphs, bindings, printing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/tensor/tensor.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

inline void copy_bytes(Context<Cpu>&, std::byte* to, const std::byte* from, std::size_t bytes, DeviceKind, DeviceKind) {
  std::copy(from, from + bytes, to);
}
// Defined in cuda/copy.hpp.
inline void copy_bytes(Context<Cuda>& ctx, std::byte* to, const std::byte* from, std::size_t bytes,
                       DeviceKind to_device, DeviceKind from_device);
inline void copy_any(Context<Cuda>& ctx, std::byte* to, DType to_dtype, const std::byte* from, DType from_dtype,
                     const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides);
/// As copy_any, from another GPU than the context's.
inline void copy_any_across(Context<Cuda>& ctx, std::byte* to, const std::byte* from, DType dtype,
                            const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides);

}  // namespace detail

/// Shared storage, dtype, sizes and strides. Copying it shares the elements, like Tensor, and the same may be said of
/// threads. `as<T, Rank, Device>()` gives the typed tensor back, checked; `visit` hands it to a generic lambda.
class AnyTensor {
 public:
  /// An empty float32 tensor of shape (0,).
  AnyTensor() : sizes_{0}, strides_{1} {}

  /// Shares the elements of a typed tensor. `Tensor<const T, …>` becomes a read-only AnyTensor.
  template <class T, std::size_t Rank, DeviceTag Device>
  AnyTensor(const Tensor<T, Rank, Device>& tensor)
      : storage_(tensor.storage()),
        data_(const_cast<std::byte*>(reinterpret_cast<const std::byte*>(tensor.data()))),
        sizes_(tensor.sizes().begin(), tensor.sizes().end()),
        strides_(tensor.strides().begin(), tensor.strides().end()),
        dtype_(dtype_of<T>),
        read_only_(std::is_const_v<T> || tensor.storage().read_only()) {}

  /// Row-major, uninitialised.
  template <DeviceTag Device>
  static AnyTensor empty(Context<Device>& ctx, DType dtype, std::vector<std::int64_t> sizes) {
    const std::size_t bytes = byte_count(dtype, sizes);
    AnyTensor result;
    Storage<Device> storage = allocate_storage(ctx, bytes);
    result.data_ = storage.data();
    result.storage_ = std::move(storage);
    result.set_row_major(dtype, std::move(sizes));
    return result;
  }

  /// Row-major elements in memory that `owner` keeps alive and nobody writes, for example a mapped file. `data` must be
  /// aligned for `dtype` (throws ValueError otherwise) and hold all elements.
  static AnyTensor from_external(DType dtype, std::vector<std::int64_t> sizes, const std::byte* data,
                                 std::shared_ptr<const void> owner) {
    if (reinterpret_cast<std::uintptr_t>(data) % dtype_size(dtype) != 0) {
      throw ValueError("external data of dtype " + std::string(dtype_name(dtype)) + " is not aligned to its size");
    }
    const std::size_t bytes = byte_count(dtype, sizes);
    AnyTensor result;
    result.storage_ = Storage<Cpu>(const_cast<std::byte*>(data), bytes, std::move(owner), true);
    result.data_ = const_cast<std::byte*>(data);
    result.read_only_ = true;
    result.set_row_major(dtype, std::move(sizes));
    return result;
  }

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] DeviceKind device() const noexcept {
    return std::holds_alternative<Storage<Cpu>>(storage_) ? DeviceKind::cpu : DeviceKind::cuda;
  }
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  [[nodiscard]] std::size_t rank() const noexcept { return sizes_.size(); }
  [[nodiscard]] const std::vector<std::int64_t>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<std::int64_t>& strides() const noexcept { return strides_; }
  [[nodiscard]] std::int64_t numel() const noexcept {
    return std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{1}, std::multiplies<>());
  }
  [[nodiscard]] std::size_t nbytes() const noexcept { return static_cast<std::size_t>(numel()) * dtype_size(dtype_); }
  [[nodiscard]] bool is_contiguous() const noexcept { return detail::is_contiguous(sizes_, strides_); }
  /// The first element, in the memory of device().
  [[nodiscard]] const std::byte* data() const noexcept { return data_; }

  /// Copies `host` (row-major, nbytes() bytes) into a contiguous, writable tensor.
  /// Throws ShapeError for another size, ValueError where the tensor is read-only or not contiguous.
  template <DeviceTag Device>
  void load(Context<Device>& ctx, std::span<const std::byte> host) const {
    expect_device<Device>();
    if (host.size() != nbytes()) {
      throw ShapeError("load: " + std::to_string(host.size()) + " bytes do not fill shape " + shape_string(sizes_) +
                       " of dtype " + std::string(dtype_name(dtype_)));
    }
    if (read_only_) throw ValueError("load: the tensor is read-only");
    if (!is_contiguous()) throw ValueError("load: the tensor is not contiguous");
    detail::copy_bytes(ctx, data_, host.data(), host.size(), device(), DeviceKind::cpu);
  }

  // Shared elements under another layout, with the rules and errors of Layout.

  [[nodiscard]] AnyTensor view(std::vector<std::int64_t> sizes) const {
    detail::infer_size("view", sizes_, numel(), sizes);
    std::vector<std::int64_t> strides(sizes.size());
    detail::view_strides(sizes_, strides_, sizes, strides);
    return with(std::move(sizes), std::move(strides), 0);
  }
  [[nodiscard]] AnyTensor permute(const std::vector<std::int64_t>& order) const {
    if (order.size() != rank()) {
      throw ShapeError("permute: " + shape_string(order) + " does not name every dimension of shape " +
                       shape_string(sizes_));
    }
    detail::check_permutation(order);
    AnyTensor result = *this;
    for (std::size_t i = 0; i < rank(); ++i) {
      result.sizes_[i] = sizes_[static_cast<std::size_t>(order[i])];
      result.strides_[i] = strides_[static_cast<std::size_t>(order[i])];
    }
    return result;
  }
  [[nodiscard]] AnyTensor slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step = 1) const {
    const std::size_t at = detail::wrap_dim("slice", dim, rank());
    detail::check_slice(sizes_[at], start, end, step);
    std::vector<std::int64_t> sizes = sizes_;
    std::vector<std::int64_t> strides = strides_;
    sizes[at] = ceil_div(end - start, step);
    strides[at] = wrapping_mul(strides[at], step);
    const std::int64_t offset = sizes[at] == 0 ? 0 : start * strides_[at];
    return with(std::move(sizes), std::move(strides), offset);
  }
  [[nodiscard]] AnyTensor select(std::int64_t dim, std::int64_t index) const {
    const std::size_t at = detail::wrap_dim("select", dim, rank());
    detail::check_select(sizes_[at], index);
    std::vector<std::int64_t> sizes = sizes_;
    std::vector<std::int64_t> strides = strides_;
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(at));
    strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(at));
    return with(std::move(sizes), std::move(strides), index * strides_[at]);
  }

  /// The typed tensor, sharing the elements. Ask for `as<const T, …>` of read-only elements.
  /// Throws DTypeError, ShapeError (rank), DeviceError, or ValueError (writable access to read-only elements).
  template <class T, std::size_t Rank, DeviceTag Device = Cpu>
  [[nodiscard]] Tensor<T, Rank, Device> as() const {
    if (dtype_of<T> != dtype_) {
      throw DTypeError("tensor has dtype " + std::string(dtype_name(dtype_)) + ", asked for as " +
                       std::string(dtype_name(dtype_of<T>)));
    }
    if (Rank != rank()) {
      throw ShapeError("tensor has shape " + shape_string(sizes_) + ", asked for with rank " + std::to_string(Rank));
    }
    expect_device<Device>();
    if (read_only_ && !std::is_const_v<T>) {
      throw ValueError("tensor is read-only, asked for as writable: use as<const T, " + std::to_string(Rank) + ">()");
    }
    Sizes<Rank> sizes{};
    Sizes<Rank> strides{};
    std::copy_n(sizes_.begin(), Rank, sizes.begin());  // no loop: nvcc warns of one up to a rank of 0
    std::copy_n(strides_.begin(), Rank, strides.begin());
    return {std::get<Storage<Device>>(storage_), reinterpret_cast<T*>(data_), Layout<Rank>(sizes, strides)};
  }

  /// Calls `visitor(Tensor<const T, Rank, Cpu>)` with the tensor's own T and rank (0 to MaxRank) and returns its result.
  /// Throws ShapeError for another rank, DeviceError for elements that are not on the CPU.
  template <std::size_t MaxRank = 4, class Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    expect_device<Cpu>();
    return visit_dtype(
        dtype_, [&]<class T>(std::type_identity<T>) -> decltype(auto) { return visit_rank<T, 0, MaxRank>(visitor); });
  }

  /// Row-major with the elements converted to `dtype`; shared where nothing has to change. Throws DeviceError for
  /// elements on another device than the context's, as every call with a context does.
  [[nodiscard]] AnyTensor cast(Context<Cpu>&, DType dtype) const {
    expect_device<Cpu>();
    return cast_host(dtype);
  }
  template <std::same_as<Cuda> Device>
  [[nodiscard]] AnyTensor cast(Context<Device>& ctx, DType dtype) const {
    expect_device<Cuda>();
    if (dtype == dtype_ && is_contiguous()) return *this;
    AnyTensor result = empty(ctx, dtype, sizes_);
    if (result.numel() != 0) detail::copy_any(ctx, result.data_, dtype, data_, dtype_, sizes_, strides_);
    return result;
  }
  template <DeviceTag Device>
  [[nodiscard]] AnyTensor contiguous(Context<Device>& ctx) const {
    return cast(ctx, dtype_);
  }
  /// The same elements on the device of `ctx`; shared where they are there already. From a GPU to the CPU: `cpu`. From
  /// one GPU to another: everything that was given to the first one is waited for.
  [[nodiscard]] AnyTensor to(Context<Cpu>&) const {
    expect_device<Cpu>();
    return *this;
  }
  template <std::same_as<Cuda> Device>
  [[nodiscard]] AnyTensor to(Context<Device>& ctx) const {
    if (device() == DeviceKind::cuda && !detail::is_elsewhere(ctx, data_)) return *this;
    AnyTensor result = empty(ctx, dtype_, sizes_);
    if (device() == DeviceKind::cuda) {
      if (numel() != 0) detail::copy_any_across(ctx, result.data_, data_, dtype_, sizes_, strides_);
      return result;
    }
    const AnyTensor packed = cast_host(dtype_);
    detail::copy_bytes(ctx, result.data_, packed.data_, nbytes(), DeviceKind::cuda, DeviceKind::cpu);
    return result;
  }
  /// The same elements in CPU memory. `ctx` is a context of the tensor's device, which is waited for.
  template <DeviceTag Device>
  [[nodiscard]] AnyTensor cpu(Context<Device>& ctx) const {
    if (device() == DeviceKind::cpu) return *this;
    expect_device<Device>();
    const AnyTensor packed = contiguous(ctx);
    AnyTensor result = empty_host(dtype_, sizes_);
    detail::copy_bytes(ctx, result.data_, packed.data_, nbytes(), DeviceKind::cpu, DeviceKind::cuda);
    return result;
  }

 private:
  static AnyTensor empty_host(DType dtype, std::vector<std::int64_t> sizes) {
    AnyTensor result;
    Storage<Cpu> storage = detail::allocate_host_block(byte_count(dtype, sizes));
    result.data_ = storage.data();
    result.storage_ = std::move(storage);
    result.set_row_major(dtype, std::move(sizes));
    return result;
  }

  [[nodiscard]] AnyTensor cast_host(DType dtype) const {
    if (dtype == dtype_ && is_contiguous()) return *this;
    AnyTensor result = empty_host(dtype, sizes_);
    if (result.numel() == 0) return result;
    if (is_contiguous()) {
      detail::convert_run(dtype, result.data_, dtype_, data_, 1, numel());
    } else {
      convert_rows(result, 0, result.data_, data_);
    }
    return result;
  }

  template <DeviceTag Device>
  void expect_device() const {
    if (device_kind_of<Device> == device()) return;
    throw DeviceError("tensor is on " + std::string(device_name(device())) + ", asked for on " +
                      std::string(Device::name));
  }

  static std::size_t byte_count(DType dtype, std::span<const std::int64_t> sizes) {
    const auto bytes = checked_mul(detail::checked_numel(sizes), static_cast<std::int64_t>(dtype_size(dtype)));
    if (!bytes) throw ShapeError("shape " + shape_string(sizes) + " has more bytes than 63 bits can count");
    return static_cast<std::size_t>(*bytes);
  }

  void set_row_major(DType dtype, std::vector<std::int64_t> sizes) {
    dtype_ = dtype;
    sizes_ = std::move(sizes);
    strides_.resize(sizes_.size());
    detail::row_major_strides(sizes_, strides_);
  }

  [[nodiscard]] AnyTensor with(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides,
                               std::int64_t offset) const {
    AnyTensor result = *this;
    result.sizes_ = std::move(sizes);
    result.strides_ = std::move(strides);
    result.data_ = data_ + offset * static_cast<std::int64_t>(dtype_size(dtype_));
    return result;
  }

  template <class T, std::size_t Rank, std::size_t MaxRank, class Visitor>
  decltype(auto) visit_rank(Visitor& visitor) const {
    if constexpr (Rank < MaxRank) {
      if (rank() != Rank) return visit_rank<T, Rank + 1, MaxRank>(visitor);
    } else if (rank() != Rank) {
      throw ShapeError("tensor has shape " + shape_string(sizes_) + ", but its visitor takes ranks 0 to " +
                       std::to_string(MaxRank));
    }
    return visitor(as<const T, Rank>());
  }

  /// Converts everything from dimension `dim` on into `target`, which has the same sizes and is row-major.
  void convert_rows(const AnyTensor& target, std::size_t dim, std::byte* to, const std::byte* from) const {
    if (dim + 1 == rank()) {
      detail::convert_run(target.dtype_, to, dtype_, from, strides_[dim], sizes_[dim]);
      return;
    }
    const std::int64_t to_step = target.strides_[dim] * static_cast<std::int64_t>(dtype_size(target.dtype_));
    const std::int64_t from_step = strides_[dim] * static_cast<std::int64_t>(dtype_size(dtype_));
    for (std::int64_t i = 0; i < sizes_[dim]; ++i)
      convert_rows(target, dim + 1, to + i * to_step, from + i * from_step);
  }

  std::variant<Storage<Cpu>, Storage<Cuda>> storage_;
  std::byte* data_ = nullptr;
  std::vector<std::int64_t> sizes_;
  std::vector<std::int64_t> strides_;
  DType dtype_ = DType::float32;
  bool read_only_ = false;
};

TENON_NAMESPACE_END
