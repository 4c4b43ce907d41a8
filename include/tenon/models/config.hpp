// The sizes and switches that define a decoder, whatever file they came from.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>

TENON_NAMESPACE_BEGIN

/// Configuration of a Qwen2 or LLaMA 2 decoder. Field names are those of Hugging Face's config.json. A plain value: copy
/// it freely; nothing is shared. `validate` says whether the numbers fit together, and readers call it.
struct ModelConfig {
  /// Largest values taken. They are far above any model, and small enough that every product of two fits 64 bits.
  static constexpr std::int64_t max_width = std::int64_t{1} << 24;
  static constexpr std::int64_t max_layers = std::int64_t{1} << 12;
  static constexpr std::int64_t max_vocabulary = std::int64_t{1} << 28;
  static constexpr std::int64_t max_positions = std::int64_t{1} << 30;

  std::string model_type;  ///< "qwen2" or "llama"
  std::int64_t vocab_size = 0;
  std::int64_t hidden_size = 0;
  std::int64_t intermediate_size = 0;
  std::int64_t num_hidden_layers = 0;
  std::int64_t num_attention_heads = 0;
  std::int64_t num_key_value_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t max_position_embeddings = 0;
  double rms_norm_eps = 0.0;
  double rope_theta = 0.0;

  bool tie_word_embeddings = false;    ///< the output projection is the embedding matrix
  bool attention_bias = false;         ///< q, k and v have a bias (always in qwen2)
  bool attention_output_bias = false;  ///< o has one too (never in qwen2; in llama it follows attention_bias)
  bool mlp_bias = false;

  /// Attention window W: a query sees itself and the W - 1 positions before it. Set only if some layer uses it.
  std::optional<std::int64_t> sliding_window;
  /// One entry per layer, true where the window holds; empty if no layer has one.
  std::vector<bool> sliding_layers;

  std::optional<DType> dtype;  ///< what the weights were saved in, if the file says so
  std::optional<std::int64_t> bos_token_id;
  std::vector<std::int64_t> eos_token_ids;

  bool operator==(const ModelConfig&) const = default;

  /// Width of all query heads together: rows of q_proj, columns of o_proj.
  [[nodiscard]] std::int64_t query_size() const noexcept { return num_attention_heads * head_dim; }
  /// Width of all key (or value) heads together: rows of k_proj and v_proj.
  [[nodiscard]] std::int64_t key_value_size() const noexcept { return num_key_value_heads * head_dim; }
  /// Query heads that share one key and value head.
  [[nodiscard]] std::int64_t heads_per_key_value() const noexcept { return num_attention_heads / num_key_value_heads; }

  /// The window of one layer, or nothing where the layer attends to everything before it.
  [[nodiscard]] std::optional<std::int64_t> window_of_layer(std::int64_t layer) const {
    const auto i = static_cast<std::size_t>(layer);
    return i < sliding_layers.size() && sliding_layers[i] ? sliding_window : std::nullopt;
  }

  /// Number of trained parameters; a tied output projection is counted once.
  [[nodiscard]] std::int64_t parameter_count() const noexcept {
    const std::int64_t bias = attention_bias ? query_size() + 2 * key_value_size() : 0;
    const std::int64_t attention =
        hidden_size * (2 * query_size() + 2 * key_value_size()) + bias + (attention_output_bias ? hidden_size : 0);
    const std::int64_t mlp = 3 * hidden_size * intermediate_size + (mlp_bias ? 2 * intermediate_size + hidden_size : 0);
    const std::int64_t embeddings = vocab_size * hidden_size * (tie_word_embeddings ? 1 : 2);
    return embeddings + num_hidden_layers * (attention + mlp + 2 * hidden_size) + hidden_size;
  }

  /// Throws FormatError naming `where` (for example the file) and the first field that is out of range or does not fit
  /// the others.
  void validate(std::string_view where = "the model configuration") const;
};

namespace detail {

[[noreturn]] inline void throw_config_field(std::string_view where, std::string_view field, const std::string& what) {
  throw FormatError(std::string(where) + ": field '" + std::string(field) + "' " + what);
}

inline void check_config_range(std::string_view where, std::string_view field, std::int64_t value,
                               std::int64_t largest) {
  if (value >= 1 && value <= largest) return;
  throw_config_field(where, field,
                     "is " + std::to_string(value) + ", which is not within 1 and " + std::to_string(largest));
}

inline void check_config_token(std::string_view where, std::string_view field, std::int64_t id,
                               std::int64_t vocabulary) {
  if (id >= 0 && id < vocabulary) return;
  throw_config_field(
      where, field,
      "is " + std::to_string(id) + ", which is no token of a vocabulary of " + std::to_string(vocabulary));
}

}  // namespace detail

inline void ModelConfig::validate(std::string_view where) const {
  if (model_type != "qwen2" && model_type != "llama") {
    detail::throw_config_field(where, "model_type",
                               "is '" + model_type + "', and the known ones are 'qwen2' and 'llama'");
  }
  detail::check_config_range(where, "vocab_size", vocab_size, max_vocabulary);
  detail::check_config_range(where, "hidden_size", hidden_size, max_width);
  detail::check_config_range(where, "intermediate_size", intermediate_size, max_width);
  detail::check_config_range(where, "num_hidden_layers", num_hidden_layers, max_layers);
  detail::check_config_range(where, "num_attention_heads", num_attention_heads, max_width);
  detail::check_config_range(where, "num_key_value_heads", num_key_value_heads, max_width);
  detail::check_config_range(where, "head_dim", head_dim, max_width);
  detail::check_config_range(where, "max_position_embeddings", max_position_embeddings, max_positions);
  if (num_attention_heads % num_key_value_heads != 0) {
    detail::throw_config_field(where, "num_key_value_heads",
                               "is " + std::to_string(num_key_value_heads) +
                                   ", which does not divide num_attention_heads " +
                                   std::to_string(num_attention_heads));
  }
  if (head_dim % 2 != 0) {
    detail::throw_config_field(where, "head_dim",
                               "is " + std::to_string(head_dim) + ", and rotary embedding needs an even number");
  }
  detail::check_config_range(where, "num_attention_heads * head_dim", query_size(), max_width);
  if (!std::isfinite(rms_norm_eps) || rms_norm_eps <= 0.0 || rms_norm_eps >= 1.0) {
    detail::throw_config_field(where, "rms_norm_eps",
                               "is " + detail::number_text(rms_norm_eps) + ", which is not above 0 and below 1");
  }
  if (!std::isfinite(rope_theta) || rope_theta <= 1.0) {
    detail::throw_config_field(where, "rope_theta", "is " + detail::number_text(rope_theta) + ", which is not above 1");
  }
  if (sliding_window) detail::check_config_range(where, "sliding_window", *sliding_window, max_positions);
  if (!sliding_layers.empty()) {
    if (sliding_layers.size() != static_cast<std::size_t>(num_hidden_layers)) {
      detail::throw_config_field(where, "layer_types",
                                 "has " + std::to_string(sliding_layers.size()) + " entries for num_hidden_layers " +
                                     std::to_string(num_hidden_layers));
    }
    if (!sliding_window) {
      detail::throw_config_field(where, "sliding_window", "is missing although layers are marked as sliding");
    }
  }
  if (bos_token_id) detail::check_config_token(where, "bos_token_id", *bos_token_id, vocab_size);
  for (const std::int64_t id : eos_token_ids) detail::check_config_token(where, "eos_token_id", id, vocab_size);
}

TENON_NAMESPACE_END
