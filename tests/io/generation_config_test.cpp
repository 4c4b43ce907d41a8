#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/io/generation_config.hpp>

#include <support/temporary_folder.hpp>

namespace {
using Catch::Matchers::ContainsSubstring;
using tenon::FormatError;
using tenon::GenerationConfig;
using tenon::parse_generation_config;
using tenon::read_generation_config;

const std::filesystem::path configs = std::filesystem::path(TENON_TEST_DATA) / "configs";
}  // namespace

TEST_CASE("generation configurations of published models", "[generation_config]") {
  const GenerationConfig instruct = read_generation_config(configs / "Qwen2.5-0.5B-Instruct/generation_config.json");
  CHECK(instruct.eos_token_ids == std::vector<std::int64_t>{151645, 151643});
  CHECK(instruct.pad_token_id == 151643);
  CHECK(instruct.do_sample == true);
  CHECK(instruct.temperature == 0.7);
  CHECK(instruct.top_p == 0.8);
  CHECK(instruct.top_k == 20);
  CHECK(instruct.repetition_penalty == 1.1);
  CHECK_FALSE(instruct.min_p);
  CHECK_FALSE(instruct.max_new_tokens);

  const GenerationConfig base = read_generation_config(configs / "Qwen2.5-7B/generation_config.json");
  CHECK(base.eos_token_ids == std::vector<std::int64_t>{151643});
  CHECK(base.do_sample == false);
  CHECK(base.max_new_tokens == 2048);
  CHECK_FALSE(base.temperature);

  const GenerationConfig distill =
      read_generation_config(configs / "DeepSeek-R1-Distill-Qwen-1.5B/generation_config.json");
  CHECK(distill.bos_token_id == 151646);
  CHECK(distill.temperature == 0.6);
  CHECK(distill.top_p == 0.95);
}

TEST_CASE("a generation configuration may be absent or empty", "[generation_config]") {
  const tenon_test::TemporaryFolder folder;
  CHECK(read_generation_config(folder.path() / "generation_config.json") == GenerationConfig{});
  CHECK(parse_generation_config("{}") == GenerationConfig{});
  CHECK(parse_generation_config(R"({"temperature":null,"eos_token_id":null,"pad_token_id":-1,"unknown":[1]})") ==
        GenerationConfig{});
  CHECK_THROWS_AS(read_generation_config(folder.path()), tenon::FileError);
}

TEST_CASE("values out of range are named", "[generation_config]") {
  const auto check = [](const std::string& field, const std::string& value) {
    const std::string text = "{\"" + field + "\":" + value + "}";
    CAPTURE(text);
    CHECK_THROWS_AS(parse_generation_config(text, "dir/g.json"), FormatError);
    CHECK_THROWS_WITH(parse_generation_config(text, "dir/g.json"),
                      ContainsSubstring("'dir/g.json': field '" + field + "'"));
  };
  check("temperature", "-0.1");
  check("temperature", "\"hot\"");
  check("temperature", "true");
  check("top_k", "-1");
  check("top_k", "2.5");
  check("top_p", "1.1");
  check("top_p", "-0.1");
  check("min_p", "2");
  check("repetition_penalty", "1e-308");
  check("repetition_penalty", "1e308");
  check("repetition_penalty", "0");
  check("repetition_penalty", "-1");
  check("max_new_tokens", "0");
  check("do_sample", "1");
  check("eos_token_id", "-1");
  check("eos_token_id", "[1,-1]");
  check("eos_token_id", "[1,\"x\"]");
  check("eos_token_id", "1.0");
  check("bos_token_id", "-1");
  const GenerationConfig edge = parse_generation_config(R"({"temperature":0,"top_k":0,"top_p":1,"min_p":0})");
  CHECK(edge.temperature == 0.0);
  CHECK(edge.top_k == 0);
  CHECK(edge.top_p == 1.0);
}
