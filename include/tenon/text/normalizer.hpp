// The normalisation steps of a tokenizer.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/text/nfc.hpp>
#include <tenon/text/regex.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The most bytes that the steps of a tokenizer.json may make of a text of `size` bytes. Real steps grow a text a few
/// times at most; without a bound, forty steps that double it would take all the memory there is. Positions in a text
/// have 32 bits.
inline std::size_t expansion_limit(std::size_t size) {
  constexpr std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
  return static_cast<std::size_t>(std::min(most - 1, 64 * static_cast<std::uint64_t>(size) + (std::uint64_t{1} << 20)));
}

/// Throws ValueError where a step is about to make a text of `size` bytes although `limit` is the most.
inline void check_expansion(std::size_t size, std::size_t limit) {
  if (size > limit) {
    throw ValueError("the tokenizer's steps make a text longer than " + std::to_string(limit) +
                     " bytes, the most for its length");
  }
}

/// One step: NFC, a prefix for text that is not empty, or the replacement of a string or a pattern.
struct NormalizerStep {
  enum class Kind { nfc, prepend, replace };
  Kind kind;
  std::string pattern;                 ///< replace: the plain string, if `regex` is null
  std::string content;                 ///< prepend: the prefix; replace: what to put
  std::shared_ptr<const Regex> regex;  ///< replace: the pattern, or null
};

/// All steps in order. Constant after loading and shared freely.
class Normalizer {
 public:
  void add(NormalizerStep step) { steps_.push_back(std::move(step)); }

  /// The normalised form of valid UTF-8 `text`: `text` itself if nothing changes, else a view of `storage`.
  /// Throws ValueError where the steps blow it up (`expansion_limit`), or a pattern fails.
  std::string_view apply(std::string_view text, std::string& storage) const {
    const std::size_t limit = expansion_limit(text.size());
    std::string scratch;
    for (const NormalizerStep& step : steps_) {
      const std::string_view before = text;
      text = apply_step(step, text, limit, scratch);
      check_expansion(text.size(), limit);
      if (text.data() != before.data() || text.size() != before.size()) {
        storage.swap(scratch);
        text = storage;
      }
    }
    return text;
  }

 private:
  static std::string_view apply_step(const NormalizerStep& step, std::string_view text, std::size_t limit,
                                     std::string& out) {
    if (text.empty()) return text;
    switch (step.kind) {
      case NormalizerStep::Kind::nfc: return to_nfc(text, out);
      case NormalizerStep::Kind::prepend:
        check_expansion(step.content.size() + text.size(), limit);
        out.assign(step.content).append(text);
        return out;
      case NormalizerStep::Kind::replace: break;
    }
    out.clear();
    std::size_t copied = 0;
    const auto replace = [&](std::size_t start, std::size_t end) {
      check_expansion(out.size() + (start - copied) + step.content.size(), limit);
      out.append(text.substr(copied, start - copied)).append(step.content);
      copied = end;
    };
    if (step.regex) {
      RegexMatcher matcher(*step.regex);
      std::size_t start = 0;
      std::size_t end = 0;
      for (std::size_t from = 0; from < text.size() && matcher.find(text, from, start, end);) {
        if (end > start) replace(start, end);
        from = end > start ? end : end < text.size() ? end + decode_utf8(text, end).length : end;
        if (end == text.size()) break;
      }
    } else {
      for (std::size_t start = 0; (start = text.find(step.pattern, copied)) != std::string_view::npos;) {
        replace(start, start + step.pattern.size());
      }
    }
    if (copied == 0) return text;
    out.append(text.substr(copied));
    return out;
  }

  std::vector<NormalizerStep> steps_;
};

}  // namespace detail

TENON_NAMESPACE_END
