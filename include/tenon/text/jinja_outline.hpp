// The outline of a Jinja template: enough to recognise a family of templates, not to run them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// One tag. `code` is what stands between the braces in a canonical spelling: no spaces outside string literals,
/// literals in single quotes with their escapes decoded and neighbours joined (a quote inside a literal is the byte 1),
/// `x['key']` as `x.key`.
struct JinjaTag {
  static constexpr char inner_quote = '\x01';

  bool is_output = false;  ///< {{ … }}, otherwise {% … %}
  std::string code;

  /// The text, where the tag prints one literal and nothing else.
  std::optional<std::string> literal() const {
    if (!is_output || code.size() < 2 || code.front() != '\'' || code.find('\'', 1) != code.size() - 1) return {};
    std::string text = code.substr(1, code.size() - 2);
    std::replace(text.begin(), text.end(), inner_quote, '\'');
    return text;
  }
};

/// The tags of a template in order, or nothing where the text is no template of the kind that we know: it has an open
/// tag or literal, or it prints text that stands outside of tags (white space that Jinja trims does not count).
class JinjaOutline {
 public:
  static std::optional<JinjaOutline> read(std::string_view source) {
    JinjaOutline outline;
    std::size_t at = 0;
    bool trimmed = false;      // the tag before ends in a dash
    bool after_block = false;  // the tag before is a block, which takes one newline with it
    while (true) {
      std::size_t open = source.find('{', at);
      while (open < source.size() && source.substr(open, 2) != "{{" && source.substr(open, 2) != "{%" &&
             source.substr(open, 2) != "{#") {
        open = source.find('{', open + 1);
      }
      std::string_view between = source.substr(at, open == std::string_view::npos ? open : open - at);
      if (between.find_first_not_of(" \t\r\n") != std::string_view::npos) return {};
      if (after_block && between.starts_with('\n')) between.remove_prefix(1);
      if (open == std::string_view::npos) {
        if (!trimmed && !between.empty() && between != "\n") return {};
        return outline;
      }
      const char kind = source[open + 1];
      at = open + 2;
      const bool trims = source.substr(at, 1) == "-";
      if (trims) ++at;
      const bool indentation = kind != '{' && between.find('\n') == std::string_view::npos;  // lstrip_blocks
      if (!between.empty() && !trimmed && !trims && !indentation) return {};
      if (kind == '#') {
        const std::size_t close = source.find("#}", at);
        if (close == std::string_view::npos) return {};
        trimmed = source[close - 1] == '-';
        at = close + 2;
      } else {
        JinjaTag tag{kind == '{', {}};
        if (!read_code(source, at, kind == '{' ? "}}" : "%}", trimmed, tag.code)) return {};
        outline.tags_.push_back(std::move(tag));
      }
      after_block = kind != '{';
    }
  }

  const std::vector<JinjaTag>& tags() const noexcept { return tags_; }

  /// One letter for each block tag: if, elif = e, else = l, endif = x, for, endfor = o, set; anything else is '!'.
  std::string skeleton() const {
    std::string result;
    for (const JinjaTag& tag : tags_) {
      if (tag.is_output) continue;
      const std::string_view code = tag.code;
      result += code.starts_with("endif")    ? 'x'
                : code.starts_with("endfor") ? 'o'
                : code.starts_with("elif")   ? 'e'
                : code == "else"             ? 'l'
                : code.starts_with("if")     ? 'i'
                : code.starts_with("for")    ? 'f'
                : code.starts_with("set")    ? 's'
                                             : '!';
    }
    return result;
  }

  /// Whether some tag contains the canonical code.
  bool contains(std::string_view code) const {
    for (const JinjaTag& tag : tags_) {
      if (tag.code.find(code) != std::string::npos) return true;
    }
    return false;
  }

  /// Literals that are printed alone, right after an `else`.
  std::vector<std::string> literals_after_else() const {
    std::vector<std::string> result;
    for (std::size_t i = 1; i < tags_.size(); ++i) {
      if (tags_[i - 1].is_output || tags_[i - 1].code != "else") continue;
      if (auto text = tags_[i].literal()) result.push_back(std::move(*text));
    }
    return result;
  }

 private:
  static bool read_code(std::string_view source, std::size_t& at, std::string_view close, bool& trimmed,
                        std::string& code) {
    for (; at < source.size(); ++at) {
      const char c = source[at];
      if (source.substr(at, 2) == close || (c == '-' && source.substr(at + 1, 2) == close)) {
        trimmed = c == '-';
        at += close.size() + (trimmed ? 1 : 0);
        return true;
      }
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
      if (c == '\'' || c == '"') {
        if (!read_literal(source, at, code)) return false;
      } else {
        code += c;
      }
    }
    return false;
  }

  static bool read_literal(std::string_view source, std::size_t& at, std::string& code) {
    const char quote = source[at++];
    std::string text;
    for (; at < source.size() && source[at] != quote; ++at) {
      if (source[at] != '\\' || at + 1 == source.size()) {
        text += source[at];
        continue;
      }
      const char escaped = source[++at];
      text += escaped == 'n' ? '\n' : escaped == 't' ? '\t' : escaped;
    }
    if (at == source.size()) return false;
    std::replace(text.begin(), text.end(), '\'', JinjaTag::inner_quote);
    if (code.ends_with('[') && source.substr(at + 1, 1) == "]") {
      code.back() = '.';
      code += text;
      ++at;
    } else if (code.ends_with("'+")) {
      code.resize(code.size() - 2);
      code += text + "'";
    } else {
      code += "'" + text + "'";
    }
    return true;
  }

  std::vector<JinjaTag> tags_;
};

}  // namespace detail
TENON_NAMESPACE_END
