// Tensors as text that a person can read: shape, strides, dtype, device, and the values with the middle left out.
#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Dimensions longer than twice this show so many elements at either end.
inline constexpr std::int64_t print_edge = 3;

template <class T>
std::string element_string(T value) {
  if constexpr (std::same_as<T, bool>) {
    return value ? "true" : "false";
  } else if constexpr (std::is_integral_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    // As "%.5g", but with a point whatever the locale. A NaN's sign says nothing.
    if (std::isnan(static_cast<double>(value))) return "nan";
    char text[32];
    const auto end = std::to_chars(text, text + sizeof text, static_cast<double>(value), std::chars_format::general, 5);
    return {text, end.ptr};
  }
}

/// Elements of one dimension that are shown, -1 standing for those left out.
inline std::vector<std::int64_t> shown_indices(std::int64_t size) {
  std::vector<std::int64_t> shown;
  for (std::int64_t i = 0; i < size; ++i) {
    if (size > 2 * print_edge && i == print_edge) {
      shown.push_back(-1);
      i = size - print_edge;
    }
    shown.push_back(i);
  }
  return shown;
}

/// Formats twice: once to learn the width of the widest number, once to write, so that columns align.
class TensorPrinter {
 public:
  template <class T, std::size_t Rank>
  static std::string format(const View<const T, Rank, Cpu>& view) {
    TensorPrinter printer;
    const std::vector<std::int64_t> sizes(view.sizes().begin(), view.sizes().end());
    const std::vector<std::int64_t> strides(view.strides().begin(), view.strides().end());
    printer.measure(view.data(), sizes, strides, 0);
    printer.write(view.data(), sizes, strides, 0);
    return std::move(printer.text_);
  }

 private:
  template <class T>
  void measure(const T* data, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
               std::size_t dim) {
    if (dim == sizes.size()) {
      width_ = std::max(width_, element_string(*data).size());
      return;
    }
    for (const std::int64_t i : shown_indices(sizes[dim])) {
      if (i >= 0) measure(data + i * strides[dim], sizes, strides, dim + 1);
    }
  }

  template <class T>
  void write(const T* data, const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides,
             std::size_t dim) {
    if (dim == sizes.size()) {
      const std::string cell = element_string(*data);
      text_.append(width_ - cell.size(), ' ');
      text_ += cell;
      return;
    }
    const bool innermost = dim + 1 == sizes.size();
    std::string separator = ",";
    if (innermost) {
      separator += ' ';
    } else {
      separator.append(sizes.size() - dim - 1, '\n').append(dim + 1, ' ');
    }
    text_ += '[';
    bool first = true;
    for (const std::int64_t i : shown_indices(sizes[dim])) {
      if (!first) text_ += separator;
      first = false;
      if (i < 0) {
        text_ += "...";
      } else {
        write(data + i * strides[dim], sizes, strides, dim + 1);
      }
    }
    text_ += ']';
  }

  std::string text_;
  std::size_t width_ = 0;
};

}  // namespace detail

/// "float32 cpu tensor of shape (2, 3), strides (3, 1)" and the values below it.
template <class T, std::size_t Rank>
std::string to_string(const View<T, Rank, Cpu>& view) {
  using Value = std::remove_cv_t<T>;
  return std::string(dtype_name(dtype_of<T>)) + " " + std::string(Cpu::name) + " tensor of shape " +
         shape_string(view.sizes()) + ", strides " + shape_string(view.strides()) + "\n" +
         detail::TensorPrinter::format(View<const Value, Rank, Cpu>(view));
}
template <class T, std::size_t Rank>
std::string to_string(const Tensor<T, Rank, Cpu>& tensor) {
  return to_string(static_cast<const View<T, Rank, Cpu>&>(tensor));
}
/// The same for a tensor of run-time type; rank 0 to 4.
inline std::string to_string(const AnyTensor& tensor) {
  return tensor.visit([](const auto& typed) { return to_string(typed); });
}

template <class T, std::size_t Rank>
std::ostream& operator<<(std::ostream& stream, const View<T, Rank, Cpu>& view) {
  return stream << to_string(view);
}
inline std::ostream& operator<<(std::ostream& stream, const AnyTensor& tensor) { return stream << to_string(tensor); }

TENON_NAMESPACE_END
