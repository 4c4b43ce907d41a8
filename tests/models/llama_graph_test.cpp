// LLaMA 2 as a graph against llama2.c, transformers, and the decoder class.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/generate/llama2c_sampler.hpp>
#include <tenon/graph/plan.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/io/llama2c_graph.hpp>
#include <tenon/io/load.hpp>
#include <tenon/io/load_llama_graph.hpp>
#include <tenon/io/safetensors.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/llama_graph.hpp>
#include <tenon/text/llama2c_tokenizer.hpp>

#include <support/contexts.hpp>
#include <support/temporary_folder.hpp>

namespace {

using tenon::Context;
using tenon::Cpu;
using tenon::DType;
using tenon::Llama2cTokenizer;
using Decoder = tenon::LlamaGraphDecoder<Cpu>;

const std::filesystem::path data = std::filesystem::path(TENON_TEST_DATA) / "llama2c";
const std::filesystem::path golden = data / "golden";

Decoder from_folder(Context<Cpu>& ctx, const std::filesystem::path& folder, std::int64_t capacity,
                    DType dtype = DType::float32, const tenon::graph::PassOptions& passes = {}) {
  tenon::graph::CompileOptions<Cpu> options;
  options.passes = passes;
  return tenon::load_llama_graph(ctx, folder, capacity, dtype, options);
}

Decoder load(Context<Cpu>& ctx, const std::string& name, std::int64_t capacity) {
  if (!name.ends_with(".bin")) return from_folder(ctx, data / name, capacity);
  return tenon::load_llama2c_graph(ctx, tenon::Llama2cCheckpoint(data / name), capacity);
}

std::string greedy_text(Context<Cpu>& ctx, Decoder& decoder, std::string_view prompt) {
  const Llama2cTokenizer tokenizer(data / "tok512.bin", decoder.config().vocab_size);
  tenon::Llama2cSampler sampler({.temperature = 0.0f});
  std::vector<std::int64_t> ids = tokenizer.encode(prompt);
  const std::size_t prompt_size = ids.size();
  for (std::size_t position = 0; decoder.length() < decoder.capacity(); ++position) {
    const auto logits = decoder.forward(ctx, ids[position]);
    if (position + 1 < prompt_size) continue;
    const std::int64_t next = sampler.sample(logits);
    if (next == Llama2cTokenizer::bos_id) break;
    ids.push_back(next);
  }
  return tokenizer.decode(ids) + "\n";
}

}  // namespace

TEST_CASE("llama graph: greedy text is what llama2.c prints, from every kind of file", "[llama_graph]") {
  struct Case {
    std::string_view file;
    std::string_view prompt;
    std::int64_t steps;
  };
  const auto [file, prompt, steps] = GENERATE(Case{"empty_n200", "", 200}, Case{"once_n256", "Once upon a time", 256},
                                              Case{"once_n512", "Once upon a time", 512});
  const std::string name = GENERATE(as<std::string>{}, "stories260K.bin", "stories260K.v1.bin", "stories260K-hf-f32");
  CAPTURE(file, name);
  Context<Cpu> ctx(1);
  Decoder decoder = load(ctx, name, steps);
  const std::string expected = tenon_test::slurp(golden / ("run_greedy_" + std::string(file) + ".txt"));
  CHECK(greedy_text(ctx, decoder, prompt) == expected);
  decoder.reset(ctx);
  CHECK(greedy_text(ctx, decoder, prompt) == expected);  // nothing is left of the first time
}

TEST_CASE("llama graph: a version 2 file of int8 gives the text of llama2.c's runq", "[llama_graph]") {
  Context<Cpu> ctx(1);
  Decoder decoder = load(ctx, "stories260K.v2.gs4.bin", 200);
  CHECK(greedy_text(ctx, decoder, "") == tenon_test::slurp(golden / "runq_v2gs4_greedy_empty_n200.txt"));
}

TEST_CASE("llama graph: logits are llama2.c's within 1e-3, with every pass on and off", "[llama_graph]") {
  const std::string bytes = tenon_test::slurp(golden / "logits_greedy_empty_n200.f32");
  std::vector<float> expected(bytes.size() / sizeof(float));
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  tenon::graph::CompileOptions<Cpu> options;
  if (GENERATE(true, false)) options.passes = tenon::graph::PassOptions::none();
  const tenon::Llama2cCheckpoint checkpoint(data / "stories260K.bin");
  const auto vocabulary = static_cast<std::size_t>(checkpoint.config().vocab_size);
  REQUIRE(expected.size() == 200 * vocabulary);
  support::for_each_level([&](auto& ctx) {
    auto decoder = tenon::load_llama2c_graph<Cpu>(ctx, checkpoint, 200, options);
    std::int64_t id = 1;
    double largest = 0.0;
    for (std::size_t position = 0; position < 200; ++position) {
      const auto logits = decoder.forward(ctx, id);
      for (std::size_t i = 0; i < vocabulary; ++i) {
        largest = std::max(largest, std::abs(static_cast<double>(logits[i]) - expected[position * vocabulary + i]));
      }
      id = std::max_element(logits.begin(), logits.end()) - logits.begin();
    }
    CHECK(largest < 1e-3);
  });
}

TEST_CASE("llama graph: equals transformers and the decoder class on a Hugging Face folder", "[llama_graph]") {
  const auto folder = std::filesystem::path(TENON_TEST_DATA) / "golden" / "llama-f32";
  const tenon::SafetensorsFile reference(folder / "reference.safetensors");
  const auto ids = reference.tensor("input_ids").as<const std::int64_t, 1>();
  const auto expected = reference.tensor("logits_f32").as<const float, 2>();
  const std::int64_t first = ids.size(0) - expected.size(0);
  Context<Cpu> ctx(1);
  Decoder decoder = from_folder(ctx, folder, ids.size(0));
  const auto model = tenon::load_model<tenon::Llama<float>>(ctx, folder);
  auto cache = model.make_cache(ctx, ids.size(0));
  double from_transformers = 0.0;
  double from_decoder = 0.0;
  for (std::int64_t i = 0; i < ids.size(0); ++i) {
    const std::int64_t id = ids(i);
    const auto logits = decoder.forward(ctx, id);
    const auto eager = model.forward(ctx, cache, std::span<const std::int64_t>(&id, 1));
    for (std::size_t k = 0; k < logits.size(); ++k) {
      const auto value = static_cast<double>(logits[k]);
      const auto column = static_cast<std::int64_t>(k);
      if (i >= first) {
        from_transformers =
            std::max(from_transformers, std::abs(value - static_cast<double>(expected(i - first, column))));
      }
      from_decoder = std::max(from_decoder, std::abs(value - static_cast<double>(eager(column))));
    }
  }
  CHECK(from_transformers < 2e-4);
  CHECK(from_decoder < 2e-4);
}

TEST_CASE("llama graph: in 16 bits it stays near float32", "[llama_graph]") {
  const auto [dtype, bound] = GENERATE(std::pair{DType::float16, 0.05}, std::pair{DType::bfloat16, 0.4});
  Context<Cpu> ctx(1);
  Decoder wide = from_folder(ctx, data / "stories260K-hf-f32", 24);
  Decoder narrow = from_folder(ctx, data / "stories260K-hf-f32", 24, dtype);
  double largest = 0.0;
  for (std::int64_t i = 0; i < 24; ++i) {
    const std::int64_t id = (i * 37 + 1) % 512;
    const auto a = wide.forward(ctx, id);
    const auto b = narrow.forward(ctx, id);
    for (std::size_t k = 0; k < a.size(); ++k) {
      largest = std::max(largest, std::abs(static_cast<double>(a[k]) - static_cast<double>(b[k])));
    }
  }
  CHECK(largest > 0.0);
  CHECK(largest < bound);
}

TEST_CASE("llama graph: the memory plan is at most 1.1 times the lower bound", "[llama_graph]") {
  tenon::ModelConfig config = tenon::Llama2cCheckpoint(data / "stories260K.bin").config();
  if (GENERATE(false, true)) {  // the shape of LLaMA 2 7b
    config.hidden_size = 4096;
    config.intermediate_size = 11008;
    config.num_hidden_layers = config.num_attention_heads = config.num_key_value_heads = 32;
    config.head_dim = 128;
    config.vocab_size = 32000;
  }
  const auto graph = tenon::llama_graph(config, 256, tenon::RotaryPairs::neighbours);
  for (const auto& passes : {tenon::graph::PassOptions{}, tenon::graph::PassOptions::none()}) {
    const auto lowered = tenon::graph::run_passes(graph, passes);
    std::vector<bool> external(lowered.size(), false);
    for (tenon::graph::NodeId id = 0; id < lowered.size(); ++id) {
      external[id] = lowered[id].kind == tenon::graph::NodeKind::constant_tensor;
    }
    const auto with_weights = tenon::graph::plan_memory(lowered);
    const auto without = tenon::graph::plan_memory(lowered, external);
    for (const auto& plan : {with_weights, without}) {
      CHECK(static_cast<double>(plan.bytes) <= 1.1 * static_cast<double>(plan.lower_bound));
      CHECK(plan.bytes >= plan.lower_bound);
    }
    // What is reused, alone: buffers would hide it.
    const double scratch = static_cast<double>(without.bytes - without.persistent_bytes);
    CHECK(scratch <= 1.1 * static_cast<double>(without.lower_bound - without.persistent_bytes));
  }
}

TEST_CASE("llama graph: what does not fit is named", "[llama_graph]") {
  Context<Cpu> ctx(1);
  Decoder decoder = load(ctx, "stories260K.bin", 2);
  CHECK_THROWS_AS(decoder.forward(ctx, 512), tenon::IndexError);
  CHECK_THROWS_AS(decoder.forward(ctx, -1), tenon::IndexError);
  CHECK(decoder.length() == 0);
  decoder.forward(ctx, 1);
  decoder.forward(ctx, 2);
  CHECK_THROWS_AS(decoder.forward(ctx, 3), tenon::ValueError);
  CHECK(decoder.length() == 2);
  tenon::ModelConfig config = decoder.config();
  CHECK_THROWS_AS(tenon::llama_graph(config, 0, tenon::RotaryPairs::halves), tenon::ValueError);
  CHECK_THROWS_AS(tenon::llama_graph(config, 513, tenon::RotaryPairs::halves), tenon::ValueError);
  config.rms_norm_eps = 1e-6;
  CHECK_THROWS_AS(tenon::llama_graph(config, 5, tenon::RotaryPairs::halves), tenon::ValueError);
  config = decoder.config();
  config.attention_bias = true;
  CHECK_THROWS_AS(tenon::llama_graph(config, 5, tenon::RotaryPairs::halves), tenon::ValueError);
  CHECK_THROWS_AS(tenon::llama_graph_constants(decoder.config(), {}), tenon::FormatError);
}

TEST_CASE("C14: llama graph: weights that do not fit, or are left over, are refused as by Llama", "[llama_graph]") {
  Context<Cpu> ctx(1);
  const std::filesystem::path folder = data / "stories260K-hf-f32";
  const tenon::ModelConfig config = tenon::read_model_config(folder / "config.json");
  const tenon::WeightMap sound = tenon::read_weights(tenon::open_checkpoint(folder));
  const auto refusals = [&](const tenon::ModelConfig& changed, const tenon::WeightMap& weights) {
    std::vector<std::string> result;
    const auto attempt = [&](auto&& open) {
      try {
        open();
        result.emplace_back("none");
      } catch (const tenon::Error& error) {
        result.emplace_back(error.what());
      }
    };
    attempt([&] { tenon::Llama<float>(ctx, changed, weights); });
    attempt([&] {
      Decoder(ctx, changed, 8, tenon::RotaryPairs::halves, sound.at("model.embed_tokens.weight"),
              tenon::llama_graph_constants(changed, weights));
    });
    return result;
  };
  const auto check = [&](const tenon::ModelConfig& changed, const tenon::WeightMap& weights, const char* words) {
    const std::vector<std::string> found = refusals(changed, weights);
    CHECK_THAT(found[0], Catch::Matchers::ContainsSubstring(words));
    CHECK(found[1] == found[0]);
  };
  CHECK(refusals(config, sound) == std::vector<std::string>{"none", "none"});

  tenon::ModelConfig shallow = config;
  shallow.num_hidden_layers = 4;
  check(shallow, sound, "9 tensors belong to no parameter of the model");
  const std::string query = "model.layers.0.self_attn.q_proj.";
  tenon::WeightMap changed = sound;
  changed.emplace(query + "bias", sound.at("model.norm.weight"));
  check(config, changed, "1 tensors belong to no parameter of the model");
  changed = sound;
  changed.insert_or_assign(query + "weight", tenon::AnyTensor::empty(ctx, DType::int64, {64, 64}));
  check(config, changed, "has dtype int64");
  changed = sound;
  changed.insert_or_assign(query + "weight", tenon::AnyTensor::empty(ctx, DType::float32, {64, 32}));
  check(config, changed, "has shape (64, 32)");
  changed = sound;
  const char* output = config.tie_word_embeddings ? "model.embed_tokens.weight" : "lm_head.weight";
  changed.insert_or_assign(output, tenon::AnyTensor(tenon::zeros<float>(ctx, {512, 64})));
  check(config, changed, "the output projection holds zeros only");
}
