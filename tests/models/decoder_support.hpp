// Models, references and random weights for the tests of the decoder.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <tenon/io/load.hpp>
#include <tenon/io/safetensors.hpp>
#include <tenon/models/decoder.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

namespace support {

using Ids = std::vector<std::int64_t>;

inline std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(TENON_TEST_DATA) / "golden" / name;
}

/// What transformers computed.
struct Reference {
  explicit Reference(const std::string& name) : file(golden(name) / "reference.safetensors") {
    const auto list = [&](const char* tensor) {
      const auto values = file.tensor(tensor).as<const std::int64_t, 1>();
      return Ids(values.data(), values.data() + values.numel());
    };
    ids = list("input_ids");
    greedy = list("greedy_f32");
    logits = file.tensor("logits_f32").as<const float, 2>();
    bfloat16_logits = file.tensor("logits_bf16").as<const float, 2>();
  }
  [[nodiscard]] tenon::Tensor<const float, 2> hidden(std::int64_t i) const {
    return file.tensor("hidden_" + std::to_string(i) + "_f32").as<const float, 2>();
  }

  tenon::SafetensorsFile file;
  Ids ids;
  Ids greedy;
  tenon::Tensor<const float, 2> logits;
  tenon::Tensor<const float, 2> bfloat16_logits;
};

struct Difference {
  double largest = 0;
  double rms = 0;
};
/// NaN anywhere makes the result infinite.
template <class T>
Difference difference(const tenon::View<const T, 2>& a, const tenon::View<const float, 2>& b) {
  if (a.sizes() != b.sizes()) return {HUGE_VAL, HUGE_VAL};
  Difference result;
  double squares = 0;
  for (std::int64_t i = 0; i < a.size(0); ++i) {
    for (std::int64_t j = 0; j < a.size(1); ++j) {
      const double error = std::abs(static_cast<double>(a(i, j)) - static_cast<double>(b(i, j)));
      if (!std::isfinite(error)) return {HUGE_VAL, HUGE_VAL};
      result.largest = std::max(result.largest, error);
      squares += error * error;
    }
  }
  result.rms = std::sqrt(squares / static_cast<double>(a.numel()));
  return result;
}
inline Difference difference(const tenon::Tensor<float, 2>& a, const tenon::Tensor<const float, 2>& b) {
  return difference<float>(tenon::View<const float, 2>(a), b);
}

/// Reads `ids` behind what the cache holds, in pieces of the given sizes in turn; logits of all of them.
template <class Model>
tenon::Tensor<float, 2> read(tenon::Context<tenon::Cpu>& ctx, const Model& model, typename Model::Cache& cache,
                             std::span<const std::int64_t> ids, const std::vector<std::size_t>& pieces) {
  const auto logits = tenon::empty<float>(ctx, {static_cast<std::int64_t>(ids.size()), model.config().vocab_size});
  std::size_t begin = 0;
  for (std::size_t turn = 0; begin < ids.size(); ++turn) {
    const std::size_t count = std::min(pieces[turn % pieces.size()], ids.size() - begin);
    model.forward(ctx, cache, ids.subspan(begin, count),
                  logits.slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + count)));
    begin += count;
  }
  return logits;
}

/// The same with a cache of its own.
template <class Model>
tenon::Tensor<float, 2> read(tenon::Context<tenon::Cpu>& ctx, const Model& model, std::span<const std::int64_t> ids,
                             const std::vector<std::size_t>& pieces = {std::size_t{1} << 30}) {
  auto cache = model.make_cache(ctx, static_cast<std::int64_t>(ids.size()));
  return read(ctx, model, cache, ids, pieces);
}

inline bool same_bits(const tenon::Tensor<float, 2>& a, const tenon::Tensor<float, 2>& b) {
  return a.sizes() == b.sizes() && std::equal(a.data(), a.data() + a.numel(), b.data(), [](float x, float y) {
           return std::bit_cast<std::uint32_t>(x) == std::bit_cast<std::uint32_t>(y);
         });
}

/// A small untied Qwen2 whose head size and group are odd enough to hit every tail of a kernel.
inline tenon::ModelConfig small_config() {
  tenon::ModelConfig config;
  config.model_type = "qwen2";
  config.vocab_size = 71;
  config.hidden_size = 60;
  config.intermediate_size = 93;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.head_dim = 10;
  config.max_position_embeddings = 4096;
  config.rms_norm_eps = 1e-6;
  config.rope_theta = 10000.0;
  config.attention_bias = true;
  return config;
}

/// Random float32 weights for a configuration, under Hugging Face's names.
inline tenon::WeightMap random_weights(tenon::Context<tenon::Cpu>& ctx, const tenon::ModelConfig& config,
                                       unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  tenon::WeightMap weights;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> sizes, float center, float deviation) {
    const auto tensor = tenon::AnyTensor::empty(ctx, tenon::DType::float32, std::move(sizes));
    std::vector<float> values(static_cast<std::size_t>(tensor.numel()));
    for (float& value : values) value = center + deviation * normal(random);
    tensor.load(ctx, std::as_bytes(std::span<const float>(values)));
    weights.emplace(name, tensor);
  };
  const auto matrix = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool bias) {
    add(name + ".weight", {rows, columns}, 0, 1.5f / std::sqrt(static_cast<float>(columns)));
    if (bias) add(name + ".bias", {rows}, 0, 0.5f);
  };
  matrix("model.embed_tokens", config.vocab_size, config.hidden_size, false);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    add(prefix + "input_layernorm.weight", {config.hidden_size}, 1, 0.2f);
    matrix(prefix + "self_attn.q_proj", config.query_size(), config.hidden_size, config.attention_bias);
    matrix(prefix + "self_attn.k_proj", config.key_value_size(), config.hidden_size, config.attention_bias);
    matrix(prefix + "self_attn.v_proj", config.key_value_size(), config.hidden_size, config.attention_bias);
    matrix(prefix + "self_attn.o_proj", config.hidden_size, config.query_size(), config.attention_output_bias);
    add(prefix + "post_attention_layernorm.weight", {config.hidden_size}, 1, 0.2f);
    matrix(prefix + "mlp.gate_proj", config.intermediate_size, config.hidden_size, config.mlp_bias);
    matrix(prefix + "mlp.up_proj", config.intermediate_size, config.hidden_size, config.mlp_bias);
    matrix(prefix + "mlp.down_proj", config.hidden_size, config.intermediate_size, config.mlp_bias);
  }
  add("model.norm.weight", {config.hidden_size}, 1, 0.2f);
  if (!config.tie_word_embeddings) matrix("lm_head", config.vocab_size, config.hidden_size, false);
  return weights;
}

inline Ids random_ids(std::int64_t count, std::int64_t vocabulary, unsigned seed = 5) {
  std::mt19937 random(seed);
  Ids ids(static_cast<std::size_t>(count));
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocabulary));
  return ids;
}

}  // namespace support
