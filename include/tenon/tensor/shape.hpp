// Shape arithmetic on spans of sizes and strides. Layout (rank known at compile time) and AnyTensor (rank known at run
// time) both call these, so that a rule is written once. Sizes and strides count elements, never bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>

TENON_NAMESPACE_BEGIN

/// "(2, 3, 5)"; "(4,)" for one dimension, "()" for none, as Python prints shapes.
inline std::string shape_string(std::span<const std::int64_t> sizes) {
  std::string text = "(";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (i != 0) text += ", ";
    text += std::to_string(sizes[i]);
  }
  return text + (sizes.size() == 1 ? ",)" : ")");
}

namespace detail {

/// Product of the sizes; throws ShapeError for a negative size or a product that does not fit 63 bits.
inline std::int64_t checked_numel(std::span<const std::int64_t> sizes) {
  std::int64_t count = 1;
  bool empty = false;
  for (const std::int64_t size : sizes) {
    if (size < 0) throw ShapeError("shape " + shape_string(sizes) + " has a negative size");
    if (size == 0) {
      empty = true;  // the other sizes must still be checked, so no early return
      continue;
    }
    const auto product = checked_mul(count, size);
    if (!product) throw ShapeError("shape " + shape_string(sizes) + " has more elements than 63 bits can count");
    count = *product;
  }
  return empty ? 0 : count;
}

/// Row-major strides. Zero-sized dimensions count as one, as in PyTorch, so that strides stay positive.
inline void row_major_strides(std::span<const std::int64_t> sizes, std::span<std::int64_t> strides) {
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= sizes[i] == 0 ? 1 : sizes[i];
  }
}

inline bool is_contiguous(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) noexcept {
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1 && strides[i] != step) step = -1;
    if (step < 0) {
      for (std::size_t k = i; k-- > 0;) {
        if (sizes[k] == 0) return true;
      }
      return false;
    }
    step *= sizes[i];
  }
  return true;
}

/// Lowest and highest element offset that the layout reaches, relative to its first element. Meaningless when empty.
struct OffsetRange {
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
};
inline OffsetRange offset_range(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides) {
  OffsetRange range;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto reach = checked_mul(sizes[i] > 0 ? sizes[i] - 1 : 0, strides[i]);
    const auto sum = reach ? checked_add(*reach < 0 ? range.lowest : range.highest, *reach) : std::nullopt;
    if (!sum) throw ShapeError("strides " + shape_string(strides) + " reach further than 63 bits can address");
    (*reach < 0 ? range.lowest : range.highest) = *sum;
  }
  return range;
}

/// Index of a dimension, negative values counted from the end as in PyTorch. `rank` dimensions are addressable.
inline std::size_t wrap_dim(std::string_view what, std::int64_t dim, std::size_t rank) {
  const auto limit = static_cast<std::int64_t>(rank);
  if (dim < -limit || dim >= limit) {
    throw IndexError(std::string(what) + ": dimension " + std::to_string(dim) + " is out of range for rank " +
                     std::to_string(rank));
  }
  return static_cast<std::size_t>(dim < 0 ? dim + limit : dim);
}

/// Replaces one size of -1 by the one that keeps `numel` elements; throws ShapeError where none does.
inline void infer_size(std::string_view what, std::span<const std::int64_t> from, std::int64_t numel,
                       std::span<std::int64_t> sizes) {
  std::int64_t known = 1;
  std::size_t unknown = sizes.size();
  bool overflow = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      if (unknown != sizes.size()) throw ShapeError(std::string(what) + ": only one size may be -1");
      unknown = i;
    } else if (sizes[i] < 0) {
      throw ShapeError(std::string(what) + ": shape " + shape_string(sizes) + " has a negative size");
    } else {
      const auto product = checked_mul(known, sizes[i]);
      overflow = overflow || !product;
      known = product.value_or(0);
    }
  }
  const bool fits = unknown == sizes.size() ? known == numel : known != 0 && numel % known == 0;
  if (overflow || !fits) {
    throw ShapeError(std::string(what) + ": shape " + shape_string(from) + " with " + std::to_string(numel) +
                     " elements cannot become " + shape_string(sizes));
  }
  if (unknown != sizes.size()) sizes[unknown] = numel / known;
}

/// The dimensions that a view would have to merge and cannot: stride(dim) is not `needed`.
struct ViewConflict {
  std::size_t dim = 0;
  std::int64_t needed = 0;
};

/// Strides under which the elements of (sizes, strides) appear with shape `new_sizes`, in the same order, without a
/// copy: PyTorch's rule. Old dimensions are grouped into runs that lie evenly in memory; each new dimension must stay
/// inside one run. False where that is impossible. Element counts must agree.
inline bool try_view_strides(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                             std::span<const std::int64_t> new_sizes, std::span<std::int64_t> new_strides,
                             ViewConflict* conflict = nullptr) {
  if (sizes.empty() || checked_numel(new_sizes) == 0) {
    row_major_strides(new_sizes, new_strides);
    return true;
  }
  std::size_t next = new_sizes.size();  // new dimensions [next, end) have their stride
  std::int64_t run_stride = strides.back();
  std::int64_t run_numel = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    run_numel *= sizes[i];
    const bool run_ends = i == 0 || (sizes[i - 1] != 1 && strides[i - 1] != wrapping_mul(run_numel, run_stride));
    if (!run_ends) continue;
    std::int64_t filled = 1;
    while (next > 0 && (filled < run_numel || new_sizes[next - 1] == 1)) {
      --next;
      new_strides[next] = wrapping_mul(filled, run_stride);
      filled *= new_sizes[next];
    }
    if (filled != run_numel) {
      // Counts agree, so an overfull run is never the outermost one: its end is the border that does not merge.
      if (conflict != nullptr) *conflict = {i == 0 ? 0 : i - 1, wrapping_mul(run_numel, run_stride)};
      return false;
    }
    if (i > 0) run_stride = strides[i - 1];
    run_numel = 1;
  }
  return true;
}

/// As above, but throws ShapeError that names both shapes and the dimensions that cannot be merged.
inline void view_strides(std::span<const std::int64_t> sizes, std::span<const std::int64_t> strides,
                         std::span<const std::int64_t> new_sizes, std::span<std::int64_t> new_strides) {
  ViewConflict conflict;
  if (try_view_strides(sizes, strides, new_sizes, new_strides, &conflict)) return;
  throw ShapeError("view: shape " + shape_string(sizes) + " with strides " + shape_string(strides) + " cannot become " +
                   shape_string(new_sizes) + " without a copy, because dimensions " + std::to_string(conflict.dim) +
                   " and " + std::to_string(conflict.dim + 1) + " cannot be merged: stride " +
                   std::to_string(strides[conflict.dim]) + " is not " + std::to_string(conflict.needed) +
                   "; reshape copies");
}

inline void check_slice(std::int64_t dim_size, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (start < 0 || end < start || end > dim_size || step < 1) {
    throw IndexError("slice: [" + std::to_string(start) + ", " + std::to_string(end) + ") with step " +
                     std::to_string(step) + " is out of range for a dimension of size " + std::to_string(dim_size));
  }
}

inline void check_select(std::int64_t dim_size, std::int64_t index) {
  if (index < 0 || index >= dim_size) {
    throw IndexError("select: index " + std::to_string(index) + " is out of range for a dimension of size " +
                     std::to_string(dim_size));
  }
}

inline void check_permutation(std::span<const std::int64_t> order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    bool ok = order[i] >= 0 && static_cast<std::size_t>(order[i]) < order.size();
    for (std::size_t k = 0; k < i; ++k) ok = ok && order[k] != order[i];
    if (!ok) {
      throw ShapeError("permute: " + shape_string(order) + " is not a permutation of 0 … " +
                       std::to_string(static_cast<std::int64_t>(order.size()) - 1));
    }
  }
}

}  // namespace detail

TENON_NAMESPACE_END
