#include "chat/escapes.hpp"

#include <charconv>
#include <cstddef>

#include "chat/errors.hpp"

namespace chat {

std::string unescape(std::string_view text, std::string_view option) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      result += text[i];
      continue;
    }
    const char kind = i + 1 < text.size() ? text[i + 1] : '\0';
    const std::string_view digits = text.substr(i).substr(0, 4).substr(text.size() - i < 2 ? 1 : 2);
    unsigned value = 0;
    if (kind == 'n') {
      result += '\n';
    } else if (kind == 't') {
      result += '\t';
    } else if (kind == '\\') {
      result += '\\';
    } else if (const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
               kind == 'x' && digits.size() == 2 && error == std::errc() && end == digits.data() + 2) {
      result += static_cast<char>(static_cast<unsigned char>(value));
      i += 2;
    } else {
      throw UsageError(std::string(option) + ": '" + std::string(text.substr(i, kind == 'x' ? 4 : 2)) +
                       "' is no escape; with --escape they are \\n, \\t, \\\\ and \\xNN");
    }
    ++i;
  }
  return result;
}

}  // namespace chat
