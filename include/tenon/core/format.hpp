// Numbers and names in messages.
#pragma once

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>

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

/// A name or text from outside: in quotes, and cut where it is long, but not inside of a UTF-8 character.
inline std::string quoted_text(std::string_view text) {
  std::size_t most = 40;
  const bool whole = text.size() <= most;
  while (!whole && most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0u) == 0x80u) --most;
  std::string result = "'";
  return result.append(text.substr(0, most)).append(whole ? "'" : "…'");
}

}  // namespace detail

TENON_NAMESPACE_END
