// The reversible spelling of bytes as printable characters that byte-level vocabularies use in tokenizer.json.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The character of each byte: printable Latin-1 bytes stand for themselves, the other 68 for U+0100 onwards in order,
/// so that a space is U+0120. The scheme is GPT-2's.
inline constexpr std::array<std::uint16_t, 256> byte_to_char = [] {
  std::array<std::uint16_t, 256> table{};
  std::uint16_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
    table[byte] = printable ? static_cast<std::uint16_t>(byte) : next++;
  }
  return table;
}();

/// The inverse: the byte of each character below U+0144, or -1.
inline constexpr std::array<std::int16_t, 0x144> char_to_byte = [] {
  std::array<std::int16_t, 0x144> table{};
  for (std::int16_t& entry : table) entry = -1;
  for (std::size_t byte = 0; byte < 256; ++byte) table[byte_to_char[byte]] = static_cast<std::int16_t>(byte);
  return table;
}();

/// Appends the bytes that valid UTF-8 `spelling` stands for. Returns false, with `out` as it was, if some character
/// stands for no byte: such a token (an added one, mostly) means its own characters.
inline bool append_bytes_of_spelling(std::string& out, std::string_view spelling) {
  const std::size_t before = out.size();
  for (std::size_t i = 0; i < spelling.size();) {
    const Utf8Step step = decode_utf8(spelling, i);
    const std::int16_t byte = step.valid && step.code_point < char_to_byte.size() ? char_to_byte[step.code_point]
                                                                                  : static_cast<std::int16_t>(-1);
    if (byte < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
    i += step.length;
  }
  return true;
}

/// The spelling of `bytes` in a byte-level vocabulary.
inline std::string spell_bytes(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() + bytes.size() / 4);
  for (const char byte : bytes) append_utf8(out, byte_to_char[static_cast<unsigned char>(byte)]);
  return out;
}

}  // namespace detail

TENON_NAMESPACE_END
