// Added tokens: whole strings that are cut out of a text before it is split.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/character_class.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// One entry of `added_tokens`.
struct AddedToken {
  std::uint32_t id = 0;
  std::string content;
  bool special = false;      ///< dropped by `skip_special_tokens`
  bool normalized = true;    ///< matched in the normalised text rather than the raw one
  bool lstrip = false;       ///< takes the white space before it along
  bool rstrip = false;       ///< takes the white space after it along
  bool single_word = false;  ///< matches only where no word character touches it
};

/// The character that ends before `position`, which must not be 0.
inline std::uint32_t code_point_before(std::string_view text, std::size_t position, std::size_t& start) {
  start = position - 1;
  while (start > 0 && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) --start;
  return decode_utf8(text, start).code_point;
}

/// Finds added tokens, leftmost and then longest first. Constant after `build`, and shared freely.
class AddedTokenFinder {
 public:
  /// `pattern` is the string to look for: the content, or its normalised form.
  void add(std::string pattern, const AddedToken& token) {
    if (!pattern.empty()) patterns_.push_back({std::move(pattern), token});
  }

  void build() {
    std::stable_sort(patterns_.begin(), patterns_.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
    for (const Pattern& pattern : patterns_) first_bytes_.set(static_cast<unsigned char>(pattern.text[0]));
  }

  bool empty() const { return patterns_.empty(); }

  /// Cuts valid UTF-8 `text` into added tokens and the rest: calls `token(id)` and `rest(part)`, no part being empty.
  template <class Token, class Rest>
  void run(std::string_view text, Token&& token, Rest&& rest) const {
    std::size_t done = 0;
    for (std::size_t i = empty() ? text.size() : next_candidate(text, 0); i < text.size();) {
      const Pattern* found = longest_at(text, i);
      if (found == nullptr) {
        i = next_candidate(text, i + 1);
        continue;
      }
      std::size_t start = i;
      std::size_t end = i + found->text.size();
      i = end;
      const AddedToken& match = found->token;
      if (start < done || (match.single_word && touches_word(text, start, end))) {
        i = next_candidate(text, i);
        continue;
      }
      if (match.lstrip) {
        std::size_t before = start;
        while (start > done && is_white_space(code_point_before(text, start, before))) start = before;
      }
      if (match.rstrip) {
        while (end < text.size()) {
          const Utf8Step step = decode_utf8(text, end);
          if (!is_white_space(step.code_point)) break;
          end += step.length;
        }
      }
      if (start > done) rest(text.substr(done, start - done));
      token(match.id);
      done = end;
      i = next_candidate(text, std::max(i, done));
    }
    if (done < text.size()) rest(text.substr(done));
  }

 private:
  struct Pattern {
    std::string text;
    AddedToken token;
  };

  std::size_t next_candidate(std::string_view text, std::size_t from) const {
    if (from >= text.size()) return text.size();
    if (first_bytes_.count() == 1) {
      const void* hit = std::memchr(text.data() + from, patterns_[0].text[0], text.size() - from);
      return hit == nullptr ? text.size() : static_cast<std::size_t>(static_cast<const char*>(hit) - text.data());
    }
    while (from < text.size() && !first_bytes_.test(static_cast<unsigned char>(text[from]))) ++from;
    return from;
  }

  /// Narrows the sorted patterns byte by byte to those that agree with the text.
  const Pattern* longest_at(std::string_view text, std::size_t position) const {
    auto first = patterns_.begin();
    auto last = patterns_.end();
    const Pattern* longest = nullptr;
    for (std::size_t depth = 0; position + depth < text.size(); ++depth) {
      const auto wanted = static_cast<unsigned char>(text[position + depth]);
      const auto byte = [&](const Pattern& pattern) { return static_cast<unsigned char>(pattern.text[depth]); };
      first = std::partition_point(first, last, [&](const Pattern& p) { return byte(p) < wanted; });
      last = std::partition_point(first, last, [&](const Pattern& p) { return byte(p) == wanted; });
      if (first == last) break;
      if (first->text.size() == depth + 1) {
        longest = &*first;
        while (first != last && first->text.size() == depth + 1) ++first;
        if (first == last) break;
      }
    }
    return longest;
  }

  static bool touches_word(std::string_view text, std::size_t start, std::size_t end) {
    std::size_t before = 0;
    return (start > 0 && is_word_character(code_point_before(text, start, before))) ||
           (end < text.size() && is_word_character(decode_utf8(text, end).code_point));
  }

  std::vector<Pattern> patterns_;
  std::bitset<256> first_bytes_;
};

}  // namespace detail

TENON_NAMESPACE_END
