#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/models/config.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::FormatError;
using tenon::ModelConfig;

/// The sizes of Qwen2.5-0.5B.
ModelConfig small() {
  ModelConfig config;
  config.model_type = "qwen2";
  config.vocab_size = 151936;
  config.hidden_size = 896;
  config.intermediate_size = 4864;
  config.num_hidden_layers = 24;
  config.num_attention_heads = 14;
  config.num_key_value_heads = 2;
  config.head_dim = 64;
  config.max_position_embeddings = 32768;
  config.rms_norm_eps = 1e-6;
  config.rope_theta = 1e6;
  config.tie_word_embeddings = true;
  config.attention_bias = true;
  return config;
}

template <class Edit>
void check_refused(Edit&& edit, const std::string& field) {
  ModelConfig config = small();
  edit(config);
  CAPTURE(field);
  CHECK_THROWS_AS(config.validate("'somewhere'"), FormatError);
  CHECK_THROWS_WITH(config.validate("'somewhere'"), ContainsSubstring("'somewhere': field '" + field + "'"));
}

}  // namespace

TEST_CASE("derived sizes of a configuration", "[config]") {
  ModelConfig config = small();
  CHECK_NOTHROW(config.validate());
  CHECK(config.query_size() == 896);
  CHECK(config.key_value_size() == 128);
  CHECK(config.heads_per_key_value() == 7);
  CHECK(config.parameter_count() == 494'032'768);  // as published for Qwen2.5-0.5B
  CHECK_FALSE(config.window_of_layer(0));

  ModelConfig llama;  // LLaMA 2 7B
  llama.model_type = "llama";
  llama.vocab_size = 32000;
  llama.hidden_size = 4096;
  llama.intermediate_size = 11008;
  llama.num_hidden_layers = 32;
  llama.num_attention_heads = llama.num_key_value_heads = 32;
  llama.head_dim = 128;
  llama.max_position_embeddings = 4096;
  llama.rms_norm_eps = 1e-5;
  llama.rope_theta = 1e4;
  CHECK_NOTHROW(llama.validate());
  CHECK(llama.parameter_count() == 6'738'415'616);
}

TEST_CASE("window_of_layer follows the marks", "[config]") {
  ModelConfig config = small();
  config.num_hidden_layers = 3;
  config.sliding_window = 16;
  config.sliding_layers = {false, true, false};
  CHECK_NOTHROW(config.validate());
  CHECK_FALSE(config.window_of_layer(0));
  CHECK(config.window_of_layer(1) == 16);
  CHECK_FALSE(config.window_of_layer(2));
  CHECK_FALSE(config.window_of_layer(3));
}

TEST_CASE("validate names the field that is wrong", "[config]") {
  constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  check_refused([](ModelConfig& c) { c.model_type = "gpt2"; }, "model_type");
  for (const std::int64_t bad : {std::int64_t{0}, std::int64_t{-1}, huge}) {
    check_refused([&](ModelConfig& c) { c.vocab_size = bad; }, "vocab_size");
    check_refused([&](ModelConfig& c) { c.hidden_size = bad; }, "hidden_size");
    check_refused([&](ModelConfig& c) { c.intermediate_size = bad; }, "intermediate_size");
    check_refused([&](ModelConfig& c) { c.num_hidden_layers = bad; }, "num_hidden_layers");
    check_refused([&](ModelConfig& c) { c.num_attention_heads = bad; }, "num_attention_heads");
    check_refused([&](ModelConfig& c) { c.num_key_value_heads = bad; }, "num_key_value_heads");
    check_refused([&](ModelConfig& c) { c.head_dim = bad; }, "head_dim");
    check_refused([&](ModelConfig& c) { c.max_position_embeddings = bad; }, "max_position_embeddings");
    check_refused([&](ModelConfig& c) { c.sliding_window = bad; }, "sliding_window");
  }
  check_refused([](ModelConfig& c) { c.num_key_value_heads = 3; }, "num_key_value_heads");
  check_refused([](ModelConfig& c) { c.num_key_value_heads = 28; }, "num_key_value_heads");
  check_refused([](ModelConfig& c) { c.head_dim = 63; }, "head_dim");
  check_refused([](ModelConfig& c) { c.head_dim = 1 << 24; }, "num_attention_heads * head_dim");
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const double bad : {0.0, -1.0, nan, std::numeric_limits<double>::infinity()}) {
    check_refused([&](ModelConfig& c) { c.rms_norm_eps = bad; }, "rms_norm_eps");
    check_refused([&](ModelConfig& c) { c.rope_theta = bad; }, "rope_theta");
  }
  check_refused([](ModelConfig& c) { c.sliding_layers = {true}; }, "layer_types");
  check_refused([](ModelConfig& c) { c.sliding_layers.assign(24, true); }, "sliding_window");
  check_refused([](ModelConfig& c) { c.bos_token_id = 151936; }, "bos_token_id");
  check_refused([](ModelConfig& c) { c.bos_token_id = -1; }, "bos_token_id");
  check_refused([](ModelConfig& c) { c.eos_token_ids = {0, 151936}; }, "eos_token_id");
}
