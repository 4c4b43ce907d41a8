#include <filesystem>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/io/tokenizer_config.hpp>

#include <support/temporary_folder.hpp>

namespace {
using Catch::Matchers::ContainsSubstring;
using tenon::FormatError;
using tenon::parse_tokenizer_config;
using tenon::read_tokenizer_config;
using tenon::TokenizerConfig;

const std::filesystem::path configs = std::filesystem::path(TENON_TEST_DATA) / "configs";
}  // namespace

TEST_CASE("tokenizer configurations of published models", "[tokenizer_config]") {
  const TokenizerConfig instruct = read_tokenizer_config(configs / "Qwen2.5-0.5B-Instruct");
  CHECK(instruct.eos_token == "<|im_end|>");
  CHECK(instruct.pad_token == "<|endoftext|>");
  CHECK_FALSE(instruct.bos_token);
  CHECK(instruct.add_bos_token == false);
  CHECK(instruct.tokenizer_class == "Qwen2Tokenizer");
  CHECK(instruct.additional_special_tokens.size() > 2);
  CHECK(instruct.additional_special_tokens[0] == "<|im_start|>");
  REQUIRE(instruct.chat_template);
  CHECK(instruct.chat_template->substr(0, 15) == "{%- if tools %}");

  const TokenizerConfig distill = read_tokenizer_config(configs / "DeepSeek-R1-Distill-Qwen-1.5B");
  CHECK(distill.bos_token == "<｜begin▁of▁sentence｜>");
  CHECK(distill.eos_token == "<｜end▁of▁sentence｜>");
  CHECK(distill.add_bos_token == true);
  CHECK(distill.add_eos_token == false);
  CHECK(distill.chat_template);

  CHECK(read_tokenizer_config(configs / "Qwen2.5-0.5B").eos_token == "<|endoftext|>");
  CHECK(read_tokenizer_config(configs / "as-found/Qwen2.5-0.5B-Instruct.saved-by-transformers-4.49").eos_token ==
        "<|im_end|>");
}

TEST_CASE("a tokenizer configuration may be absent or empty", "[tokenizer_config]") {
  const tenon_test::TemporaryFolder folder;
  CHECK(read_tokenizer_config(folder.path()) == TokenizerConfig{});
  CHECK(parse_tokenizer_config("{}") == TokenizerConfig{});
  CHECK_FALSE(parse_tokenizer_config(R"({"model_max_length":1e30,"chat_template":null})").chat_template);
}

TEST_CASE("chat templates come as text, as a list, or in a file beside", "[tokenizer_config]") {
  CHECK(parse_tokenizer_config(R"({"chat_template":"T"})").chat_template == "T");
  CHECK(parse_tokenizer_config(
            R"({"chat_template":[{"name":"tool_use","template":"A"},{"name":"default","template":"B"}]})")
            .chat_template == "B");
  const auto others =
      parse_tokenizer_config(R"({"chat_template":[{"name":"rag","template":"A"},{"name":"tool","template":"B"}]})");
  CHECK_FALSE(others.chat_template);
  CHECK(others.chat_template_names == std::vector<std::string>{"rag", "tool"});
  const tenon_test::TemporaryFolder folder;
  folder.write("chat_template.jinja", "from the file");
  CHECK(read_tokenizer_config(folder.path()).chat_template == "from the file");
  folder.write("tokenizer_config.json", R"({"chat_template":"inside","eos_token":"<e>"})");
  CHECK(read_tokenizer_config(folder.path()).chat_template == "from the file");
  CHECK(read_tokenizer_config(folder.path()).eos_token == "<e>");
}

TEST_CASE("tokenizer fields of the wrong kind are named", "[tokenizer_config]") {
  const auto check = [](const std::string& field, const std::string& value) {
    const std::string text = "{\"" + field + "\":" + value + "}";
    CAPTURE(text);
    CHECK_THROWS_AS(parse_tokenizer_config(text, "dir/t.json"), FormatError);
    CHECK_THROWS_WITH(parse_tokenizer_config(text, "dir/t.json"),
                      ContainsSubstring("'dir/t.json': field '") && ContainsSubstring(field));
  };
  check("eos_token", "5");
  check("eos_token", R"({"text":"x"})");
  check("bos_token", R"(["x"])");
  check("add_bos_token", "\"yes\"");
  check("chat_template", "1");
  check("chat_template", "[1]");
  check("chat_template", R"([{"name":"rag"}])");
  check("chat_template", R"([{"name":"default"}])");
  check("additional_special_tokens", "\"x\"");
  check("additional_special_tokens", "[1]");
}
