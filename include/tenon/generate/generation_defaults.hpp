// What the files of a model folder say about generating with it: sampling, stop ids, length.
//
//   auto options = tenon::load_generation_defaults(folder, model.config(), tokenizer).text_options();
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/generate/generate_text.hpp>
#include <tenon/generate/sampling_options.hpp>
#include <tenon/generate/stop.hpp>
#include <tenon/io/generation_config.hpp>
#include <tenon/io/tokenizer_config.hpp>
#include <tenon/models/config.hpp>
#include <tenon/text/tokenizer.hpp>

TENON_NAMESPACE_BEGIN

/// How a checkpoint wants its text to be generated. A plain value.
struct GenerationDefaults {
  /// As generation_config.json says, with every filter that it leaves out off. As in transformers, sampling is greedy
  /// unless do_sample is true; then setting `greedy` to false samples with whatever else the file has. `vocab_limit` is
  /// the size of the tokenizer: output layers have more rows than that, and what lies beyond is no text.
  SamplingOptions sampling;

  /// Every id that generation_config.json, config.json or the tokenizer names as an end.
  StopIds stop_ids;

  /// Absent where the file has no limit.
  std::optional<std::int64_t> max_new_tokens;

  /// The same for generate_text.
  [[nodiscard]] TextOptions text_options() const {
    TextOptions options;
    options.sampling = sampling;
    options.stop_ids = stop_ids;
    options.max_new_tokens = max_new_tokens.value_or(0);
    return options;
  }
};

/// Reads generation_config.json and tokenizer_config.json of a folder, either of which may be missing. `config` and
/// `tokenizer` are those of the same folder. An eos_token that the tokenizer does not know ends nothing.
///
/// Throws FileError for a file that cannot be read, and FormatError, naming the file, for one that is malformed, for a
/// stop id outside the vocabulary and for a tokenizer with more tokens than the model has.
[[nodiscard]] inline GenerationDefaults load_generation_defaults(const std::filesystem::path& folder,
                                                                 const ModelConfig& config,
                                                                 const Tokenizer& tokenizer) {
  if (tokenizer.vocab_size() > config.vocab_size) {
    throw FormatError("'" + (folder / "tokenizer.json").string() + "' has " + std::to_string(tokenizer.vocab_size()) +
                      " tokens, but the model has only " + std::to_string(config.vocab_size));
  }
  const std::filesystem::path file = folder / "generation_config.json";
  const GenerationConfig generation = read_generation_config(file);
  const auto check = [&](const std::filesystem::path& source, const std::vector<std::int64_t>& ids) {
    for (const std::int64_t id : ids) {
      detail::check_config_token("'" + source.string() + "'", "eos_token_id", id, config.vocab_size);
    }
  };
  check(file, generation.eos_token_ids);
  check(folder / "config.json", config.eos_token_ids);
  std::vector<std::int64_t> turn_end;
  if (const auto token = read_tokenizer_config(folder).eos_token) {
    if (const auto id = tokenizer.token_to_id(*token)) turn_end.push_back(*id);
  }

  GenerationDefaults defaults;
  SamplingOptions& sampling = defaults.sampling;
  sampling.greedy = !generation.do_sample.value_or(false);
  sampling.temperature = generation.temperature.value_or(sampling.temperature);
  sampling.top_k = generation.top_k.value_or(sampling.top_k);
  sampling.top_p = generation.top_p.value_or(sampling.top_p);
  sampling.min_p = generation.min_p.value_or(sampling.min_p);
  sampling.repetition_penalty = generation.repetition_penalty.value_or(sampling.repetition_penalty);
  sampling.vocab_limit = tokenizer.vocab_size();
  defaults.stop_ids =
      StopIds(merge_stop_ids({generation.eos_token_ids, config.eos_token_ids, turn_end}), config.vocab_size);
  defaults.max_new_tokens = generation.max_new_tokens;
  return defaults;
}

TENON_NAMESPACE_END
