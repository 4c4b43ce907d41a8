// The normalizer, pre_tokenizer, post_processor and decoder fields of a tokenizer.json. A step that is not known is an
// error that names it: leaving it out would give plausible, wrong ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/tokenizer_data.hpp>
#include <tenon/text/tokenizer_json.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The most bytes of text that the steps of a file may make of all its tokens together: as much as a file may have.
inline constexpr std::size_t max_expanded_bytes = JsonLimits{}.max_bytes;

/// The steps under `key`, with Sequence (whose members are under `members`) taken apart; none if the field is null.
inline void flatten_steps(const TokenizerFields& step, const std::string& members, std::vector<TokenizerFields>& out) {
  if (step.string("type") != "Sequence") {
    out.push_back(step);
    return;
  }
  for (const TokenizerFields& member : step.objects(members)) flatten_steps(member, members, out);
}

inline std::vector<TokenizerFields> read_steps(const TokenizerFields& root, const std::string& key,
                                               const std::string& members) {
  std::vector<TokenizerFields> steps;
  if (root.find(key) != nullptr) flatten_steps(root.object(key), members, steps);
  // Each step takes time and stack for every text; files in use have fewer than ten.
  constexpr std::size_t most = 256;
  if (steps.size() > most) root.fail(key, "has more than " + std::to_string(most) + " steps");
  return steps;
}

[[noreturn]] inline void fail_step(const TokenizerFields& step, const std::string& what) {
  step.fail("the step '" + shortened(step.string("type")) + "' in " + step.path() + " " + what);
}

/// The `pattern` of Split and Replace: {"String": …} or {"Regex": …}. Returns the text, and whether it is a regex.
inline std::pair<std::string, bool> read_pattern(const TokenizerFields& step) {
  const TokenizerFields pattern = step.object("pattern");
  const bool is_regex = pattern.find("Regex") != nullptr;
  std::string text = pattern.string(is_regex ? "Regex" : "String");
  if (text.empty()) pattern.fail(is_regex ? "Regex" : "String", "is empty");
  return {std::move(text), is_regex};
}

inline void build_normalizer(TokenizerData& data, const TokenizerFields& root) {
  for (const TokenizerFields& step : read_steps(root, "normalizer", "normalizers")) {
    const std::string type = step.string("type");
    if (type == "NFC") {
      data.normalizer.add({NormalizerStep::Kind::nfc, {}, {}, nullptr});
    } else if (type == "Prepend") {
      data.normalizer.add({NormalizerStep::Kind::prepend, {}, step.string("prepend"), nullptr});
    } else if (type == "Replace") {
      auto [pattern, is_regex] = read_pattern(step);
      std::shared_ptr<const Regex> regex = is_regex ? std::make_shared<const Regex>(pattern) : nullptr;
      data.normalizer.add(
          {NormalizerStep::Kind::replace, std::move(pattern), step.string("content"), std::move(regex)});
    } else {
      fail_step(step, "is not supported");
    }
  }
}

inline SplitBehavior read_behavior(const TokenizerFields& step, const std::string& key) {
  const std::string name = step.string(key);
  if (name == "Isolated") return SplitBehavior::isolated;
  if (name == "Removed") return SplitBehavior::removed;
  if (name == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (name == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (name == "Contiguous") return SplitBehavior::contiguous;
  step.fail(key, "has the unknown value '" + shortened(name) + "'");
}

/// Old files say `add_prefix_space` instead.
inline PreTokenizerStep::Prepend read_prepend_scheme(const TokenizerFields& step) {
  using Prepend = PreTokenizerStep::Prepend;
  if (step.find("prepend_scheme") == nullptr) {
    return step.boolean("add_prefix_space", true) ? Prepend::always : Prepend::never;
  }
  const std::string name = step.string("prepend_scheme");
  if (name == "always") return Prepend::always;
  if (name == "first") return Prepend::first;
  if (name == "never") return Prepend::never;
  step.fail("prepend_scheme", "has the unknown value '" + shortened(name) + "'");
}

/// GPT-2's pattern, which a ByteLevel step applies unless it says `use_regex: false`.
inline constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

inline void build_pre_tokenizer(TokenizerData& data, const TokenizerFields& root) {
  using Step = PreTokenizerStep;
  const auto split = [](std::string_view pattern, SplitBehavior behavior, bool literal = false) {
    Step step;
    step.regex = std::make_shared<const Regex>(pattern, literal);
    step.behavior = behavior;
    return step;
  };
  PreTokenizer& steps = data.pre_tokenizer;
  for (const TokenizerFields& step : read_steps(root, "pre_tokenizer", "pretokenizers")) {
    const std::string type = step.string("type");
    if (data.model.byte_level) fail_step(step, "after ByteLevel is not supported");
    if (type == "Split") {
      const auto [pattern, is_regex] = read_pattern(step);
      Step added = split(pattern, read_behavior(step, "behavior"), !is_regex);
      added.invert = step.boolean("invert", false);
      added.ascii_digits = is_regex ? ascii_split_digits(pattern) : 0;
      steps.add(std::move(added));
    } else if (type == "ByteLevel") {
      Step space;
      space.kind = Step::Kind::prefix_space;
      if (step.boolean("add_prefix_space", true)) steps.add(space);
      if (step.boolean("use_regex", true)) steps.add(split(gpt2_pattern, SplitBehavior::isolated));
      data.model.byte_level = true;
    } else if (type == "Digits") {
      steps.add(split(step.boolean("individual_digits", false) ? "\\p{N}" : "\\p{N}+", SplitBehavior::isolated));
    } else if (type == "Punctuation") {
      const bool given = step.find("behavior") != nullptr;
      steps.add(split("[\\p{P}$+<=>\\^`|~]", given ? read_behavior(step, "behavior") : SplitBehavior::isolated));
    } else if (type == "Metaspace") {
      Step visible;
      visible.kind = Step::Kind::visible_space;
      visible.marker = step.string("replacement");
      visible.prepend = read_prepend_scheme(step);
      if (visible.marker.empty()) step.fail("replacement", "is empty");
      steps.add(visible);
      if (step.boolean("split", true)) steps.add(split(visible.marker, SplitBehavior::merged_with_next, true));
    } else {
      fail_step(step, "is not supported");
    }
  }
}

/// TemplateProcessing puts tokens around the text; ByteLevel only moves offsets, which are not kept.
inline void build_post_processor(TokenizerData& data, const TokenizerFields& root) {
  bool has_template = false;
  for (const TokenizerFields& step : read_steps(root, "post_processor", "processors")) {
    const std::string type = step.string("type");
    if (type == "ByteLevel") continue;
    if (type != "TemplateProcessing") fail_step(step, "is not supported");
    if (std::exchange(has_template, true)) fail_step(step, "is there twice, which is not supported");
    bool seen_text = false;
    for (const TokenizerFields& item : step.objects("single")) {
      if (item.find("Sequence") != nullptr) {
        if (item.object("Sequence").string("id") != "A" || std::exchange(seen_text, true)) {
          step.fail("single", "does not hold the text 'A' exactly once");
        }
        continue;
      }
      const std::string name = item.object("SpecialToken").string("id");
      const TokenizerFields token = step.object("special_tokens").object(name);
      const nlohmann::json* ids = token.find("ids");
      if (ids == nullptr || !ids->is_array()) token.fail("ids", "is not an array");
      for (const nlohmann::json& id : *ids) {
        if (!id.is_number_unsigned() || id.get<std::uint64_t>() >= data.flags.size()) {
          token.fail("ids", "holds " + shortened(id.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)) +
                                ", which is not an id of the vocabulary");
        }
        (seen_text ? data.suffix : data.prefix).push_back(id.get<std::int64_t>());
      }
    }
    if (!seen_text) step.fail("single", "does not hold the text 'A' exactly once");
  }
}

/// Whether `token` is spelled <0xHH>; then its byte.
inline bool parse_byte_token(std::string_view token, char& byte) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return false;
  unsigned value = 0;
  for (const char c : token.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const char lower = static_cast<char>(c | 0x20);
    if (!digit && (lower < 'a' || lower > 'f')) return false;
    value = value * 16 + static_cast<unsigned>(digit ? c - '0' : lower - 'a' + 10);
  }
  byte = static_cast<char>(static_cast<unsigned char>(value));
  return true;
}

/// What a decoder without ByteLevel makes of each token.
struct TokenSpelling {
  std::vector<std::pair<std::string, std::string>> replacements;
  bool byte_fallback = false;

  /// Throws ValueError where the replacements blow the token up.
  std::string decode(std::string_view token) const {
    std::string text(token);
    char byte = 0;
    if (byte_fallback && parse_byte_token(text, byte)) return std::string(1, byte);
    const std::size_t limit = expansion_limit(text.size());
    for (const auto& [from, to] : replacements) {
      std::string replaced;
      std::size_t copied = 0;
      for (std::size_t at = 0; (at = text.find(from, copied)) != std::string::npos; copied = at + from.size()) {
        check_expansion(replaced.size() + (at - copied) + to.size(), limit);
        replaced.append(text, copied, at - copied).append(to);
      }
      if (copied == 0) continue;
      replaced.append(text, copied);
      check_expansion(replaced.size(), limit);
      text = std::move(replaced);
    }
    return text;
  }
};

inline void build_decoder(TokenizerData& data, const TokenizerFields& root) {
  const std::vector<TokenizerFields> steps = read_steps(root, "decoder", "decoders");
  if (steps.empty()) root.fail("decoder", "is missing");
  TokenSpelling spelling;
  bool fused = false;
  for (const TokenizerFields& step : steps) {
    const std::string type = step.string("type");
    if ((type == "ByteLevel") != data.model.byte_level || (data.model.byte_level && steps.size() != 1)) {
      fail_step(step,
                data.model.byte_level ? "does not fit a byte-level vocabulary" : "fits a byte-level vocabulary only");
    }
    if (type == "ByteLevel") return;
    if (type == "Replace" && !fused) {
      auto [from, is_regex] = read_pattern(step);
      if (is_regex) fail_step(step, "has a regular expression, which is not supported");
      spelling.replacements.emplace_back(std::move(from), step.string("content"));
    } else if (type == "ByteFallback" && !fused) {
      spelling.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip" && fused && step.string("content") == " " && step.integer("stop") == 0) {
      data.leading_spaces += static_cast<std::size_t>(step.integer("start"));
    } else {
      fail_step(step, type == "Strip" || type == "Replace" || type == "ByteFallback"
                          ? "is not supported in this form or place"
                          : "is not supported");
    }
  }
  const TokenTable& table = data.model.table;
  data.decoded.reserve(table.size(), 0, 0);
  std::size_t total = 0;
  for (std::size_t id = 0; id < table.size(); ++id) {
    if (!table.contains(id)) continue;
    const std::string text = spelling.decode(table[id]);
    total += text.size();
    if (total > max_expanded_bytes) root.fail("decoder", "makes the tokens too long");
    data.decoded.set(static_cast<std::uint32_t>(id), text);
  }
}

}  // namespace detail

TENON_NAMESPACE_END
