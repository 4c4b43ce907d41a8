// UTF-8 as the text folder needs it: strict decoding, replacement of invalid bytes, and the tail that may still grow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// One step of strict decoding.
struct Utf8Step {
  /// The code point, meaningful if `valid`.
  std::uint32_t code_point;
  /// Bytes consumed: the length of the character, or of the maximal invalid part (1 to 3) that one U+FFFD stands for.
  std::uint8_t length;
  /// Whether the bytes are one well-formed character.
  bool valid;
  /// For an invalid step: whether the text merely ended inside a character that was well-formed so far.
  bool truncated;
};

/// Decodes the character at `text[position]`; `position` must be less than `text.size()`. The ranges are those of Table
/// 3-7 of the Unicode standard, so overlong forms and surrogates are invalid; invalid parts are cut as WHATWG demands.
inline Utf8Step decode_utf8(std::string_view text, std::size_t position) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[position + i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {0, 1, false, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  std::uint32_t code_point = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if (position + i == text.size()) return {0, static_cast<std::uint8_t>(i), false, true};
    const unsigned char next = byte(i);
    if (next < low || next > high) return {0, static_cast<std::uint8_t>(i), false, false};
    code_point = code_point << 6 | (next & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, static_cast<std::uint8_t>(length), true, false};
}

/// Length of the run of ASCII bytes that starts at `position`; reads eight bytes at a time.
inline std::size_t ascii_run(std::string_view text, std::size_t position) {
  std::size_t end = position;
  while (end + 8 <= text.size()) {
    std::uint64_t word;
    std::memcpy(&word, text.data() + end, 8);
    if ((word & 0x8080808080808080ull) != 0) break;
    end += 8;
  }
  while (end < text.size() && static_cast<unsigned char>(text[end]) < 0x80) ++end;
  return end - position;
}

/// Appends the UTF-8 form of `code_point`, which must be a Unicode scalar value.
inline void append_utf8(std::string& out, std::uint32_t code_point) {
  const auto put = [&](std::uint32_t value) { out.push_back(static_cast<char>(static_cast<unsigned char>(value))); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace detail

/// Whether `text` is well-formed UTF-8.
inline bool is_valid_utf8(std::string_view text) {
  for (std::size_t i = detail::ascii_run(text, 0); i < text.size(); i += detail::ascii_run(text, i)) {
    const detail::Utf8Step step = detail::decode_utf8(text, i);
    if (!step.valid) return false;
    i += step.length;
  }
  return true;
}

/// `text` with every maximal invalid part replaced by U+FFFD: the rule of the WHATWG decoder, Python's
/// `errors="replace"` and Rust's `from_utf8_lossy`.
inline std::string repair_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t run = detail::ascii_run(text, i);
    out.append(text.substr(i, run));
    i += run;
    if (i == text.size()) break;
    const detail::Utf8Step step = detail::decode_utf8(text, i);
    if (step.valid) {
      out.append(text.substr(i, step.length));
    } else {
      out.append("\xEF\xBF\xBD");
    }
    i += step.length;
  }
  return out;
}

/// How many bytes at the end of `text` (0 to 3) begin a character that later bytes can still complete.
inline std::size_t incomplete_utf8_tail(std::string_view text) {
  for (std::size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0) == 0x80) continue;
    const detail::Utf8Step step = detail::decode_utf8(text, text.size() - back);
    return step.truncated && step.length == back ? back : 0;
  }
  return 0;
}

TENON_NAMESPACE_END
