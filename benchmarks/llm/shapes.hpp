// Sizes of known models, for benchmarks with random weights.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include <tenon/core/error.hpp>
#include <tenon/models/config.hpp>

namespace llm {

struct Shape {
  std::string_view name;
  std::string_view model_type;
  std::int64_t vocab_size;
  std::int64_t hidden_size;
  std::int64_t intermediate_size;
  std::int64_t layers;
  std::int64_t heads;
  std::int64_t key_value_heads;
  std::int64_t positions;
  double rope_theta;
  bool tied;
};

/// As in the config.json of each.
inline constexpr std::array<Shape, 9> shapes{{
    {"tiny-qwen2", "qwen2", 1536, 192, 512, 6, 6, 2, 1024, 1e4, true},
    {"stories-260k", "llama", 512, 64, 172, 5, 8, 4, 512, 1e4, true},
    {"qwen2.5-0.5b", "qwen2", 151936, 896, 4864, 24, 14, 2, 32768, 1e6, true},
    {"qwen2.5-1.5b", "qwen2", 151936, 1536, 8960, 28, 12, 2, 131072, 1e6, true},
    {"deepseek-r1-distill-qwen-1.5b", "qwen2", 151936, 1536, 8960, 28, 12, 2, 131072, 1e4, false},
    {"qwen2.5-3b", "qwen2", 151936, 2048, 11008, 36, 16, 2, 32768, 1e6, true},
    {"qwen2.5-7b", "qwen2", 152064, 3584, 18944, 28, 28, 4, 131072, 1e6, false},
    {"qwen2.5-14b", "qwen2", 152064, 5120, 13824, 48, 40, 8, 131072, 1e6, false},
    {"llama2-7b", "llama", 32000, 4096, 11008, 32, 32, 32, 4096, 1e4, false},
}};

inline std::string shape_names() {
  std::string names;
  for (const Shape& shape : shapes) names += (names.empty() ? "" : ", ") + std::string(shape.name);
  return names;
}

/// Throws ValueError that lists the known names.
inline tenon::ModelConfig shape_config(std::string_view name) {
  for (const Shape& shape : shapes) {
    if (shape.name != name) continue;
    tenon::ModelConfig config;
    config.model_type = shape.model_type;
    config.vocab_size = shape.vocab_size;
    config.hidden_size = shape.hidden_size;
    config.intermediate_size = shape.intermediate_size;
    config.num_hidden_layers = shape.layers;
    config.num_attention_heads = shape.heads;
    config.num_key_value_heads = shape.key_value_heads;
    config.head_dim = shape.hidden_size / shape.heads;
    config.max_position_embeddings = shape.positions;
    config.rms_norm_eps = 1e-6;
    config.rope_theta = shape.rope_theta;
    config.tie_word_embeddings = shape.tied;
    config.attention_bias = shape.model_type == "qwen2";
    config.validate("shape '" + std::string(name) + "'");
    return config;
  }
  throw tenon::ValueError("shape '" + std::string(name) + "' is none of " + shape_names());
}

}  // namespace llm
