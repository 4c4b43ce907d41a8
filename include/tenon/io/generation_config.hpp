// generation_config.json: how the authors of a model want its text to be sampled.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/format.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

/// Defaults for generation. Nothing in it is required: what the file leaves out is empty.
struct GenerationConfig {
  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;  ///< the file has a number or a list
  std::optional<std::int64_t> pad_token_id;
  std::optional<bool> do_sample;
  std::optional<double> temperature;           ///< >= 0
  std::optional<std::int64_t> top_k;           ///< 0 is off
  std::optional<double> top_p;                 ///< 0 to 1
  std::optional<double> min_p;                 ///< 0 to 1
  std::optional<double> repetition_penalty;    ///< 0.001 to 1000
  std::optional<std::int64_t> max_new_tokens;  ///< >= 1

  bool operator==(const GenerationConfig&) const = default;
};

/// Reads the text of a generation_config.json; unknown fields are ignored. Throws FormatError naming the field.
inline GenerationConfig parse_generation_config(std::string_view text,
                                                const std::string& name = "generation_config.json") {
  const nlohmann::json document = parse_json(text, name);
  const JsonFields fields(document, name);
  // Ranges are those in which the samplers are defined; what they do not use is not read.
  const auto integer = [&](const char* key, std::int64_t least) {
    const std::optional<std::int64_t> value = fields.optional_integer(key);
    if (value && *value < least) {
      fields.fail(key, "is " + std::to_string(*value) + ", which is below " + std::to_string(least));
    }
    return value;
  };
  const auto number = [&](const char* key, double least, double largest) {
    const std::optional<double> value = fields.optional_number(key);
    if (value && !(*value >= least && *value <= largest)) {  // not-a-number fails too
      fields.fail(key, "is " + detail::number_text(*value) + ", which is not between " + detail::number_text(least) +
                           " and " + detail::number_text(largest));
    }
    return value;
  };

  GenerationConfig config;
  config.bos_token_id = integer("bos_token_id", 0);
  config.pad_token_id = integer("pad_token_id", -1);
  if (config.pad_token_id == -1) config.pad_token_id.reset();  // some files say "none" this way
  config.eos_token_ids = fields.integer_list("eos_token_id");
  for (const std::int64_t id : config.eos_token_ids) {
    if (id < 0) fields.fail("eos_token_id", "has " + std::to_string(id) + ", which is negative");
  }
  config.do_sample = fields.optional_boolean("do_sample");
  config.temperature = number("temperature", 0, 1e9);
  config.top_k = integer("top_k", 0);
  config.top_p = number("top_p", 0, 1);
  config.min_p = number("min_p", 0, 1);
  config.repetition_penalty = number("repetition_penalty", 1e-3, 1e3);
  config.max_new_tokens = integer("max_new_tokens", 1);
  return config;
}

/// Reads a generation_config.json; a file that is not there gives an empty configuration. Throws FileError, FormatError.
inline GenerationConfig read_generation_config(const std::filesystem::path& path) {
  if (!path_is_taken(path)) return {};
  return parse_generation_config(read_text_file(path, std::uintmax_t{16} << 20), path.string());
}

TENON_NAMESPACE_END
