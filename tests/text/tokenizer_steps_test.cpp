// Every step of a tokenizer.json that is known, against Hugging Face tokenizers (make_steps_golden.py).
#include <tenon/text/tokenizer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/tokenizer_data.hpp"

using nlohmann::json;
using tenon::Tokenizer;
using tokenizer_data::Ids;

TEST_CASE("T6: the steps of tokenizer.json drive the tokenizer", "[tokenizer]") {
  const json cases = tokenizer_data::read_json("tokenizer/golden/steps.json");
  REQUIRE(cases.size() >= 20);
  for (const json& one : cases) {
    const auto name = one["name"].get<std::string>();
    const Tokenizer tokenizer = Tokenizer::from_json(one["tokenizer"].dump(), name);
    for (const json& row : one["rows"]) {
      const auto text = row["text"].get<std::string>();
      INFO(name << ": " << row.dump());
      CHECK(tokenizer.encode(text) == row["ids"].get<Ids>());
      CHECK(tokenizer.decode(row["ids"].get<Ids>()) == row["decoded"].get<std::string>());
      if (row.contains("special_as_text")) {
        CHECK(tokenizer.encode(text, {.parse_special = false}) == row["special_as_text"].get<Ids>());
      }
    }
  }
}

TEST_CASE("Very long inputs pass through every kind of step", "[tokenizer]") {
  for (const json& one : tokenizer_data::read_json("tokenizer/golden/steps.json")) {
    const auto name = one["name"].get<std::string>();
    if (name != "gpt2" && name != "camel-case" && name != "word-regex" && name != "split-merged_with_next-False" &&
        name != "metaspace-first-False") {
      continue;
    }
    const Tokenizer tokenizer = Tokenizer::from_json(one["tokenizer"].dump());
    for (const char* unit : {"a", "A", " ", "\n", "-", "é", "\u3000"}) {
      std::string text;
      while (text.size() < 1 << 18) text += unit;
      INFO(name << " with much of '" << unit << "'");
      const std::string back = tokenizer.decode(tokenizer.encode(text));
      // Metaspace adds no space before one that is there, and its decoder drops one: so does Hugging Face's.
      const bool drops_one = name == "metaspace-first-False" && unit == std::string(" ");
      CHECK(back == text.substr(drops_one ? 1 : 0));
    }
  }
}

TEST_CASE("T23: added words stay words in what a user typed", "[tokenizer]") {
  for (const json& one : tokenizer_data::read_json("tokenizer/golden/steps.json")) {
    if (one["name"] != "added") continue;
    const Tokenizer tokenizer = Tokenizer::from_json(one["tokenizer"].dump());
    const Ids word{tokenizer.token_to_id("newword").value()};
    CHECK(tokenizer.encode("newword", {.parse_special = false}) == word);
    CHECK(tokenizer.encode("</s>", {.parse_special = false}) != Ids{tokenizer.token_to_id("</s>").value()});
    CHECK(tokenizer.encode("</s>") == Ids{tokenizer.token_to_id("</s>").value()});
    return;
  }
  FAIL("no case with added tokens");
}
