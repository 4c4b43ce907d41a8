// tokenizer_config.json: the special tokens and the chat template that belong to a tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

/// The fields that text generation needs. Nothing is required: what the file leaves out is empty.
struct TokenizerConfig {
  std::optional<std::string> bos_token;
  std::optional<std::string> eos_token;  ///< ends a turn; part of the stop set
  std::optional<std::string> pad_token;
  std::optional<std::string> unk_token;
  std::optional<bool> add_bos_token;  ///< the tokenizer itself puts bos_token first (templates may do so too)
  std::optional<bool> add_eos_token;
  std::vector<std::string> additional_special_tokens;
  std::string tokenizer_class;
  /// The Jinja text, as it is. Where the file has several templates, the one named "default", if there is one.
  std::optional<std::string> chat_template;
  std::vector<std::string> chat_template_names;  ///< of a file that has several, in its order

  bool operator==(const TokenizerConfig&) const = default;
};

namespace detail {

/// A token is a string, or an object with the string in `content`.
inline std::string token_text(const JsonFields& fields, const char* key, const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) {
    const auto content = value.find("content");
    if (content != value.end() && content->is_string()) return content->get<std::string>();
  }
  fields.wrong(key, "a string or an object with the string 'content'", value);
}

/// The token, or nothing for an absent or null field.
inline std::optional<std::string> optional_token(const JsonFields& fields, const char* key) {
  const nlohmann::json* found = fields.find(key);
  if (found == nullptr) return std::nullopt;
  return token_text(fields, key, *found);
}

/// A template is a string, or a list of {name, template}, of which the one named "default" is taken. A list without it is
/// no error: whoever picks a template by another way does not need it.
inline void read_templates(const JsonFields& fields, TokenizerConfig& config) {
  constexpr const char* key = "chat_template";
  const nlohmann::json* found = fields.find(key);
  if (found == nullptr) return;
  if (found->is_string()) {
    config.chat_template = found->get<std::string>();
    return;
  }
  if (!found->is_array()) fields.wrong(key, "a string or a list of named templates", *found);
  for (const nlohmann::json& item : *found) {
    const JsonFields entry(item, fields.file(), "chat_template[].");
    config.chat_template_names.push_back(entry.string("name"));
    std::string text = entry.string("template");
    if (config.chat_template_names.back() == "default") config.chat_template = std::move(text);
  }
}

}  // namespace detail

/// Reads the text of a tokenizer_config.json; unknown fields are ignored. Throws FormatError naming the field.
inline TokenizerConfig parse_tokenizer_config(std::string_view text,
                                              const std::string& name = "tokenizer_config.json") {
  const nlohmann::json document = parse_json(text, name);
  const JsonFields fields(document, name);
  TokenizerConfig config;
  config.bos_token = detail::optional_token(fields, "bos_token");
  config.eos_token = detail::optional_token(fields, "eos_token");
  config.pad_token = detail::optional_token(fields, "pad_token");
  config.unk_token = detail::optional_token(fields, "unk_token");
  config.add_bos_token = fields.optional_boolean("add_bos_token");
  config.add_eos_token = fields.optional_boolean("add_eos_token");
  config.tokenizer_class = fields.optional_string("tokenizer_class").value_or("");
  detail::read_templates(fields, config);
  if (const nlohmann::json* extra = fields.find("additional_special_tokens"); extra != nullptr) {
    if (!extra->is_array()) fields.wrong("additional_special_tokens", "a list of tokens", *extra);
    for (const nlohmann::json& item : *extra) {
      config.additional_special_tokens.push_back(detail::token_text(fields, "additional_special_tokens", item));
    }
  }
  return config;
}

/// Reads tokenizer_config.json of a model folder; a file that is not there gives an empty configuration. A
/// chat_template.jinja beside it goes before the template inside, as in transformers. Throws FileError, FormatError.
inline TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder) {
  constexpr std::uintmax_t limit = std::uintmax_t{64} << 20;
  TokenizerConfig config;
  const std::filesystem::path file = folder / "tokenizer_config.json";
  if (path_is_taken(file)) config = parse_tokenizer_config(read_text_file(file, limit), file.string());
  const std::filesystem::path jinja = folder / "chat_template.jinja";
  if (path_is_taken(jinja)) config.chat_template = read_text_file(jinja, limit);
  return config;
}

TENON_NAMESPACE_END
