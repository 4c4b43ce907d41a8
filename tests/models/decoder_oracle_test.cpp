// Configurations that no reference file has, against a decoder written a second time.
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <models/decoder_support.hpp>
#include <models/oracle.hpp>
#include <support/contexts.hpp>
#include <tenon/io/model_config.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>

namespace {

using tenon::Context;
using tenon::Cpu;
using tenon::Llama;
using tenon::ModelConfig;
using tenon::Qwen2;

double distance(const tenon::Tensor<float, 2>& logits, const support::Rows& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    for (std::size_t j = 0; j < expected[i].size(); ++j) {
      const double error = std::abs(
          static_cast<double>(logits(static_cast<std::int64_t>(i), static_cast<std::int64_t>(j))) - expected[i][j]);
      largest = std::isnan(error) ? HUGE_VAL : std::max(largest, error);
    }
  }
  return largest;
}

template <class Model>
void check(const ModelConfig& config, std::int64_t tokens = 40) {
  Context<Cpu> setup(1);
  const auto weights = support::random_weights(setup, config);
  const auto ids = support::random_ids(tokens, config.vocab_size);
  const auto expected = support::OracleDecoder(config, weights).logits(ids);
  const Model model(setup, config, weights);
  support::for_each_level([&](Context<Cpu>& ctx) {
    CAPTURE(support::describe(ctx));
    for (const std::vector<std::size_t>& pieces : {std::vector<std::size_t>{1000}, {1}, {3, 1, 11}}) {
      CAPTURE(pieces.front());
      CHECK(distance(support::read(ctx, model, ids, pieces), expected) <= 2e-4);
    }
  });
}

}  // namespace

TEST_CASE("decoder: odd sizes equal the oracle", "[decoder]") { check<Qwen2<float>>(support::small_config()); }

TEST_CASE("C11, C12: tied and untied output projections", "[decoder]") {
  ModelConfig tied = support::small_config();
  tied.tie_word_embeddings = true;
  check<Qwen2<float>>(tied);
  // Untied, the projection is lm_head and not the embedding: the two give different logits.
  Context<Cpu> ctx(1);
  const ModelConfig untied = support::small_config();
  const auto weights = support::random_weights(ctx, untied);
  const auto ids = support::random_ids(5, untied.vocab_size);
  const auto logits = support::read(ctx, Qwen2<float>(ctx, untied, weights), ids);
  CHECK(distance(logits, support::OracleDecoder(untied, weights).logits(ids)) <= 2e-4);
  CHECK(distance(logits, support::OracleDecoder(tied, weights).logits(ids)) > 0.1);
  // A tied model may come with a copy of the embedding as lm_head; it is the embedding that counts.
  auto copied = support::random_weights(ctx, tied);
  copied.emplace("lm_head.weight", copied.at("model.embed_tokens.weight"));
  CHECK(support::same_bits(support::read(ctx, Qwen2<float>(ctx, tied, copied), ids),
                           support::read(ctx, Qwen2<float>(ctx, tied, support::random_weights(ctx, tied)), ids)));
}

TEST_CASE("C4: a window of W holds the query and the W - 1 positions before it", "[decoder]") {
  for (const std::int64_t window : {1, 2, 4, 6, 17, 40, 1000}) {
    CAPTURE(window);
    ModelConfig config = support::small_config();
    config.sliding_window = window;
    config.sliding_layers = {false, true, true};
    check<Qwen2<float>>(config);
  }
  // One more or less would show.
  ModelConfig config = support::small_config();
  config.sliding_window = 4;
  config.sliding_layers = {true, true, true};
  Context<Cpu> ctx(1);
  const auto weights = support::random_weights(ctx, config);
  const auto ids = support::random_ids(6, config.vocab_size);
  const auto logits = support::read(ctx, Qwen2<float>(ctx, config, weights), ids);
  for (const std::int64_t wrong : {3, 5}) {
    config.sliding_window = wrong;
    CHECK(distance(logits, support::OracleDecoder(config, weights).logits(ids)) > 1e-3);
  }
}

TEST_CASE("C1, C3: a window that is switched off changes nothing, before and behind it", "[decoder]") {
  const std::string head =
      R"({"model_type": "qwen2", "vocab_size": 71, "hidden_size": 60, "intermediate_size": 93, "num_hidden_layers": 3,
          "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6,
          "rope_theta": 10000.0, "max_window_layers": 0, "tie_word_embeddings": false, )";
  const ModelConfig off = tenon::parse_model_config(head + R"("sliding_window": 16, "use_sliding_window": false})");
  const ModelConfig none = tenon::parse_model_config(head + R"("sliding_window": null, "use_sliding_window": false})");
  const ModelConfig on = tenon::parse_model_config(head + R"("sliding_window": 16, "use_sliding_window": true})");
  CHECK_FALSE(off.sliding_window);
  CHECK(on.sliding_window == 16);
  Context<Cpu> ctx(1);
  const auto weights = support::random_weights(ctx, off);
  const auto ids = support::random_ids(40, off.vocab_size);
  const auto logits = support::read(ctx, Qwen2<float>(ctx, off, weights), ids);
  CHECK(support::same_bits(logits, support::read(ctx, Qwen2<float>(ctx, none, weights), ids)));
  CHECK_FALSE(support::same_bits(logits, support::read(ctx, Qwen2<float>(ctx, on, weights), ids)));
  CHECK(distance(logits, support::OracleDecoder(none, weights).logits(ids)) <= 2e-4);

  // The case's own file: 4096 is in it, and counts for nothing.
  const ModelConfig distilled = tenon::read_model_config(std::filesystem::path(TENON_TEST_DATA) / "configs" /
                                                         "DeepSeek-R1-Distill-Qwen-1.5B" / "config.json");
  CHECK_FALSE(distilled.sliding_window);
  CHECK(distilled.sliding_layers.empty());
}

TEST_CASE("C7: the rotary base is the configuration's", "[decoder]") {
  ModelConfig config = support::small_config();
  config.rope_theta = 1e6;
  check<Qwen2<float>>(config);
  config.rope_theta = 1e4;
  check<Qwen2<float>>(config);
  // And far apart in the result, so that the check above can fail.
  Context<Cpu> ctx(1);
  const auto weights = support::random_weights(ctx, config);
  const auto ids = support::random_ids(40, config.vocab_size);
  const auto logits = support::read(ctx, Qwen2<float>(ctx, config, weights), ids);
  config.rope_theta = 1e6;
  CHECK(distance(logits, support::OracleDecoder(config, weights).logits(ids)) > 1e-2);
}

TEST_CASE("C17: query heads share key heads in order, for every grouping", "[decoder]") {
  for (const std::int64_t kv_heads : {1, 2, 3, 6}) {
    CAPTURE(kv_heads);
    ModelConfig config = support::small_config();
    config.num_key_value_heads = kv_heads;
    check<Qwen2<float>>(config, 20);
  }
}

TEST_CASE("decoder: llama with and without biases, and heads that do not add up to the width", "[decoder]") {
  ModelConfig config = support::small_config();
  config.model_type = "llama";
  config.attention_bias = false;
  check<Llama<float>>(config, 20);
  config.attention_bias = true;
  config.attention_output_bias = true;
  config.mlp_bias = true;
  check<Llama<float>>(config, 20);
  config.head_dim = 16;
  check<Llama<float>>(config, 20);
}
