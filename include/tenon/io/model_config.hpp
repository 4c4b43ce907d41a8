// config.json of a Hugging Face folder -> ModelConfig.
//
// The rule: a field that would change the mathematics is either understood or an error, in both spellings that are in
// use (transformers 4: rope_theta, rope_scaling, torch_dtype; transformers 5: rope_parameters, dtype, layer_types).
// Fields that only steer training or Python code are ignored.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/io/json.hpp>
#include <tenon/models/config.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// `model_type` must be a known one, and `architectures`, where present, must agree: a classifier or a reward model
/// has the same model_type and other weights.
inline void check_architecture(const JsonFields& fields, const std::string& model_type) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> known{
      {{"qwen2", "Qwen2ForCausalLM"}, {"llama", "LlamaForCausalLM"}}};
  std::string types;
  std::string names;
  std::string_view expected;
  for (const auto& [type, name] : known) {
    if (type == model_type) expected = name;
    types += (types.empty() ? "'" : ", '") + std::string(type) + "'";
    names += (names.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  if (expected.empty()) {
    fields.fail("model_type", "is '" + shortened(model_type) + "', and the known ones are " + types);
  }
  const std::vector<std::string> found = fields.string_list("architectures");
  if (!found.empty() && std::find(found.begin(), found.end(), expected) == found.end()) {
    const bool is_known = std::any_of(known.begin(), known.end(), [&](const auto& k) { return k.second == found[0]; });
    fields.fail("architectures", "is '" + shortened(found[0]) + "', " +
                                     (is_known ? "which contradicts model_type '" + model_type + "'"
                                               : "and the known ones are " + names));
  }
}

/// Throws for every way to say that positions are anything else than plain rotary embedding.
inline void check_plain_rope(const JsonFields& rope) {
  for (const char* key : {"rope_type", "type"}) {
    const std::optional<std::string> type = rope.optional_string(key);
    if (type && *type != "default") rope.fail(key, "is '" + shortened(*type) + "', and only 'default' is supported");
  }
  // A scaling without its type, and the tables of multimodal and mixed models.
  for (const char* key : {"factor", "mrope_section", "full_attention", "sliding_attention", "short_factor",
                          "long_factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"}) {
    if (rope.find(key) != nullptr) rope.fail(key, "asks for scaled or per-layer positions, which are not supported");
  }
  if (rope.optional_number("partial_rotary_factor").value_or(1.0) != 1.0) {
    rope.fail("partial_rotary_factor", "is not 1, and only whole heads can be rotated");
  }
}

/// The rotary base, from wherever the file has it. A missing one is an error: the defaults of different programs differ,
/// and a wrong base gives fluent nonsense.
inline double read_rope_theta(const JsonFields& fields) {
  std::optional<double> theta = fields.optional_number("rope_theta");
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const std::optional<JsonFields> rope = fields.optional_object(key);
    if (!rope) continue;
    check_plain_rope(*rope);
    // Two different bases in one file: nobody can know which one was meant.
    const std::optional<double> inner = rope->optional_number("rope_theta");
    if (inner && theta && *inner != *theta) {
      rope->fail("rope_theta",
                 "is " + number_text(*inner) + ", but elsewhere in the file it is " + number_text(*theta));
    }
    if (inner) theta = inner;
  }
  if (!theta) fields.fail("rope_theta", "is missing, at the top level and in 'rope_parameters'");
  return *theta;
}

/// The newer spelling goes first. It only chooses a default: every tensor has a dtype of its own in its file.
inline std::optional<DType> read_config_dtype(const JsonFields& fields) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const std::optional<std::string> name = fields.optional_string(key);
    if (!name || *name == "auto") continue;
    std::string_view bare = *name;
    if (bare.substr(0, 6) == "torch.") bare.remove_prefix(6);
    for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
      if (bare == dtype_name(dtype)) return dtype;
    }
    fields.fail(key,
                "is '" + shortened(*name) + "', and the known ones are 'float32', 'float16', 'bfloat16', 'float64'");
  }
  return std::nullopt;
}

/// Which layers have an attention window. `sliding_window` alone means nothing: it counts with `use_sliding_window`,
/// and then for the layers that `layer_types` marks or, without that list, from `max_window_layers` on.
inline void read_sliding_window(const JsonFields& fields, ModelConfig& config) {
  const auto layers = static_cast<std::size_t>(config.num_hidden_layers);
  // `sliding_window: null` is "off" too, as in transformers, which writes it for a switch without a window.
  // The value of a window that is switched off is not even looked at: files carry leftovers there.
  const bool wanted = fields.optional_boolean("use_sliding_window").value_or(false);
  std::optional<std::int64_t> window;
  if (wanted) {
    if (!fields.contains("sliding_window"))
      fields.fail("sliding_window", "is missing although use_sliding_window is true");
    window = fields.optional_integer("sliding_window");
  }
  std::vector<bool> sliding(layers, false);
  if (fields.find("layer_types") != nullptr) {
    const std::vector<std::string> types = fields.string_list("layer_types");
    if (types.size() != layers) {
      fields.fail("layer_types",
                  "has " + std::to_string(types.size()) + " entries for num_hidden_layers " + std::to_string(layers));
    }
    for (std::size_t i = 0; i < layers; ++i) {
      sliding[i] = types[i] == "sliding_attention";
      if (!sliding[i] && types[i] != "full_attention") {
        fields.fail("layer_types", "has '" + shortened(types[i]) +
                                       "', and the known ones are 'full_attention' and 'sliding_attention'");
      }
    }
  } else if (window) {
    const std::int64_t first = fields.integer("max_window_layers");
    if (first < 0) fields.fail("max_window_layers", "is " + std::to_string(first) + ", which is negative");
    for (std::size_t i = 0; i < layers; ++i) sliding[i] = static_cast<std::int64_t>(i) >= first;
  }
  if (std::find(sliding.begin(), sliding.end(), true) == sliding.end()) return;
  if (!window) fields.fail("layer_types", "has 'sliding_attention', but there is no sliding_window in use");
  if (config.model_type != "qwen2") {
    fields.fail("sliding_window", "is in use, which is not supported for model_type '" + config.model_type + "'");
  }
  config.sliding_window = window;
  config.sliding_layers = std::move(sliding);
}

/// Switches of relatives of these models that would need other mathematics.
inline void check_unsupported(const JsonFields& fields) {
  if (fields.find("quantization_config") != nullptr) {
    fields.fail("quantization_config", "is present, and quantised checkpoints are not supported");
  }
  for (const char* key : {"use_mrope", "use_qk_norm", "qk_layernorm", "is_encoder_decoder", "add_cross_attention"}) {
    if (fields.optional_boolean(key).value_or(false)) fields.fail(key, "is true, which is not supported");
  }
  if (fields.optional_number("partial_rotary_factor").value_or(1.0) != 1.0) {
    fields.fail("partial_rotary_factor", "is not 1, and only whole heads can be rotated");
  }
  const std::string activation = fields.optional_string("hidden_act").value_or("silu");
  if (activation != "silu") {
    fields.fail("hidden_act", "is '" + shortened(activation) + "', and only 'silu' is supported");
  }
}

}  // namespace detail

/// Reads the text of a config.json; `name` stands for it in messages. Throws FormatError naming the field.
inline ModelConfig parse_model_config(std::string_view text, const std::string& name = "config.json") {
  const nlohmann::json document = parse_json(text, name);
  const JsonFields fields(document, name);
  ModelConfig config;
  config.model_type = fields.string("model_type");
  detail::check_architecture(fields, config.model_type);
  detail::check_unsupported(fields);

  // Ranges are checked field by field, before anything is derived from them.
  const bool is_qwen2 = config.model_type == "qwen2";
  const auto size = [&](const char* key, std::int64_t largest) {
    const std::int64_t value = fields.integer(key);
    detail::check_config_range("'" + name + "'", key, value, largest);
    return value;
  };
  config.vocab_size = size("vocab_size", ModelConfig::max_vocabulary);
  config.hidden_size = size("hidden_size", ModelConfig::max_width);
  config.intermediate_size = size("intermediate_size", ModelConfig::max_width);
  config.num_hidden_layers = size("num_hidden_layers", ModelConfig::max_layers);
  config.num_attention_heads = size("num_attention_heads", ModelConfig::max_width);
  config.max_position_embeddings = size("max_position_embeddings", ModelConfig::max_positions);
  // The field is younger than LLaMA, where its absence means one key head for each query head; null says so in both.
  const bool may_be_absent = !is_qwen2 || fields.contains("num_key_value_heads");
  config.num_key_value_heads = may_be_absent && fields.find("num_key_value_heads") == nullptr
                                   ? config.num_attention_heads
                                   : size("num_key_value_heads", ModelConfig::max_width);
  // Without head_dim the heads share hidden_size; with it they need not add up to it.
  if (fields.find("head_dim") != nullptr) {
    config.head_dim = size("head_dim", ModelConfig::max_width);
  } else {
    if (config.hidden_size % config.num_attention_heads != 0) {
      fields.fail("num_attention_heads", "is " + std::to_string(config.num_attention_heads) +
                                             ", which does not divide hidden_size " +
                                             std::to_string(config.hidden_size));
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }

  config.rms_norm_eps = fields.number("rms_norm_eps");
  config.rope_theta = detail::read_rope_theta(fields);
  // Absent means untied; then a missing lm_head.weight is noticed when the weights are loaded.
  config.tie_word_embeddings = fields.optional_boolean("tie_word_embeddings").value_or(false);
  // Qwen2 has biases on q, k and v by definition, whatever its file says.
  config.attention_output_bias = !is_qwen2 && fields.optional_boolean("attention_bias").value_or(false);
  config.attention_bias = is_qwen2 || config.attention_output_bias;
  config.mlp_bias = !is_qwen2 && fields.optional_boolean("mlp_bias").value_or(false);
  detail::read_sliding_window(fields, config);

  config.dtype = detail::read_config_dtype(fields);
  config.bos_token_id = fields.optional_integer("bos_token_id");
  config.eos_token_ids = fields.integer_list("eos_token_id");
  config.validate("'" + name + "'");
  return config;
}

/// Reads a config.json. Throws FileError if it cannot be read, FormatError as `parse_model_config`.
inline ModelConfig read_model_config(const std::filesystem::path& path) {
  return parse_model_config(read_text_file(path, std::uintmax_t{16} << 20), path.string());
}

TENON_NAMESPACE_END
