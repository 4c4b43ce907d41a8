// ScriptLexer: the words, numbers and signs of a script, each with its place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/format.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

enum class TokenKind : std::uint8_t {
  end,
  word,       ///< letters, digits and underscores, not beginning with a digit
  number,     ///< digits, perhaps with a minus sign before them
  reference,  ///< `$` and digits
  sign        ///< any other byte, whether it has a meaning or not
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  std::size_t line = 1;
  std::size_t column = 1;  ///< in bytes, from 1

  [[nodiscard]] bool is(char sign) const { return kind == TokenKind::sign && text[0] == sign; }
  [[nodiscard]] bool is(std::string_view word) const { return kind == TokenKind::word && text == word; }
};

/// A token for a message: its text in quotes, cut where it is long, or its byte.
[[nodiscard]] inline std::string token_text(const Token& token) {
  if (token.kind == TokenKind::end) return "the end";
  const auto byte = static_cast<unsigned char>(token.text[0]);
  if (token.kind == TokenKind::sign && (byte < 0x21 || byte > 0x7e)) {
    constexpr std::string_view digits = "0123456789abcdef";
    return std::string("the byte 0x") + digits[byte >> 4] + digits[byte & 0xfu];
  }
  return tenon::detail::quoted_text(token.text);
}

/// Gives the tokens one after the other. White space and comments, from `#` or `//` to the end of the line, are skipped.
/// Knows no errors: what has no meaning is a sign. A copy goes on from the same place.
class ScriptLexer {
 public:
  explicit ScriptLexer(std::string_view text) : text_(text) { next(); }

  [[nodiscard]] const Token& token() const noexcept { return token_; }

  void next() {
    skip();
    const std::size_t begin = at_;
    token_ = {TokenKind::end, {}, line_, at_ - line_start_ + 1};
    if (at_ == text_.size()) return;
    const char first = text_[at_++];
    if (is_digit(first) || ((first == '$' || first == '-') && is_digit(peek()))) {
      while (is_digit(peek())) ++at_;
      token_.kind = first == '$' ? TokenKind::reference : TokenKind::number;
    } else if (is_letter(first)) {
      while (is_letter(peek()) || is_digit(peek())) ++at_;
      token_.kind = TokenKind::word;
    } else {
      token_.kind = TokenKind::sign;
    }
    token_.text = text_.substr(begin, at_ - begin);
  }

 private:
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  /// The byte at `at_`, 0 at the end.
  [[nodiscard]] char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  void skip() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#' || text_.substr(at_, 2) == "//") {
        at_ = text_.find('\n', at_);
        if (at_ == std::string_view::npos) at_ = text_.size();
        if (at_ == text_.size()) return;
      }
      if (text_[at_] == '\n') {
        ++line_;
        line_start_ = at_ + 1;
      } else if (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r') {
        return;
      }
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t line_ = 1;
  std::size_t line_start_ = 0;
  Token token_;
};

}  // namespace graph::detail
TENON_NAMESPACE_END
