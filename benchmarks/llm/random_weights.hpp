// Weights of a given shape out of nothing, as fast as memory can be written.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <tenon/models/config.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/create.hpp>

namespace llm {

/// All weights that a model of this configuration binds. Matrices repeat a pattern of normally distributed numbers with
/// the deviation that keeps activations at one size (1 / sqrt(columns)), so that nothing overflows, also in float16;
/// norms are one. One thread writes what the same thread will mostly read.
class RandomWeights {
 public:
  RandomWeights(tenon::Context<tenon::Cpu>& ctx, const tenon::ModelConfig& config, tenon::DType dtype)
      : ctx_(ctx), dtype_(dtype) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    pattern_.resize(pattern_length);
    for (float& value : pattern_) value = std::clamp(normal(random), -4.0f, 4.0f);

    const std::int64_t hidden = config.hidden_size;
    matrix("model.embed_tokens.weight", config.vocab_size, hidden);
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      const std::string prefix = "model.layers." + std::to_string(i) + ".";
      const std::string attention = prefix + "self_attn.";
      ones(prefix + "input_layernorm.weight", hidden);
      projection(attention + "q_proj", config.query_size(), hidden, config.attention_bias);
      projection(attention + "k_proj", config.key_value_size(), hidden, config.attention_bias);
      projection(attention + "v_proj", config.key_value_size(), hidden, config.attention_bias);
      projection(attention + "o_proj", hidden, config.query_size(), config.attention_output_bias);
      ones(prefix + "post_attention_layernorm.weight", hidden);
      projection(prefix + "mlp.gate_proj", config.intermediate_size, hidden, config.mlp_bias);
      projection(prefix + "mlp.up_proj", config.intermediate_size, hidden, config.mlp_bias);
      projection(prefix + "mlp.down_proj", hidden, config.intermediate_size, config.mlp_bias);
    }
    ones("model.norm.weight", hidden);
    if (!config.tie_word_embeddings) matrix("lm_head.weight", config.vocab_size, hidden);
  }

  /// The weights; afterwards there are none.
  [[nodiscard]] tenon::WeightMap take() { return std::move(weights_); }

 private:
  static constexpr std::size_t pattern_length = 65521;  // a prime: rows of a matrix do not repeat soon

  tenon::AnyTensor& add(const std::string& name, std::vector<std::int64_t> sizes) {
    return weights_.emplace(name, tenon::AnyTensor::empty(ctx_, dtype_, std::move(sizes))).first->second;
  }
  void ones(const std::string& name, std::int64_t count) {
    add(name, {count}) = tenon::AnyTensor(tenon::full<float>(ctx_, {count}, 1.0f)).cast(ctx_, dtype_);
  }
  void projection(const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    matrix(name + ".weight", rows, columns);
    if (bias) fill(add(name + ".bias", {rows}), 0.1f);
  }
  void matrix(const std::string& name, std::int64_t rows, std::int64_t columns) {
    fill(add(name, {rows, columns}), 1.0f / std::sqrt(static_cast<float>(columns)));
  }

  void fill(const tenon::AnyTensor& tensor, float deviation) {
    tenon::visit_dtype(dtype_, [&]<class T>(std::type_identity<T>) {
      if constexpr (tenon::FloatElement<T>) {
        std::vector<T> pattern(pattern_length);
        std::transform(pattern_.begin(), pattern_.end(), pattern.begin(), [&](float x) { return T(x * deviation); });
        T* data = reinterpret_cast<T*>(const_cast<std::byte*>(tensor.data()));
        constexpr auto length = static_cast<std::int64_t>(pattern_length);
        tenon::parallel_for(ctx_, tensor.numel(), length, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end;) {
            const std::int64_t offset = i % length;
            const std::int64_t count = std::min(length - offset, end - i);
            std::memcpy(data + i, pattern.data() + offset, static_cast<std::size_t>(count) * sizeof(T));
            i += count;
          }
        });
      }
    });
  }

  tenon::Context<tenon::Cpu>& ctx_;
  tenon::DType dtype_;
  std::vector<float> pattern_;
  tenon::WeightMap weights_;
};

}  // namespace llm
