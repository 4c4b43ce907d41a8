// Layout<Rank>: sizes and strides of a tensor, without data. Rank is fixed, sizes are not.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/tensor/shape.hpp>

TENON_NAMESPACE_BEGIN

/// Sizes or strides of a tensor of this rank, in elements.
template <std::size_t Rank>
using Sizes = std::array<std::int64_t, Rank>;

template <std::size_t Rank>
struct Sublayout;

/// Where element (i0, i1, …) lies: at i0 * stride(0) + i1 * stride(1) + … from the first element.
///
/// Strides may be zero (a broadcast dimension) or negative; sizes may be zero. Trivially copyable, usable in kernels.
template <std::size_t Rank>
class Layout {
 public:
  /// Empty: every size is 0.
  constexpr Layout() {
    sizes_.fill(0);
    strides_.fill(1);
  }

  /// Row-major (C order). Throws ShapeError for negative sizes or more than 2^63 - 1 elements.
  explicit Layout(const Sizes<Rank>& sizes) : sizes_(sizes) {
    detail::checked_numel(sizes_);
    detail::row_major_strides(sizes_, strides_);
  }

  /// Any strides. Throws ShapeError for negative sizes or offsets beyond 63 bits.
  Layout(const Sizes<Rank>& sizes, const Sizes<Rank>& strides) : sizes_(sizes), strides_(strides) {
    detail::checked_numel(sizes_);
    detail::offset_range(sizes_, strides_);
  }

  [[nodiscard]] TENON_HD constexpr const Sizes<Rank>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] TENON_HD constexpr const Sizes<Rank>& strides() const noexcept { return strides_; }
  /// Size or stride of one dimension, negative ones counted from the end; a dimension out of range is not caught.
  [[nodiscard]] TENON_HD std::int64_t size(std::int64_t dim) const noexcept { return values(sizes_)[wrap(dim)]; }
  [[nodiscard]] TENON_HD std::int64_t stride(std::int64_t dim) const noexcept { return values(strides_)[wrap(dim)]; }

  [[nodiscard]] TENON_HD std::int64_t numel() const noexcept {
    std::int64_t count = 1;
    for (std::size_t i = 0; i < Rank; ++i) count *= values(sizes_)[i];
    return count;
  }

  /// Rows follow each other without gaps, in C order. Strides of dimensions of size 1 do not matter.
  [[nodiscard]] bool is_contiguous() const noexcept { return detail::is_contiguous(sizes_, strides_); }

  /// Offset of an element in elements; indices are not checked.
  template <std::integral... I>
  requires(sizeof...(I) == Rank) [[nodiscard]] TENON_HD std::int64_t offset(I... index) const noexcept {
    std::int64_t sum = 0;
    std::size_t dim = 0;
    ((sum += static_cast<std::int64_t>(index) * values(strides_)[dim++]), ...);
    return sum;
  }

  /// Same elements, other shape, never a copy; one size may be -1. Throws ShapeError naming sizes and strides.
  template <std::size_t NewRank>
  [[nodiscard]] Layout<NewRank> view(Sizes<NewRank> sizes) const {
    detail::infer_size("view", sizes_, numel(), sizes);
    Sizes<NewRank> strides{};
    detail::view_strides(sizes_, strides_, sizes, strides);
    return Layout<NewRank>(sizes, strides);
  }

  /// Dimension i of the result is dimension order[i] of this one. Throws ShapeError for no permutation of 0 … Rank - 1.
  [[nodiscard]] Layout permute(const Sizes<Rank>& order) const {
    detail::check_permutation(order);
    Layout result;
    for (std::size_t i = 0; i < Rank; ++i) {
      result.sizes_[i] = sizes_[static_cast<std::size_t>(order[i])];
      result.strides_[i] = strides_[static_cast<std::size_t>(order[i])];
    }
    return result;
  }

  [[nodiscard]] Layout transpose(std::int64_t dim0, std::int64_t dim1) const {
    const std::size_t a = detail::wrap_dim("transpose", dim0, Rank);
    const std::size_t b = detail::wrap_dim("transpose", dim1, Rank);
    Layout result = *this;
    std::swap(result.sizes_[a], result.sizes_[b]);
    std::swap(result.strides_[a], result.strides_[b]);
    return result;
  }

  /// Elements start, start + step, … below end of one dimension. Throws IndexError instead of clamping.
  [[nodiscard]] Sublayout<Rank> slice(std::int64_t dim, std::int64_t start, std::int64_t end,
                                      std::int64_t step = 1) const;

  /// One index of one dimension; the dimension disappears. Throws IndexError, also for a negative index.
  [[nodiscard]] Sublayout<Rank - 1> select(std::int64_t dim, std::int64_t index) const requires(Rank > 0);

  /// A new dimension of size 1 before position `dim`; -1 appends it.
  [[nodiscard]] Layout<Rank + 1> unsqueeze(std::int64_t dim) const {
    const std::size_t at = detail::wrap_dim("unsqueeze", dim, Rank + 1);
    Sizes<Rank + 1> sizes{};
    Sizes<Rank + 1> strides{};
    for (std::size_t i = 0; i <= Rank; ++i) {
      const std::size_t from = i < at ? i : i - 1;
      sizes[i] = i == at ? 1 : sizes_[from];
      strides[i] = i != at ? strides_[from] : (at < Rank ? wrapping_mul(sizes_[at], strides_[at]) : 1);
    }
    return Layout<Rank + 1>(sizes, strides);
  }

  /// Removes a dimension of size 1; throws ShapeError where the size is another.
  [[nodiscard]] Layout<Rank - 1> squeeze(std::int64_t dim) const requires(Rank > 0) {
    const std::size_t at = detail::wrap_dim("squeeze", dim, Rank);
    if (sizes_[at] != 1) {
      throw ShapeError("squeeze: dimension " + std::to_string(at) + " of shape " + shape_string(sizes_) +
                       " does not have size 1");
    }
    return remove(at);
  }

  /// Broadcasts dimensions of size 1 to the given sizes, with stride 0.
  [[nodiscard]] Layout expand(const Sizes<Rank>& sizes) const {
    Sizes<Rank> strides = strides_;
    for (std::size_t i = 0; i < Rank; ++i) {
      if (sizes_[i] == sizes[i]) continue;
      if (sizes_[i] != 1) {
        throw ShapeError("expand: shape " + shape_string(sizes_) + " cannot be broadcast to " + shape_string(sizes));
      }
      strides[i] = 0;
    }
    return Layout(sizes, strides);
  }

  friend bool operator==(const Layout&, const Layout&) = default;

 private:
  template <std::size_t>
  friend class Layout;

  /// The elements of an array. In kernels its own operator[] is no function of the device: nvcc warns and leaves it out.
  static TENON_HD const std::int64_t* values(const Sizes<Rank>& array) noexcept {
    return reinterpret_cast<const std::int64_t*>(&array);
  }

  static TENON_HD constexpr std::size_t wrap(std::int64_t dim) noexcept {
    return static_cast<std::size_t>(dim < 0 ? dim + static_cast<std::int64_t>(Rank) : dim);
  }

  [[nodiscard]] Layout<Rank - 1> remove(std::size_t dim) const requires(Rank > 0) {
    Sizes<Rank - 1> sizes{};
    Sizes<Rank - 1> strides{};
    for (std::size_t i = 0, to = 0; i < Rank; ++i) {
      if (i == dim) continue;
      sizes[to] = sizes_[i];
      strides[to] = strides_[i];
      ++to;
    }
    return Layout<Rank - 1>(sizes, strides);
  }

  Sizes<Rank> sizes_;
  Sizes<Rank> strides_;
};

/// A layout inside another one: its first element lies `offset` elements after the other's.
template <std::size_t Rank>
struct Sublayout {
  Layout<Rank> layout;
  std::int64_t offset = 0;
};

template <std::size_t Rank>
Sublayout<Rank> Layout<Rank>::slice(std::int64_t dim, std::int64_t start, std::int64_t end, std::int64_t step) const {
  const std::size_t at = detail::wrap_dim("slice", dim, Rank);
  detail::check_slice(sizes_[at], start, end, step);
  Layout result = *this;
  result.sizes_[at] = ceil_div(end - start, step);
  result.strides_[at] = wrapping_mul(strides_[at], step);
  return {result, result.sizes_[at] == 0 ? 0 : start * strides_[at]};
}

template <std::size_t Rank>
Sublayout<Rank - 1> Layout<Rank>::select(std::int64_t dim, std::int64_t index) const requires(Rank > 0) {
  const std::size_t at = detail::wrap_dim("select", dim, Rank);
  detail::check_select(sizes_[at], index);
  return {remove(at), index * strides_[at]};
}

TENON_NAMESPACE_END
