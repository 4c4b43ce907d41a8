// Regular expressions on PCRE2, meaning what they mean in a tokenizer.json.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <string_view>

// pcre2.h demands a choice; the names used here carry their width, so that any choice works.
#ifndef PCRE2_CODE_UNIT_WIDTH
#define PCRE2_CODE_UNIT_WIDTH 8
#endif
#include <pcre2.h>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Rewrites the few escapes that Oniguruma, the engine behind tokenizer.json, reads differently: there `\s` is the
/// property White_Space (PCRE2 adds U+180E) and `\w` is letters, marks, decimal digits and connectors. Throws
/// ValueError for what differs and cannot be rewritten: anchors, word boundaries, and some rare escapes.
inline std::string translate_oniguruma(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  const auto refuse = [&](std::string_view what) {
    throw ValueError("the regular expression '" + shortened(pattern) + "' uses '" + std::string(what) +
                     "', which is not supported");
  };
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escape = pattern[++i];
      constexpr std::string_view word = "\\p{L}\\p{M}\\p{Nd}\\p{Pc}";
      if (escape == 's') {
        out += "\\p{White_Space}";
      } else if (escape == 'S') {
        out += "\\P{White_Space}";
      } else if (escape == 'w') {
        out += in_class ? std::string(word) : "[" + std::string(word) + "]";
      } else if (escape == 'W' && !in_class) {
        out += "[^" + std::string(word) + "]";
      } else if ((escape == 'p' || escape == 'P') && pattern.substr(i + 1, 1) == "{") {
        // A name of more than two letters is a script; PCRE2 would take it as Script_Extensions.
        const std::size_t close = pattern.find('}', i);
        if (close == std::string_view::npos) refuse("\\p{ without }");
        const std::string_view name = pattern.substr(i + 2, close - i - 2);
        out += std::string("\\") + escape + (name.size() > 2 ? "{sc:" : "{") + std::string(name) + "}";
        i = close;
      } else if (std::string_view("WbBhHRXGAzZKQEyYNOkg").find(escape) != std::string_view::npos) {
        refuse(std::string("\\") + escape);
      } else {
        out += c;
        out += escape;
      }
      continue;
    }
    if (in_class) {
      if (c == '[') refuse("[ in a class");
      if (c == '&' && pattern.substr(i, 2) == "&&") refuse("&&");
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
      out += c;
      if (pattern.substr(i + 1, 1) == "^") out += pattern[++i];
      if (pattern.substr(i + 1, 1) == "]") refuse("] at the start of a class");
      continue;
    } else if (c == '^' || c == '$') {
      refuse(std::string(1, c));
    }
    out += c;
  }
  return out;
}

/// A compiled pattern. Constant after construction: threads may share it, each with a `RegexMatcher` of its own.
class Regex {
 public:
  /// Compiles an Oniguruma-style `pattern`, or a plain string if `literal`. Throws ValueError if it is malformed.
  explicit Regex(std::string_view pattern, bool literal = false) {
    const std::string text = literal ? std::string(pattern) : translate_oniguruma(pattern);
    const std::uint32_t options = literal ? PCRE2_UTF | PCRE2_LITERAL : PCRE2_UTF | PCRE2_UCP;
    int error = 0;
    PCRE2_SIZE offset = 0;
    code_.reset(
        pcre2_compile_8(reinterpret_cast<PCRE2_SPTR8>(text.data()), text.size(), options, &error, &offset, nullptr));
    if (!code_) {
      throw ValueError("the regular expression '" + shortened(pattern) + "' is malformed: " + message_of(error));
    }
    has_jit_ = pcre2_jit_compile_8(code_.get(), PCRE2_JIT_COMPLETE) == 0;
  }

  const pcre2_code_8* code() const { return code_.get(); }
  bool has_jit() const { return has_jit_; }

  static std::string message_of(int error) {
    PCRE2_UCHAR8 buffer[200];
    const int length = pcre2_get_error_message_8(error, buffer, sizeof buffer);
    return length < 0 ? "error " + std::to_string(error)
                      : std::string(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(length));
  }

 private:
  struct Free {
    void operator()(pcre2_code_8* code) const { pcre2_code_free_8(code); }
  };
  std::unique_ptr<pcre2_code_8, Free> code_;
  bool has_jit_ = false;
};

/// The scratch memory of matching one `Regex`, which must outlive it; serves one thread at a time.
class RegexMatcher {
 public:
  explicit RegexMatcher(const Regex& regex)
      : regex_(&regex), data_(pcre2_match_data_create_8(1, nullptr)), context_(pcre2_match_context_create_8(nullptr)) {
    if (!data_ || !context_) throw std::bad_alloc();
  }

  /// The half-open range of the first match at or after `from` in valid UTF-8 `text`. Look-around sees all of `text`.
  /// Throws ValueError if the engine takes more steps than a pattern that does not backtrack without bound ever needs.
  bool find(std::string_view text, std::size_t from, std::size_t& start, std::size_t& end) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR8>(text.data());
    const std::size_t steps = 100'000 + 64 * text.size();
    constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
    pcre2_set_match_limit_8(context_.get(), static_cast<std::uint32_t>(std::min(steps, most)));
    int result = PCRE2_ERROR_JIT_STACKLIMIT;
    if (regex_->has_jit()) {
      result = pcre2_jit_match_8(regex_->code(), subject, text.size(), from, 0, data_.get(), context_.get());
    }
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its stack on the heap
      result = pcre2_match_8(regex_->code(), subject, text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data_.get(),
                             context_.get());
    }
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) throw ValueError("the tokenizer's regular expression failed: " + Regex::message_of(result));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer_8(data_.get());
    start = offsets[0];
    end = offsets[1];
    return true;
  }

 private:
  struct FreeData {
    void operator()(pcre2_match_data_8* data) const { pcre2_match_data_free_8(data); }
  };
  struct FreeContext {
    void operator()(pcre2_match_context_8* context) const { pcre2_match_context_free_8(context); }
  };
  const Regex* regex_;
  std::unique_ptr<pcre2_match_data_8, FreeData> data_;
  std::unique_ptr<pcre2_match_context_8, FreeContext> context_;
};

}  // namespace detail

TENON_NAMESPACE_END
