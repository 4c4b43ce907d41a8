// Files that are no tokenizer, or ask for what is not known: one clear sentence each, and never a crash.
#include <tenon/text/tokenizer.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <support/temporary_folder.hpp>

#include "text/tokenizer_data.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using nlohmann::json;
using tenon::FormatError;
using tenon::Tokenizer;
using tokenizer_data::minimal;

namespace {

void check_refused(const std::string& text, const std::string& words) {
  INFO(text.substr(0, 300));
  CHECK_THROWS_MATCHES(Tokenizer::from_json(text, "dir/tokenizer.json"), FormatError,
                       MessageMatches(ContainsSubstring("dir/tokenizer.json") && ContainsSubstring(words)));
}

/// The minimal tokenizer with the value at a JSON pointer replaced.
void check_field(const std::string& pointer, const json& value, const std::string& words) {
  json file = minimal();
  file[json::json_pointer(pointer)] = value;
  INFO(pointer);
  check_refused(file.dump(), words);
}

}  // namespace

TEST_CASE("T3: zero merges is a load error", "[tokenizer]") {
  check_field("/model/merges", json::array(), "model.merges is missing or empty");
  json file = minimal();
  file["model"].erase("merges");
  check_refused(file.dump(), "model.merges is missing or empty");
}

TEST_CASE("T6: an unknown step is refused by name", "[tokenizer]") {
  check_field("/normalizer", {{"type", "Lowercase"}}, "'Lowercase' in normalizer is not supported");
  check_field("/normalizer", json::parse(R"({"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFKC"}]})"),
              "'NFKC' in normalizer.normalizers[1] is not supported");
  check_field("/pre_tokenizer", {{"type", "BertPreTokenizer"}}, "'BertPreTokenizer' in pre_tokenizer");
  check_field("/pre_tokenizer",
              json::parse(R"({"type": "Sequence", "pretokenizers": [{"type": "Punctuation", "behavior": "Contiguous"},
                  {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
                  {"type": "Digits", "individual_digits": false},
                  {"type": "Split", "pattern": {"Regex": "[0-9][0-9][0-9]"}, "behavior": "Isolated"}]})"),
              "'Digits' in pre_tokenizer.pretokenizers[2] after ByteLevel is not supported");
  check_field("/post_processor", {{"type", "BertProcessing"}}, "'BertProcessing' in post_processor");
  check_field("/decoder", {{"type", "WordPiece"}}, "'WordPiece' in decoder is not supported");
  check_field("/decoder", {{"type", "ByteLevel"}}, "fits a byte-level vocabulary only");
  check_field("/decoder", nullptr, "decoder is missing");
  check_field("/decoder", {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}}, "'Strip' in decoder");
  for (const char* pattern : {"^a", "a$", "\\bfoo", "[[:alpha:]]", "[a&&b]"}) {
    check_field("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}},
                "which is not supported");
  }
  check_field("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}},
              "is malformed");
  check_field("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Sideways"}},
              "unknown value 'Sideways'");
  check_field("/pre_tokenizer", {{"type", "Split"}, {"behavior", "Isolated"}}, "pre_tokenizer.pattern is missing");
}

TEST_CASE("A model that is not plain BPE is refused", "[tokenizer]") {
  check_field("/model/type", "WordPiece", "'WordPiece' is not supported");
  check_field("/model/dropout", 0.1, "model.dropout is set");
  check_field("/model/continuing_subword_prefix", "##", "model.continuing_subword_prefix is set");
  check_field("/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix is set");
  check_field("/model/unk_token", "<none>", "model.unk_token is not in the vocabulary");
  check_field("/model", json::parse(R"({"type": "Unigram", "vocab": [["a", 0.5]]})"), "'Unigram' is not supported");
}

TEST_CASE("Malformed tokenizer files are refused with the place", "[tokenizer]") {
  check_refused("", "is not valid JSON");
  check_refused("{", "malformed JSON");
  check_refused("[]", "not a JSON object");
  check_refused("7", "not a JSON object");
  check_refused("{}", "model is missing");
  check_refused("\xFF\xFE", "malformed JSON");
  check_refused(R"({"model": {"vocab": {"a)"
                "\xFF"
                R"(": 0}}})",
                "malformed JSON");
  check_refused(std::string(100000, '['), "nested too deeply");
  check_field("/model", 3, "model is not an object");
  check_field("/model/type", 3, "model.type is not a string");
  check_field("/model/byte_fallback", "yes", "model.byte_fallback is not true or false");
  check_field("/model/vocab", json::object(), "model.vocab is missing or empty");
  check_field("/model/vocab", json::array({"a"}), "model.vocab is missing or empty");
  check_field("/model/vocab/a", "zero", "the id of token 'a'");
  check_field("/model/vocab/a", -1, "the id of token 'a'");
  check_field("/model/vocab/a", 1.5, "the id of token 'a'");
  check_field("/model/vocab/a", json::object(), "the id of token 'a'");
  check_field("/model/vocab/a", 1, "two tokens have the id 1");
  check_field("/model/vocab/a", 1ull << 31, "of token 'a' is too large");
  check_field("/model/vocab/a", ~0ull, "of token 'a' is too large");
  check_field("/model/merges", {"a"}, "merge 0 is not two tokens");
  check_field("/model/merges", {"a b", "a b c"}, "merge 1 is not two tokens");
  check_field("/model/merges", {"a b", 7}, "merge 1 is not a string");
  check_field("/model/merges", json::parse(R"([["a"]])"), "merge 0 is not a pair");
  check_field("/model/merges", json::parse(R"([["a", "b", "c"]])"), "merge 0 is not a pair");
  check_field("/model/merges", json::parse(R"([["a", 1]])"), "merge 0 is not a string or a pair");
  check_field("/model/merges", {"a c"}, "merge 0 ('a' with 'c') names a token that is not in the vocabulary");
  check_field("/model/merges", {"a x"}, "merge 0 ('a' with 'x') names a token");
  check_refused(R"({"model": {"vocab": {"a": 0, "a": 1, "aa": 2}, "merges": ["a a"]}})", "'a' is there twice");
  check_refused(R"({"model": {"vocab": {"a": 0}, "vocab": {"b": 1}}})", "model.vocab is there twice");
  check_field("/normalizer", "NFC", "normalizer is not an object");
  check_field("/normalizer", json::object(), "normalizer.type is missing");
}

TEST_CASE("Added tokens must agree with the vocabulary", "[tokenizer]") {
  check_field("/added_tokens", "none", "added_tokens is not an array");
  check_field("/added_tokens/0", 7, "added_tokens[0] is not an object");
  check_field("/added_tokens/0/id", -7, "added_tokens[0].id is not a non-negative integer");
  check_field("/added_tokens/0/id", 1ull << 40, "of token '<end>' is too large");
  check_field("/added_tokens/0/id", 4, "which 'abc' has already");
  check_field("/added_tokens/0/content", "abc", "has the id 5, but also 4");
  check_field("/added_tokens/0/content", "", "added_tokens[0].content is empty");
  check_field("/added_tokens/0/special", 1, "added_tokens[0].special is not true or false");
  const json with_template = json::parse(R"({"type": "TemplateProcessing", "single": [
      {"SpecialToken": {"id": "<end>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "special_tokens": {"<end>": {"id": "<end>", "ids": [5], "tokens": ["<end>"]}}})");
  json file = minimal();
  file["post_processor"] = with_template;
  CHECK(Tokenizer::from_json(file.dump()).encode("ab") == tokenizer_data::Ids{5, 3});
  file["post_processor"]["special_tokens"]["<end>"]["ids"][0] = 6;
  check_refused(file.dump(), "which is not an id of the vocabulary");
  file["post_processor"] = with_template;
  file["post_processor"]["special_tokens"] = json::object();
  check_refused(file.dump(), "post_processor.special_tokens.<end> is missing");
  file["post_processor"] = with_template;
  file["post_processor"]["single"].erase(1);
  check_refused(file.dump(), "does not hold the text 'A' exactly once");
}

TEST_CASE("A tokenizer that cannot be read is a FileError naming it", "[tokenizer]") {
  const tenon_test::TemporaryFolder temporary;
  const auto& folder = temporary.path();
  std::filesystem::create_directories(folder / "empty" / "tokenizer.json");
  const auto refused = [](const std::filesystem::path& path, const std::string& words) {
    CHECK_THROWS_MATCHES(Tokenizer::from_file(path), tenon::FileError, MessageMatches(ContainsSubstring(words)));
  };
  refused(folder / "absent.json", "absent.json");
  refused(folder, "is a folder");
  CHECK_THROWS_MATCHES(Tokenizer::from_folder(folder), tenon::FileError,
                       MessageMatches(ContainsSubstring("tokenizer.json")));
  CHECK_THROWS_MATCHES(Tokenizer::from_folder(folder / "empty"), tenon::FileError,
                       MessageMatches(ContainsSubstring("is a folder")));
  CHECK_THROWS_MATCHES(Tokenizer::from_file(temporary.write("half.json", R"({"model": {"vocab": {"a")")), FormatError,
                       MessageMatches(ContainsSubstring("half.json")));
}

TEST_CASE("Damaged tokenizer files are loaded or refused, and never crash", "[tokenizer]") {
  std::vector<std::string> seeds{minimal().dump()};
  for (const json& one : tokenizer_data::read_json("tokenizer/golden/steps.json")) {
    if (one["name"] == "added" || one["name"] == "char-fallback") seeds.push_back(one["tokenizer"].dump());
  }
  std::mt19937 random(7);
  std::size_t refused = 0;
  for (const std::string& seed : seeds) {
    for (int round = 0; round < 150; ++round) {
      std::string damaged = seed;
      const std::size_t at = random() % damaged.size();
      switch (round % 4) {
        case 0: damaged.resize(at); break;
        case 1: damaged[at] = static_cast<char>(random() % 256); break;
        case 2: damaged.erase(at, 1 + random() % 20); break;
        default: damaged.insert(at, seed, random() % seed.size(), 1 + random() % 40);
      }
      try {
        const Tokenizer tokenizer = Tokenizer::from_json(damaged);
        const auto ids = tokenizer.encode("abc <end>日本 naïve 123 newword\n");
        CHECK(tokenizer.decode(ids).size() < 1000);
      } catch (const tenon::Error&) {
        ++refused;
      }
    }
  }
  CHECK(refused > 100);
}

namespace {

/// A Sequence of `count` equal steps.
json sequence(const char* members, const json& step, int count) {
  return {{"type", "Sequence"}, {members, json(static_cast<std::size_t>(count), step)}};
}

}  // namespace

TEST_CASE("Steps that double a text again and again are stopped", "[tokenizer]") {
  const json doubling{{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
  const auto check_stopped = [](const json& file) {
    const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "dir/tokenizer.json");
    CHECK(tokenizer.encode("b") == std::vector<std::int64_t>{1});
    CHECK_THROWS_MATCHES(tokenizer.encode("a a"), tenon::ValueError,
                         MessageMatches(ContainsSubstring("dir/tokenizer.json") && ContainsSubstring("longer than")));
  };
  json file = minimal();
  file["normalizer"] = sequence("normalizers", doubling, 40);
  check_stopped(file);
  json pattern = doubling;
  pattern["pattern"] = {{"Regex", "a"}};
  file["normalizer"] = sequence("normalizers", pattern, 40);
  check_stopped(file);
  file["normalizer"] = {{"type", "Prepend"}, {"prepend", std::string(2 << 20, 'a')}};
  CHECK_THROWS_AS(Tokenizer::from_json(file.dump(), "t").encode("a"), tenon::ValueError);
  file["normalizer"] = nullptr;
  const json spaces{{"type", "Metaspace"}, {"replacement", "  "}, {"prepend_scheme", "never"}, {"split", false}};
  file["pre_tokenizer"] = sequence("pretokenizers", spaces, 40);
  check_stopped(file);

  // At loading: in the spelling of added tokens, and in the decoder.
  json added = minimal();
  added["normalizer"] = sequence("normalizers", doubling, 40);
  added["added_tokens"].push_back({{"id", 6}, {"content", "a+"}, {"special", false}, {"normalized", true}});
  check_refused(added.dump(), "longer than");
  check_field("/decoder", sequence("decoders", doubling, 40), "longer than");
  // A growth of eight is nothing to complain about.
  file = minimal();
  file["normalizer"] = sequence("normalizers", doubling, 3);
  CHECK(Tokenizer::from_json(file.dump(), "t").encode("a").size() == 8);
  check_field("/normalizer", sequence("normalizers", {{"type", "NFC"}}, 257), "more than 256 steps");
}

TEST_CASE("Messages about a file are one short line, whatever the file says", "[tokenizer]") {
  const std::string hostile = "\x1b[2J\n" + std::string(1 << 20, 'x');
  const auto check_line = [](const json& file) {
    std::string message;
    try {
      Tokenizer::from_json(file.dump(), "dir/tokenizer.json");
    } catch (const FormatError& error) {
      message = error.what();
    }
    INFO(message.substr(0, 300));
    CHECK(message.find("dir/tokenizer.json") != std::string::npos);
    CHECK(message.size() < 500);
    CHECK(message.find_first_of("\x1b\n") == std::string::npos);
  };
  const json split{{"type", "Split"}, {"pattern", {{"Regex", hostile + "("}}}, {"behavior", "Isolated"}};
  const json anchored{{"type", "Split"}, {"pattern", {{"Regex", hostile + "$"}}}, {"behavior", "Isolated"}};
  const json behavior{{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", hostile}};
  for (const json& step : {split, anchored, behavior, json{{"type", hostile}}}) {
    json file = minimal();
    file["pre_tokenizer"] = step;
    check_line(file);
  }
  json file = minimal();
  file["model"]["type"] = hostile;
  check_line(file);
  file = minimal();
  file["model"]["vocab"][hostile] = "no id";
  check_line(file);
  file = minimal();
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", {{{"SpecialToken", {{"id", hostile}}}}}},
                            {"special_tokens", json::object()}};
  check_line(file);
}

TEST_CASE("A pattern that fails on a text names the tokenizer", "[tokenizer]") {
  json file = minimal();
  file["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a+)+[bc]"}}}, {"behavior", "Isolated"}};
  const Tokenizer tokenizer = Tokenizer::from_json(file.dump(), "dir/tokenizer.json");
  CHECK_THROWS_MATCHES(
      tokenizer.encode(std::string(2000, 'a')), tenon::ValueError,
      MessageMatches(ContainsSubstring("dir/tokenizer.json") && ContainsSubstring("regular expression failed")));
}
