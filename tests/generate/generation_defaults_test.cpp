#include <tenon/generate/generation_defaults.hpp>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <tenon/generate/sequence.hpp>
#include <tenon/io/load.hpp>
#include <tenon/io/model_config.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/runtime/context.hpp>
#include <utility>
#include <vector>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::load_generation_defaults;
using tenon_test::TemporaryFolder;

constexpr std::int64_t end_of_text = 1500;
constexpr std::int64_t im_start = 1501;
constexpr std::int64_t im_end = 1502;

const tenon::Tokenizer& tokenizer() {
  static const tenon::Tokenizer shipped = tenon::Tokenizer::from_folder(TENON_TEST_MODEL);
  return shipped;
}

/// The shipped model's configuration with another `eos_token_id`.
tenon::ModelConfig config_ending_on(std::vector<std::int64_t> eos) {
  tenon::ModelConfig config = tenon::read_model_config(std::filesystem::path(TENON_TEST_MODEL) / "config.json");
  config.eos_token_ids = std::move(eos);
  return config;
}

std::vector<std::int64_t> stops(const TemporaryFolder& folder, std::vector<std::int64_t> eos_of_config) {
  const auto defaults =
      load_generation_defaults(folder.path(), config_ending_on(std::move(eos_of_config)), tokenizer());
  return {defaults.stop_ids.ids().begin(), defaults.stop_ids.ids().end()};
}

TEST_CASE("T13: the stop set is what any of the three files names", "[generation_defaults]") {
  const TemporaryFolder folder;
  using Ids = std::vector<std::int64_t>;
  CHECK(stops(folder, {}).empty());
  CHECK(stops(folder, {end_of_text}) == Ids{end_of_text});

  // A base model's config.json with the tokenizer of its instruct sibling.
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  CHECK(stops(folder, {end_of_text}) == Ids{end_of_text, im_end});
  CHECK(stops(folder, {}) == Ids{im_end});
  folder.write("tokenizer_config.json", R"({"eos_token": {"content": "<|im_end|>", "lstrip": false}})");
  CHECK(stops(folder, {end_of_text}) == Ids{end_of_text, im_end});

  // The other way round; and a number or a list in generation_config.json.
  folder.write("tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
  folder.write("generation_config.json", R"({"eos_token_id": 1502})");
  CHECK(stops(folder, {end_of_text}) == Ids{end_of_text, im_end});
  folder.write("generation_config.json", R"({"eos_token_id": [1502, 1501]})");
  CHECK(stops(folder, {}) == Ids{end_of_text, im_start, im_end});

  folder.write("tokenizer_config.json", R"({"eos_token": "</s>"})");  // of another tokenizer
  CHECK(stops(folder, {}) == Ids{im_start, im_end});
}

TEST_CASE("T13: with the defaults of a base and instruct mix an answer ends where transformers ends it",
          "[generation_defaults]") {
  std::ifstream file(TENON_TEST_DATA "/golden/tiny-qwen2/chat_greedy_f32.json");
  const auto chat = nlohmann::json::parse(file).at(0);
  const TemporaryFolder folder;
  folder.write("generation_config.json", R"({"eos_token_id": 1500})");
  folder.write("tokenizer_config.json", R"({"eos_token": "<|im_end|>"})");
  const auto options =
      load_generation_defaults(folder.path(), config_ending_on({end_of_text}), tokenizer()).text_options();

  tenon::Context<tenon::Cpu> ctx(1);
  const auto model = tenon::load_model<tenon::Qwen2<float, tenon::Cpu>>(ctx, TENON_TEST_MODEL);
  tenon::Sequence sequence(ctx, model);
  const std::vector<std::int64_t> prompt = chat["input_ids"];
  const auto result = tenon::generate_text(sequence, tokenizer(), prompt, options);
  CHECK(result.text == chat["output"]);
  CHECK(result.finish_reason == tenon::FinishReason::stop);
}

TEST_CASE("C15: ids beyond the tokenizer are out of reach by default", "[generation_defaults]") {
  const TemporaryFolder folder;
  const tenon::ModelConfig config = config_ending_on({end_of_text});
  REQUIRE(config.vocab_size == 1536);
  const auto tokenizer_file = nlohmann::json::parse(std::ifstream(TENON_TEST_MODEL "/tokenizer.json"));
  std::int64_t largest = 0;
  for (const auto& token : tokenizer_file["added_tokens"]) {
    largest = std::max(largest, token["id"].get<std::int64_t>());
  }
  REQUIRE(largest + 1 < config.vocab_size);
  CHECK(load_generation_defaults(folder.path(), config, tokenizer()).sampling.vocab_limit == largest + 1);
}

TEST_CASE("Without generation_config.json everything is off, and sampling is greedy", "[generation_defaults]") {
  const TemporaryFolder folder;
  const auto defaults = load_generation_defaults(folder.path(), config_ending_on({}), tokenizer());
  CHECK(defaults.sampling.greedy);
  CHECK(defaults.sampling.temperature == 1.0);
  CHECK(defaults.sampling.top_k == 0);
  CHECK(defaults.sampling.top_p == 1.0);
  CHECK(defaults.sampling.min_p == 0.0);
  CHECK(defaults.sampling.repetition_penalty == 1.0);
  CHECK_FALSE(defaults.max_new_tokens);
  CHECK(defaults.text_options().max_new_tokens == 0);
}

TEST_CASE("generation_config.json gives the sampling and the length", "[generation_defaults]") {
  const TemporaryFolder folder;
  const std::string fields =
      R"("temperature": 0.5, "top_k": 7, "top_p": 0.75, "min_p": 0.25, "repetition_penalty": 1.5, "max_new_tokens": 9)";
  const auto read = [&] { return load_generation_defaults(folder.path(), config_ending_on({im_end}), tokenizer()); };
  folder.write("generation_config.json", R"({"do_sample": true, )" + fields + "}");
  const tenon::TextOptions options = read().text_options();
  CHECK_FALSE(options.sampling.is_greedy());
  CHECK(options.sampling.temperature == 0.5);
  CHECK(options.sampling.top_k == 7);
  CHECK(options.sampling.top_p == 0.75);
  CHECK(options.sampling.min_p == 0.25);
  CHECK(options.sampling.repetition_penalty == 1.5);
  CHECK(options.max_new_tokens == 9);
  CHECK(options.stop_ids.contains(im_end));
  CHECK(options.sampling.vocab_limit == tokenizer().vocab_size());

  folder.write("generation_config.json", R"({"do_sample": false, )" + fields + "}");
  CHECK(read().sampling.is_greedy());
  folder.write("generation_config.json", "{" + fields + "}");
  CHECK(read().sampling.is_greedy());
  CHECK(read().sampling.top_k == 7);  // for whoever turns greedy off
}

TEST_CASE("S14: a stop id outside the vocabulary is an error that names its file", "[generation_defaults]") {
  const TemporaryFolder folder;
  const auto read = [&](std::vector<std::int64_t> eos) {
    return load_generation_defaults(folder.path(), config_ending_on(std::move(eos)), tokenizer());
  };
  CHECK_THROWS_WITH(read({1536}), ContainsSubstring("/config.json'") && ContainsSubstring("eos_token_id") &&
                                      ContainsSubstring("1536"));
  CHECK_THROWS_AS(read({-1}), tenon::FormatError);
  folder.write("generation_config.json", R"({"eos_token_id": [1502, 1536]})");
  CHECK_THROWS_AS(read({}), tenon::FormatError);
  CHECK_THROWS_WITH(read({}), ContainsSubstring("generation_config.json'") && ContainsSubstring("eos_token_id") &&
                                  ContainsSubstring("1536"));
  folder.write("generation_config.json", R"({"eos_token_id": 1535})");
  CHECK(read({}).stop_ids.contains(1535));
}

TEST_CASE("A tokenizer with more tokens than the model has is refused", "[generation_defaults]") {
  const TemporaryFolder folder;
  tenon::ModelConfig config = config_ending_on({});
  config.vocab_size = tokenizer().vocab_size();
  CHECK(load_generation_defaults(folder.path(), config, tokenizer()).stop_ids.empty());
  config.vocab_size -= 1;
  CHECK_THROWS_AS(load_generation_defaults(folder.path(), config, tokenizer()), tenon::FormatError);
  CHECK_THROWS_WITH(load_generation_defaults(folder.path(), config, tokenizer()),
                    ContainsSubstring("tokenizer.json'") && ContainsSubstring(std::to_string(config.vocab_size)));
}

}  // namespace
