#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include <tenon/io/model_config.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using nlohmann::json;
using tenon::DType;
using tenon::FileError;
using tenon::FormatError;
using tenon::ModelConfig;
using tenon::parse_model_config;
using tenon::read_model_config;
using tenon_test::slurp;

const std::filesystem::path data = TENON_TEST_DATA;

json distill() { return json::parse(slurp(data / "configs/DeepSeek-R1-Distill-Qwen-1.5B/config.json")); }
json llama() { return json::parse(slurp(data / "golden/llama-f32/config.json")); }

ModelConfig parse(const json& document) { return parse_model_config(document.dump(), "dir/config.json"); }

/// The distilled 1.5B configuration with some fields replaced (null stays null; use `without` to remove).
json with(json changes, json document = distill()) {
  for (const auto& [key, value] : changes.items()) document[key] = value;
  return document;
}
json without(const std::string& key, json document = distill()) {
  document.erase(key);
  return document;
}

void check_refused(const json& document, const std::string& field, const std::string& reason = "") {
  CAPTURE(field, reason);
  CHECK_THROWS_AS(parse(document), FormatError);
  CHECK_THROWS_WITH(parse(document),
                    ContainsSubstring("'dir/config.json': field '" + field + "'") && ContainsSubstring(reason));
}

}  // namespace

TEST_CASE("C7: all published configurations parse, each with its own theta", "[model_config]") {
  struct Row {
    std::int64_t parameters;  // as published with the weights
    double theta;
    bool tied;
  };
  constexpr double million = 1'000'000.0;
  constexpr double ten_thousand = 10'000.0;
  const std::map<std::string, Row> expected{
      {"DeepSeek-R1-Distill-Qwen-1.5B", {1'777'088'000, ten_thousand, false}},
      {"DeepSeek-R1-Distill-Qwen-7B", {7'615'616'512, ten_thousand, false}},
      {"DeepSeek-R1-Distill-Qwen-14B", {14'770'033'664, million, false}},
      {"DeepSeek-R1-Distill-Qwen-32B", {32'763'876'352, million, false}},
      {"QwQ-32B", {32'763'876'352, million, false}},
      {"QwQ-32B-Preview", {32'763'876'352, million, false}},
      {"Qwen2-0.5B", {494'032'768, million, true}},
      {"Qwen2-0.5B-Instruct", {494'032'768, million, true}},
      {"Qwen2-1.5B", {1'543'714'304, million, true}},
      {"Qwen2-1.5B-Instruct", {1'543'714'304, million, true}},
      {"Qwen2-7B", {7'615'616'512, million, false}},
      {"Qwen2-7B-Instruct", {7'615'616'512, million, false}},
      {"Qwen2-72B-Instruct", {72'706'203'648, million, false}},
      {"Qwen2.5-0.5B", {494'032'768, million, true}},
      {"Qwen2.5-0.5B-Instruct", {494'032'768, million, true}},
      {"Qwen2.5-1.5B", {1'543'714'304, million, true}},
      {"Qwen2.5-1.5B-Instruct", {1'543'714'304, million, true}},
      {"Qwen2.5-3B", {3'085'938'688, million, true}},
      {"Qwen2.5-3B-Instruct", {3'085'938'688, million, true}},
      {"Qwen2.5-7B", {7'615'616'512, million, false}},
      {"Qwen2.5-7B-Instruct", {7'615'616'512, million, false}},
      {"Qwen2.5-14B", {14'770'033'664, million, false}},
      {"Qwen2.5-14B-Instruct", {14'770'033'664, million, false}},
      {"Qwen2.5-32B", {32'763'876'352, million, false}},
      {"Qwen2.5-32B-Instruct", {32'763'876'352, million, false}},
      {"Qwen2.5-72B", {72'706'203'648, million, false}},
      {"Qwen2.5-72B-Instruct", {72'706'203'648, million, false}},
      {"Qwen2.5-Math-1.5B", {1'543'714'304, ten_thousand, true}},
      {"Qwen2.5-Math-7B", {7'615'616'512, ten_thousand, false}},
  };
  REQUIRE(expected.size() == 29);
  for (const auto& [name, row] : expected) {
    CAPTURE(name);
    const auto path = data / "configs" / name / "config.json";
    const ModelConfig config = read_model_config(path);
    const json raw = json::parse(slurp(path));
    CHECK(config.model_type == "qwen2");
    CHECK(config.parameter_count() == row.parameters);
    CHECK(config.rope_theta == row.theta);
    CHECK(config.tie_word_embeddings == row.tied);
    CHECK(config.attention_bias);
    CHECK_FALSE(config.attention_output_bias);
    CHECK_FALSE(config.mlp_bias);
    CHECK_FALSE(config.sliding_window);
    CHECK(config.sliding_layers.empty());
    CHECK(config.dtype == DType::bfloat16);
    CHECK(config.head_dim * config.num_attention_heads == config.hidden_size);
    CHECK(config.max_position_embeddings == raw.at("max_position_embeddings").get<std::int64_t>());
    CHECK(config.rms_norm_eps == raw.at("rms_norm_eps").get<double>());
    CHECK(config.bos_token_id == raw.at("bos_token_id").get<std::int64_t>());
    CHECK(config.eos_token_ids == std::vector<std::int64_t>{raw.at("eos_token_id").get<std::int64_t>()});
  }
}

TEST_CASE("configurations as found elsewhere parse", "[model_config]") {
  const auto as_found = data / "configs/as-found";
  CHECK(read_model_config(as_found / "DeepSeek-R1-Distill-Qwen-1.5B.modified-f16/config.json").dtype == DType::float16);
  const ModelConfig saved =
      read_model_config(as_found / "Qwen2.5-0.5B-Instruct.saved-by-transformers-4.49/config.json");
  CHECK(saved.dtype == DType::float32);
  ModelConfig published = read_model_config(data / "configs/Qwen2.5-0.5B-Instruct/config.json");
  published.dtype = DType::float32;
  CHECK(saved == published);
}

TEST_CASE("C1: sliding_window without use_sliding_window is ignored", "[model_config]") {
  const json original = distill();
  REQUIRE(original.at("sliding_window") == 4096);
  REQUIRE(original.at("use_sliding_window") == false);
  const ModelConfig expected = parse(with({{"sliding_window", nullptr}}));
  CHECK(parse(original) == expected);
  CHECK(parse(without("use_sliding_window")) == expected);
  CHECK(parse(without("sliding_window")) == expected);
  CHECK(parse(with({{"sliding_window", 4}, {"max_window_layers", 0}})) == expected);
  CHECK_FALSE(expected.window_of_layer(27));
  // A small checkpoint that sets the same trap: window 4 from layer 1 on, switched off.
  CHECK_FALSE(read_model_config(data / "golden/qwen2-untied-bf16/config.json").sliding_window);
}

TEST_CASE("C3: a window that is in use holds for the layers that it is meant for", "[model_config]") {
  const json on{{"use_sliding_window", true}};
  const ModelConfig from_21 = parse(with({{"max_window_layers", 21}}, with(on)));
  REQUIRE(from_21.sliding_window == 4096);
  CHECK_FALSE(from_21.window_of_layer(20));
  CHECK(from_21.window_of_layer(21) == 4096);
  CHECK(from_21.window_of_layer(27) == 4096);
  CHECK(parse(with({{"max_window_layers", 0}}, with(on))).window_of_layer(0) == 4096);
  const ModelConfig none = parse(with({{"max_window_layers", 28}}, with(on)));
  CHECK_FALSE(none.sliding_window);
  CHECK(none.sliding_layers.empty());
  CHECK_FALSE(parse(with({{"sliding_window", nullptr}}, with(on))).sliding_window);

  json types = json::array();
  for (int i = 0; i < 28; ++i) types.push_back(i % 2 == 0 ? "full_attention" : "sliding_attention");
  const ModelConfig alternating = parse(with({{"layer_types", types}, {"max_window_layers", 28}}, with(on)));
  CHECK_FALSE(alternating.window_of_layer(0));
  CHECK(alternating.window_of_layer(1) == 4096);

  check_refused(with({{"layer_types", types}}), "layer_types", "no sliding_window in use");
  check_refused(with({{"layer_types", json::array({"full_attention"})}}), "layer_types", "1 entries");
  types[3] = "linear_attention";
  check_refused(with({{"layer_types", types}}), "layer_types", "'linear_attention'");
  check_refused(with({{"sliding_window", 0}}, with({{"max_window_layers", 0}}, with(on))), "sliding_window");
  check_refused(with({{"max_window_layers", -1}}, with(on)), "max_window_layers");
  check_refused(without("max_window_layers", with(on)), "max_window_layers", "is missing");
  check_refused(without("sliding_window", with(on)), "sliding_window", "is missing");
  check_refused(with({{"use_sliding_window", "no"}}), "use_sliding_window", "true or false");
  check_refused(with({{"use_sliding_window", true}, {"sliding_window", 8}, {"max_window_layers", 0}}, llama()),
                "sliding_window", "'llama'");
}

TEST_CASE("C5: rope_theta is read from both places, and a missing one is an error", "[model_config]") {
  const json bare = without("rope_theta");
  check_refused(bare, "rope_theta", "is missing");
  check_refused(with({{"rope_theta", nullptr}}), "rope_theta", "is missing");
  check_refused(with({{"rope_parameters", {{"rope_type", "default"}}}}, bare), "rope_theta", "is missing");
  const json inner{{"rope_parameters", {{"rope_theta", 500000.0}, {"rope_type", "default"}}}};
  CHECK(parse(with(inner, bare)).rope_theta == 500000.0);
  CHECK(parse(with({{"rope_theta", 500000}}, with(inner, bare))).rope_theta == 500000.0);
  check_refused(with(inner), "rope_parameters.rope_theta", "elsewhere");
  check_refused(with({{"rope_theta", "10000"}}), "rope_theta", "must be a number");
  check_refused(with({{"rope_theta", -1}}), "rope_theta");
  check_refused(with({{"rope_parameters", {{"rope_theta", true}}}}, bare), "rope_parameters.rope_theta");
  CHECK(read_model_config(data / "golden/qwen2-tied-gqa7-f32/config.json").rope_theta == 1'000'000.0);
  CHECK(read_model_config(data / "golden/llama-f32/config.json").rope_theta == 10'000.0);
}

TEST_CASE("C9: scaled positions are an error, not ignored", "[model_config]") {
  for (const char* type : {"yarn", "linear", "dynamic", "llama3", "longrope", "su", "mrope", "proportional", ""}) {
    CAPTURE(type);
    check_refused(with({{"rope_scaling", {{"rope_type", type}, {"factor", 4.0}}}}), "rope_scaling.rope_type");
    check_refused(with({{"rope_scaling", {{"type", type}, {"factor", 4.0}}}}), "rope_scaling.type");
    check_refused(with({{"rope_parameters", {{"rope_type", type}, {"rope_theta", 10000}}}}),
                  "rope_parameters.rope_type");
  }
  check_refused(with({{"rope_scaling", {{"factor", 4.0}}}}), "rope_scaling.factor");
  check_refused(with({{"rope_scaling", {{"type", "default"}, {"mrope_section", {16, 24, 24}}}}}),
                "rope_scaling.mrope_section");
  check_refused(with({{"rope_scaling", {{"rope_type", 1}}}}), "rope_scaling.rope_type", "must be a string");
  check_refused(with({{"rope_scaling", "yarn"}}), "rope_scaling", "must be a JSON object");
  check_refused(with({{"rope_parameters", {{"full_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}}}}),
                "rope_parameters.full_attention");
  check_refused(with({{"rope_parameters", {{"rope_theta", 10000}, {"partial_rotary_factor", 0.5}}}}),
                "rope_parameters.partial_rotary_factor");
  check_refused(with({{"partial_rotary_factor", 0.25}}), "partial_rotary_factor");
  const ModelConfig plain = parse(distill());
  CHECK(parse(with({{"rope_scaling", nullptr}})) == plain);
  CHECK(parse(with({{"rope_scaling", {{"type", "default"}}}})) == plain);
  CHECK(parse(with({{"rope_parameters", {{"rope_type", nullptr}}}})) == plain);
}

TEST_CASE("dtype has two spellings", "[model_config]") {
  CHECK(parse(without("torch_dtype")).dtype == std::nullopt);
  CHECK(parse(with({{"dtype", "float32"}}, without("torch_dtype"))).dtype == DType::float32);
  CHECK(parse(with({{"torch_dtype", "torch.float16"}})).dtype == DType::float16);
  CHECK(parse(with({{"torch_dtype", "auto"}})).dtype == std::nullopt);
  CHECK(parse(with({{"dtype", "float16"}})).dtype == DType::float16);
  check_refused(with({{"torch_dtype", "float8_e4m3fn"}}), "torch_dtype", "'float8_e4m3fn'");
  check_refused(with({{"dtype", "int8"}}), "dtype", "'bfloat16'");
  check_refused(with({{"dtype", 16}}), "dtype", "must be a string");
}

TEST_CASE("unknown models, activations and quantisation are errors", "[model_config]") {
  check_refused(with({{"model_type", "mistral"}}), "model_type", "the known ones are 'qwen2', 'llama'");
  check_refused(without("model_type"), "model_type", "is missing");
  check_refused(with({{"architectures", {"Qwen2ForSequenceClassification"}}}), "architectures",
                "the known ones are 'Qwen2ForCausalLM', 'LlamaForCausalLM'");
  check_refused(with({{"architectures", {"LlamaForCausalLM"}}}), "architectures", "contradicts model_type 'qwen2'");
  check_refused(with({{"architectures", "Qwen2ForCausalLM"}}), "architectures", "a list of strings");
  CHECK(parse(without("architectures")) == parse(distill()));
  check_refused(with({{"hidden_act", "gelu"}}), "hidden_act", "only 'silu'");
  check_refused(with({{"hidden_act", nullptr}, {"use_mrope", true}}), "use_mrope");
  check_refused(with({{"quantization_config", {{"quant_method", "gptq"}}}}), "quantization_config", "not supported");
  CHECK(parse(with({{"quantization_config", nullptr}})) == parse(distill()));
}

TEST_CASE("sizes that are wrong are named", "[model_config]") {
  for (const char* field : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_key_value_heads", "max_position_embeddings"}) {
    CAPTURE(field);
    check_refused(without(field), field, "is missing");
    for (const json& bad : {json(0), json(-1), json(896.0), json("896"), json(true), json::array({1}), json::object(),
                            json(std::int64_t{1} << 40), json(18446744073709551615u)}) {
      CAPTURE(bad.dump());
      check_refused(with({{field, bad}}), field);
    }
  }
  check_refused(with({{"num_attention_heads", 11}}), "num_attention_heads", "does not divide hidden_size 1536");
  check_refused(with({{"num_key_value_heads", 5}}), "num_key_value_heads", "does not divide num_attention_heads 12");
  check_refused(with({{"head_dim", 63}}), "head_dim", "even");
  check_refused(with({{"num_attention_heads", 512}, {"num_key_value_heads", 512}}), "head_dim", "even");  // 1536 / 512
  check_refused(with({{"head_dim", 0}}), "head_dim");
  check_refused(without("rms_norm_eps"), "rms_norm_eps", "is missing");
  check_refused(with({{"rms_norm_eps", "1e-6"}}), "rms_norm_eps");
  check_refused(with({{"rms_norm_eps", 0}}), "rms_norm_eps");
  check_refused(with({{"tie_word_embeddings", 1}}), "tie_word_embeddings");
  check_refused(with({{"eos_token_id", {151643, 151936}}}), "eos_token_id", "151936");
  check_refused(with({{"bos_token_id", -5}}), "bos_token_id");
  check_refused(with({{"eos_token_id", "x"}}), "eos_token_id");
  const ModelConfig wide = parse(with({{"head_dim", 256}}));  // heads need not add up to hidden_size
  CHECK(wide.query_size() == 12 * 256);
  CHECK(parse(with({{"num_key_value_heads", nullptr}})).num_key_value_heads == 12);
  CHECK(parse(with({{"eos_token_id", {1, 2}}, {"bos_token_id", nullptr}})).eos_token_ids ==
        std::vector<std::int64_t>{1, 2});
}

TEST_CASE("llama configurations have their own biases and defaults", "[model_config]") {
  const ModelConfig config = parse(llama());
  CHECK(config.model_type == "llama");
  CHECK_FALSE(config.attention_bias);
  CHECK_FALSE(config.attention_output_bias);
  const ModelConfig biased = parse(with({{"attention_bias", true}, {"mlp_bias", true}}, llama()));
  CHECK(biased.attention_bias);
  CHECK(biased.attention_output_bias);
  CHECK(biased.mlp_bias);
  CHECK(parse(without("num_key_value_heads", llama())).num_key_value_heads == config.num_attention_heads);
}

TEST_CASE("a config.json that cannot be read or is no object", "[model_config]") {
  const tenon_test::TemporaryFolder folder;
  CHECK_THROWS_AS(read_model_config(folder.path() / "config.json"), FileError);
  for (const char* text : {"", "[]", "null", "\"x\"", "{", "{\"model_type\": \"qwen2\", \"model_type\": \"llama\"}"}) {
    CAPTURE(text);
    const auto path = folder.write("config.json", text);
    CHECK_THROWS_AS(read_model_config(path), FormatError);
    CHECK_THROWS_WITH(read_model_config(path), ContainsSubstring("'" + path.string() + "'"));
  }
  CHECK(parse_model_config("\xEF\xBB\xBF" + distill().dump()) == parse(distill()));
}

TEST_CASE("Numbers in messages are short and exact", "[model_config]") {
  check_refused(with({{"rms_norm_eps", 1e308}}), "rms_norm_eps", "is 1e+308,");
  check_refused(with({{"rms_norm_eps", -1e-300}}), "rms_norm_eps", "is -1e-300,");
  check_refused(with({{"rope_theta", 1e-9}}), "rope_theta", "is 1e-09,");
}
