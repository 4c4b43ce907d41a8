// Numbers in messages.
#pragma once

#include <charconv>
#include <string>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The fewest digits that read back as `value`, in any locale: "0.1", "1e-06", "1e+308", "nan". std::to_string would
/// print the second as 0.000001, the next smaller ones as 0.000000, and the third with 309 digits.
inline std::string number_text(double value) {
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

}  // namespace detail

TENON_NAMESPACE_END
