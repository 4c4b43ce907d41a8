// What the tokenizer's tests share: the unpacked tokenizers, golden files, and a minimal tokenizer.json.
#pragma once

#include <tenon/text/tokenizer.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace tokenizer_data {

using Ids = std::vector<std::int64_t>;

inline tenon::Tokenizer load(const std::string& name) {
  return tenon::Tokenizer::from_folder(std::filesystem::path(TENON_TEST_TOKENIZERS) / name);
}

inline tenon::Tokenizer load_tiny() { return tenon::Tokenizer::from_folder(TENON_TEST_MODEL); }

inline nlohmann::json read_json(const std::string& path) {
  std::ifstream file(std::filesystem::path(TENON_TEST_DATA) / path);
  REQUIRE(file.good());
  return nlohmann::json::parse(file);
}

inline std::vector<nlohmann::json> read_lines(const std::string& path) {
  std::ifstream file(std::filesystem::path(TENON_TEST_DATA) / path);
  REQUIRE(file.good());
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(file, line);) rows.push_back(nlohmann::json::parse(line));
  return rows;
}

/// A character-level tokenizer of a few letters: "a" 0, "b" 1, "c" 2, "ab" 3, "abc" 4, and "<end>" 5, special.
inline nlohmann::json minimal() {
  return nlohmann::json::parse(R"({
    "added_tokens": [{"id": 5, "content": "<end>", "special": true, "normalized": false,
                      "lstrip": false, "rstrip": false, "single_word": false}],
    "normalizer": null, "pre_tokenizer": null, "post_processor": null,
    "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "dropout": null, "unk_token": null, "byte_fallback": false, "fuse_unk": false,
              "vocab": {"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4}, "merges": ["a b", "ab c"]}})");
}

}  // namespace tokenizer_data
