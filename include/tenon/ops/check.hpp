// Checks that operators make of their arguments, with messages that name the operator, the argument and both shapes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/tensor/layout.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Throws "rms_norm: out has shape (3, 4), expected (3, 5)".
[[noreturn]] inline void throw_shape(std::string_view op, std::string_view argument,
                                     std::span<const std::int64_t> sizes, std::span<const std::int64_t> expected,
                                     std::string_view why = {}) {
  std::string text = std::string(op) + ": " + std::string(argument) + " has shape " + shape_string(sizes) +
                     ", expected " + shape_string(expected);
  if (!why.empty()) text += " " + std::string(why);
  throw ShapeError(text);
}

template <std::size_t Rank>
void check_shape(std::string_view op, std::string_view argument, const std::array<std::int64_t, Rank>& sizes,
                 const std::array<std::int64_t, Rank>& expected, std::string_view why = {}) {
  if (sizes != expected) throw_shape(op, argument, sizes, expected, why);
}

/// Refuses an output in which several indices name one element: a stride of 0 in a dimension that is longer than 1.
template <std::size_t Rank>
void check_output(std::string_view op, std::string_view argument, const Layout<Rank>& layout) {
  for (std::size_t i = 0; i < Rank; ++i) {
    if (layout.sizes()[i] > 1 && layout.strides()[i] == 0) {
      throw ShapeError(std::string(op) + ": " + std::string(argument) + " has shape " + shape_string(layout.sizes()) +
                       " with strides " + shape_string(layout.strides()) +
                       ", so several results would share one element");
    }
  }
}

/// Throws "embedding: ids[3] is 1600, not in [0, 1536)".
inline void check_index(std::string_view op, std::string_view argument, std::int64_t position, std::int64_t value,
                        std::int64_t limit) {
  if (value < 0 || value >= limit) {
    throw IndexError(std::string(op) + ": " + std::string(argument) + "[" + std::to_string(position) + "] is " +
                     std::to_string(value) + ", not in [0, " + std::to_string(limit) + ")");
  }
}

}  // namespace detail
TENON_NAMESPACE_END
