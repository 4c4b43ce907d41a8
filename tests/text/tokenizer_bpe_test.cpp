// The two merge loops against the definition of BPE: merge the leftmost pair of the lowest rank until none is left.
#include <tenon/text/bpe.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

struct Vocabulary {
  std::map<std::string, std::uint32_t> ids;
  std::vector<std::pair<std::string, std::string>> merges;
};

/// Random merges over three letters.
Vocabulary random_vocabulary(std::mt19937& random, std::size_t merge_count) {
  Vocabulary result;
  std::vector<std::string> tokens{"a", "b", "c"};
  for (const std::string& token : tokens) result.ids.emplace(token, static_cast<std::uint32_t>(result.ids.size()));
  while (result.merges.size() < merge_count) {
    const std::string left = tokens[random() % tokens.size()];
    const std::string right = tokens[random() % tokens.size()];
    if (!result.ids.emplace(left + right, static_cast<std::uint32_t>(result.ids.size())).second) continue;
    result.merges.emplace_back(left, right);
    tokens.push_back(left + right);
  }
  return result;
}

tenon::detail::BpeModel build(const Vocabulary& vocabulary) {
  tenon::detail::BpeModel model;
  model.byte_level = true;
  model.table.reserve(vocabulary.ids.size(), vocabulary.ids.size(), 0);
  for (const auto& [token, id] : vocabulary.ids) REQUIRE((model.table.set(id, token) && model.table.index(id)));
  model.merges.reserve(vocabulary.merges.size());
  for (std::size_t i = 0; i < vocabulary.merges.size(); ++i) {
    const auto& [left, right] = vocabulary.merges[i];
    model.merges.set(vocabulary.ids.at(left), vocabulary.ids.at(right),
                     {static_cast<std::uint32_t>(i), vocabulary.ids.at(left + right)});
  }
  model.byte_symbols.fill(tenon::detail::TokenTable::none);
  for (const char letter : {'a', 'b', 'c'}) {
    model.byte_symbols[static_cast<unsigned char>(letter)] = vocabulary.ids.at(std::string(1, letter));
  }
  model.is_whole = std::make_unique<std::atomic<std::uint8_t>[]>(vocabulary.ids.size());
  return model;
}

std::vector<std::int64_t> by_definition(const Vocabulary& vocabulary, const std::string& text) {
  std::vector<std::string> parts;
  for (const char letter : text) parts.emplace_back(1, letter);
  for (;;) {
    std::size_t best_rank = vocabulary.merges.size();
    std::size_t best = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      for (std::size_t rank = 0; rank < best_rank; ++rank) {
        if (vocabulary.merges[rank].first == parts[i] && vocabulary.merges[rank].second == parts[i + 1]) {
          best_rank = rank;
          best = i;
        }
      }
    }
    if (best_rank == vocabulary.merges.size()) break;
    parts[best] += parts[best + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
  std::vector<std::int64_t> ids;
  for (const std::string& part : parts) ids.push_back(vocabulary.ids.at(part));
  return ids;
}

}  // namespace

TEST_CASE("Both merge loops follow the definition of BPE", "[tokenizer]") {
  std::mt19937 random(5);
  for (int round = 0; round < 20; ++round) {
    const Vocabulary vocabulary = random_vocabulary(random, 5 + random() % 40);
    const auto model = build(vocabulary);
    for (std::size_t length = 1; length < 90; ++length) {  // 40 bytes divide the loops
      std::string text;
      while (text.size() < length) text += static_cast<char>('a' + random() % 3);
      std::vector<std::int64_t> ids;
      model.encode(text, ids);
      model.encode(text, ids);  // the second time, what is remembered of whole tokens must not change anything
      const auto expected = by_definition(vocabulary, text);
      const auto half = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() / 2);
      CHECK(std::vector<std::int64_t>(ids.begin(), half) == expected);
      CHECK(std::vector<std::int64_t>(half, ids.end()) == expected);
    }
  }
}

TEST_CASE("A token that its own text does not reach is not taken for it", "[tokenizer]") {
  // "abc" = "a" + "bc", but "ab" merges first and then blocks it.
  Vocabulary vocabulary;
  vocabulary.ids = {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}};
  vocabulary.merges = {{"a", "b"}, {"b", "c"}, {"a", "bc"}};
  auto model = build(vocabulary);
  std::vector<std::int64_t> ids;
  model.encode("abc", ids);
  model.encode("abc", ids);
  CHECK(ids == std::vector<std::int64_t>{3, 2, 3, 2});
  model.ignore_merges = true;
  ids.clear();
  model.encode("abc", ids);
  CHECK(ids == std::vector<std::int64_t>{5});
}
