// A direct scanner for the ASCII part of the split patterns that Qwen2 and Llama 3 use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Qwen2's pattern (also that of its descendants): contractions, words with one leading character, single digits,
/// symbol runs with their line ends, line ends, and space less the one that belongs to the next word.
inline constexpr std::string_view qwen2_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Llama 3's pattern: the same with up to three digits together.
inline constexpr std::string_view llama3_pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// How many digits one token of `pattern` holds at most if it is one of the above, else 0.
inline constexpr std::size_t ascii_split_digits(std::string_view pattern) {
  return pattern == qwen2_pattern ? 1 : pattern == llama3_pattern ? 3 : 0;
}

enum class AsciiClass : std::uint8_t { symbol, letter, digit, space, line_end, not_ascii };

inline constexpr std::array<AsciiClass, 256> ascii_classes = [] {
  std::array<AsciiClass, 256> table{};
  for (std::size_t c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    table[c] = c >= 0x80                                         ? AsciiClass::not_ascii
               : letter                                          ? AsciiClass::letter
               : c >= '0' && c <= '9'                            ? AsciiClass::digit
               : c == '\r' || c == '\n'                          ? AsciiClass::line_end
               : c == ' ' || c == '\t' || c == '\v' || c == '\f' ? AsciiClass::space
                                                                 : AsciiClass::symbol;
  }
  return table;
}();

/// The end of the match that the pattern has at `start` (less than `text.size()`), or 0 if that depends on a byte that
/// is not ASCII; the regular expression decides then. Equal to the expression wherever it answers: it looks at no byte
/// beyond those whose class it knows.
inline std::size_t ascii_split(std::string_view text, std::size_t start, std::size_t max_digits) {
  const std::size_t size = text.size();
  const auto class_at = [&](std::size_t i) { return ascii_classes[static_cast<unsigned char>(text[i])]; };
  const auto run_of = [&](std::size_t i, AsciiClass wanted) {
    while (i < size && class_at(i) == wanted) ++i;
    return i;
  };
  const auto unless_open = [&](std::size_t end) {  // a match that a following non-ASCII character might extend
    return end < size && class_at(end) == AsciiClass::not_ascii ? 0 : end;
  };
  const AsciiClass first = class_at(start);
  if (first == AsciiClass::not_ascii) return 0;
  if (first == AsciiClass::letter) return unless_open(run_of(start + 1, AsciiClass::letter));
  if (first == AsciiClass::digit) {
    std::size_t end = start + 1;
    while (end < size && end - start < max_digits && class_at(end) == AsciiClass::digit) ++end;
    return end - start < max_digits ? unless_open(end) : end;
  }
  const AsciiClass second = start + 1 < size ? class_at(start + 1) : AsciiClass::line_end;
  if (second == AsciiClass::not_ascii) return 0;
  if (text[start] == '\'' && second == AsciiClass::letter) {
    const auto lower = [&](std::size_t i) { return static_cast<char>(text[i] | 0x20); };
    const char a = lower(start + 1);
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return start + 2;
    if (start + 2 < size && (a == 'r' || a == 'v' || a == 'l') && lower(start + 2) == (a == 'l' ? 'l' : 'e')) {
      return start + 3;
    }
  }
  if (first != AsciiClass::line_end && second == AsciiClass::letter) {
    return unless_open(run_of(start + 2, AsciiClass::letter));
  }
  const bool spaced = text[start] == ' ' && start + 1 < size && second == AsciiClass::symbol;
  if (first == AsciiClass::symbol || spaced) {
    const std::size_t end = run_of(start + 1, AsciiClass::symbol);
    return unless_open(end) == 0 ? 0 : run_of(end, AsciiClass::line_end);
  }
  std::size_t end = start;
  std::size_t after_line_end = 0;
  for (; end < size && (class_at(end) == AsciiClass::space || class_at(end) == AsciiClass::line_end); ++end) {
    if (class_at(end) == AsciiClass::line_end) after_line_end = end + 1;
  }
  if (unless_open(end) == 0) return 0;
  if (after_line_end != 0) return after_line_end;
  return end == size || end - start == 1 ? end : end - 1;
}

}  // namespace detail

TENON_NAMESPACE_END
