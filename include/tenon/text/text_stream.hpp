// Text from token ids as they come, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/text/tokenizer.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

struct TextStreamOptions {
  /// Leave out tokens that are marked special, such as `<|im_end|>`.
  bool skip_special_tokens = true;
  /// The first id starts a text, so the space that LLaMA 2 puts there is dropped, as in `Tokenizer::decode`. Set it to
  /// false where the ids continue a text: then that space separates two words.
  bool starts_text = true;
};

/// A streaming detokeniser: what `push` and `flush` return, put together, is `Tokenizer::decode` of all ids.
///
/// Tokens are runs of bytes and may end inside a character. Only such an incomplete tail (at most three bytes) is held
/// back until the next token decides it; bytes that cannot become a character turn into U+FFFD at once, as they would
/// in the whole text. Everything works on bytes of tokens: nothing is decoded twice and no lengths of re-decoded text
/// are compared. One object serves one stream; it is not shared between threads, while the tokenizer's tables are.
class TextStream {
 public:
  explicit TextStream(Tokenizer tokenizer, TextStreamOptions options = {})
      : tokenizer_(std::move(tokenizer)), options_(options) {
    reset();
  }

  /// Returns the new text that can be shown: valid UTF-8, possibly empty. Ids at or above the vocabulary, which models
  /// with a padded output layer can emit, give nothing; a negative id throws IndexError and changes nothing.
  std::string push(std::int64_t id) {
    std::string_view bytes = tokenizer_.token_bytes(id);
    if (options_.skip_special_tokens && tokenizer_.is_special(id)) return {};
    for (; spaces_to_strip_ > 0 && bytes.starts_with(' '); --spaces_to_strip_) bytes.remove_prefix(1);
    if (bytes.empty()) return {};
    spaces_to_strip_ = 0;
    held_ += bytes;
    const std::size_t ready = held_.size() - incomplete_utf8_tail(held_);
    std::string text = repair_utf8(std::string_view(held_).substr(0, ready));
    held_.erase(0, ready);
    return text;
  }

  /// Call after the last id: an incomplete character that is left becomes U+FFFD.
  std::string flush() { return repair_utf8(std::exchange(held_, {})); }

  /// The bytes of the incomplete character that is held back.
  std::string_view held() const noexcept { return held_; }

  /// Starts a new stream with the same options.
  void reset() {
    held_.clear();
    spaces_to_strip_ = options_.starts_text ? tokenizer_.leading_spaces_stripped() : 0;
  }

 private:
  Tokenizer tokenizer_;
  TextStreamOptions options_;
  std::size_t spaces_to_strip_ = 0;
  std::string held_;
};

TENON_NAMESPACE_END
