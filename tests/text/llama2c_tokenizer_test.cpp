#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include <tenon/core/error.hpp>
#include <tenon/text/llama2c_tokenizer.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::FormatError;
using tenon::Llama2cTokenizer;
using Ids = std::vector<std::int64_t>;

const std::filesystem::path data = std::filesystem::path(TENON_TEST_DATA) / "llama2c";

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

using Entry = std::pair<std::string, float>;

std::string file_text(const std::vector<Entry>& entries, std::int32_t max_length = 16) {
  std::string text = bytes_of(max_length);
  for (const auto& [piece, score] : entries) {
    text += bytes_of(score) + bytes_of(static_cast<std::int32_t>(piece.size())) + piece;
  }
  return text;
}

/// The special tokens and the bytes, and then `more`.
std::vector<Entry> vocabulary(const std::vector<Entry>& more = {}) {
  std::vector<Entry> entries{{"<unk>", 0.0f}, {"\n<s>\n", 0.0f}, {"\n</s>\n", 0.0f}};
  for (int byte = 0; byte < 256; ++byte) {
    std::array<char, 8> name{};
    std::snprintf(name.data(), name.size(), "<0x%02X>", static_cast<unsigned>(byte));
    entries.emplace_back(name.data(), 0.0f);
  }
  entries.insert(entries.end(), more.begin(), more.end());
  return entries;
}

/// llama2.c's way of encoding, quadratic: the whole text is looked at again after every merge.
Ids encode_slowly(const std::vector<Entry>& entries, const std::string& text) {
  const auto find = [&](const std::string& piece) {
    for (std::size_t id = 0; id < entries.size(); ++id) {
      if (entries[id].first == piece) return static_cast<std::int64_t>(id);
    }
    return std::int64_t{-1};
  };
  Ids ids{1};
  if (!text.empty()) ids.push_back(find(" "));
  std::string character;
  for (std::size_t i = 0; i < text.size(); ++i) {
    character += text[i];
    const bool goes_on = i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xC0u) == 0x80u;
    if (goes_on && character.size() < 4) continue;
    const std::int64_t id = find(character);
    if (id >= 0) {
      ids.push_back(id);
    } else {
      for (const char byte : character) ids.push_back(3 + static_cast<unsigned char>(byte));
    }
    character.clear();
  }
  while (true) {
    float best_score = -1e10f;
    std::int64_t best_id = -1;
    std::size_t best_at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const std::int64_t id =
          find(entries[static_cast<std::size_t>(ids[i])].first + entries[static_cast<std::size_t>(ids[i + 1])].first);
      if (id >= 0 && entries[static_cast<std::size_t>(id)].second > best_score) {
        best_score = entries[static_cast<std::size_t>(id)].second;
        best_id = id;
        best_at = i;
      }
    }
    if (best_id < 0) return ids;
    ids[best_at] = best_id;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
  }
}

/// Writes the bytes and reads them; the message of the FormatError, or nothing.
std::string refusal(const std::string& text, std::int64_t vocab_size = 0) {
  const tenon_test::TemporaryFolder folder;
  const auto path = folder.write("tok.bin", text);
  try {
    const Llama2cTokenizer tokenizer(path, vocab_size);
  } catch (const FormatError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("tok.bin"));
    return error.what();
  }
  return "";
}

Llama2cTokenizer make(const std::vector<Entry>& entries) {
  const tenon_test::TemporaryFolder folder;
  return Llama2cTokenizer(folder.write("tok.bin", file_text(entries)));
}

}  // namespace

TEST_CASE("llama2c tokenizer: encodings are those of llama2.c", "[llama2c]") {
  const Llama2cTokenizer tokenizer(data / "tok512.bin", 512);
  CHECK(tokenizer.vocab_size() == 512);
  std::istringstream lines(tenon_test::slurp(data / "golden" / "tok512.encode.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    const auto record = nlohmann::json::parse(line);
    const auto text = record.at("text").get<std::string>();
    auto ids = record.at("ids").get<Ids>();
    CHECK(tokenizer.encode(text) == ids);
    ids.push_back(2);
    CHECK(tokenizer.encode(text, true, true) == ids);
    ids.erase(ids.begin());
    CHECK(tokenizer.encode(text, false, true) == ids);
  }
  CHECK(count == 357);
}

TEST_CASE("llama2c tokenizer: the queue merges what rescanning merges, ties and malformed UTF-8 included",
          "[llama2c]") {
  std::vector<Entry> more{{" ", -1.0f}, {"\xC3\xA9", -2.0f}, {"\xF0\x9F\x98\x80", -2.0f}};
  for (const char* piece : {"a", "b", "c"}) more.emplace_back(piece, -3.0f);
  std::mt19937 random(7);
  // Every text of two and three letters in turn gets one of few scores, so that ties are common; some never merge.
  const std::string letters = " abc";
  for (const char x : letters) {
    for (const char y : letters) {
      if (random() % 3 != 0) more.emplace_back(std::string{x, y}, static_cast<float>(random() % 3) - 4.0f);
      for (const char z : letters) {
        if (random() % 4 == 0)
          more.emplace_back(std::string{x, y, z}, random() % 8 == 0 ? -2e10f : static_cast<float>(random() % 4) - 4.0f);
      }
    }
  }
  more.emplace_back("aaaa", -0.5f);
  more.emplace_back("aaaaaaaa", 0.5f);
  const auto entries = vocabulary(more);
  const Llama2cTokenizer tokenizer = make(entries);
  const std::array<std::string, 9> alphabet{"a", "a", "b", "c", " ", "\xC3\xA9", "\x80", "\xF0\x9F", "\xE2\x82\xAC"};
  for (int round = 0; round < 400; ++round) {
    std::string text;
    for (std::size_t i = random() % 40; i > 0; --i) text += alphabet[random() % alphabet.size()];
    CAPTURE(round, text);
    CHECK(tokenizer.encode(text) == encode_slowly(entries, text));
  }
  CHECK(tokenizer.encode(std::string(300, 'a')) == encode_slowly(entries, std::string(300, 'a')));
  CHECK(tokenizer.encode("\xF0\x9F\x98\x80\x80", false) ==
        Ids{259, 261, 3 + 0x80});  // a code point has at most 4 bytes
  CHECK(tokenizer.encode(std::string(9, '\x80')) == encode_slowly(entries, std::string(9, '\x80')));
}

TEST_CASE("llama2c tokenizer: a long text takes no quadratic time", "[llama2c]") {
  const Llama2cTokenizer tokenizer(data / "tok512.bin", 512);
  std::string text;
  for (int i = 0; i < 100000; ++i) text += "Once upon a time ";
  const auto ids = tokenizer.encode(text);  // n² would be more than 10^12 look-ups
  CHECK(tokenizer.decode(ids) == text);
}

TEST_CASE("llama2c tokenizer: decoding follows llama2.c's decode and safe_printf", "[llama2c]") {
  const Llama2cTokenizer tokenizer = make(vocabulary({{" ", -1.0f},
                                                      {" a", -1.0f},
                                                      {"  b", -1.0f},
                                                      {"\x7F", -1.0f},
                                                      {"<0x4", -1.0f},
                                                      {"<0x41-", -1.0f},
                                                      {"<0x", -1.0f},
                                                      {"<0xg", -1.0f},
                                                      {" <0x42>", -1.0f},
                                                      {"\xC3\xA9", -1.0f}}));
  CHECK(tokenizer.decode(1, 260) == "a");
  CHECK(tokenizer.decode(2, 260) == " a");
  CHECK(tokenizer.decode(1, 261) == " b");
  CHECK(tokenizer.decode(1, 259).empty());
  CHECK(tokenizer.decode(-5, 3 + 'x') == "x");
  CHECK(tokenizer.decode(0, 3 + 0xE9) == "\xE9");
  CHECK(tokenizer.decode(0, 3).empty());  // in C the zero byte ends the text
  CHECK(tokenizer.decode(0, 0) == "<unk>");
  CHECK(tokenizer.decode(0, 2) == "\n</s>\n");
  // scanf reads one or two hexadecimal digits and does not care for what follows.
  CHECK(tokenizer.decode(0, 263) == "\x04");
  CHECK(tokenizer.decode(0, 264) == "A");
  CHECK(tokenizer.decode(0, 265) == "<0x");
  CHECK(tokenizer.decode(0, 266) == "<0xg");
  CHECK(tokenizer.decode(1, 267) == "B");
  CHECK(tokenizer.decode(0, 267) == " <0x42>");
  CHECK(tokenizer.piece(3 + 10) == "<0x0A>");
  CHECK(tokenizer.score(260) == -1.0f);

  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    const bool prints =
        (byte >= 32 && byte <= 126) || byte == '\t' || byte == '\n' || byte == '\v' || byte == '\f' || byte == '\r';
    CAPTURE(byte);
    CHECK(Llama2cTokenizer::printable(one) == (prints ? one : ""));
    CHECK(tokenizer.decode(Ids{1, 3 + byte}) == (prints ? one : ""));
  }
  CHECK(Llama2cTokenizer::printable("\xC3\xA9") == "\xC3\xA9");
  CHECK(tokenizer.decode(Ids{1, 260, 260, 262, 268, 3 + 0xC3}) == "a a\xC3\xA9");
  CHECK(tokenizer.decode(Ids{260, 1, 260}) == " aa");
  CHECK(tokenizer.decode(Ids{}).empty());
}

TEST_CASE("llama2c tokenizer: ids out of range throw", "[llama2c]") {
  const Llama2cTokenizer tokenizer(data / "tok512.bin", 512);
  for (const std::int64_t id : {std::int64_t{-1}, std::int64_t{512}, std::numeric_limits<std::int64_t>::min(),
                                std::numeric_limits<std::int64_t>::max()}) {
    CAPTURE(id);
    CHECK_THROWS_AS(tokenizer.decode(1, id), tenon::IndexError);
    CHECK_THROWS_AS(tokenizer.decode(Ids{1, id}), tenon::IndexError);
    CHECK_THROWS_AS(tokenizer.piece(id), tenon::IndexError);
    CHECK_THROWS_AS(tokenizer.score(id), tenon::IndexError);
  }
}

TEST_CASE("llama2c tokenizer: hostile files are refused", "[llama2c]") {
  const std::string sound = file_text(vocabulary({{" ", -1.0f}, {"tail", -1.0f}}));
  CHECK(refusal(sound).empty());
  CHECK(refusal(sound, 261).empty());
  CHECK_THAT(refusal(sound, 260), ContainsSubstring("it has more than the 260 tokens of the model"));
  CHECK_THAT(refusal(sound, 262), ContainsSubstring("261 tokens, and the model has 262"));
  CHECK_THAT(refusal(""), ContainsSubstring("max_token_length"));
  CHECK_THAT(refusal(sound.substr(0, 3)), ContainsSubstring("max_token_length"));
  CHECK_THAT(refusal(sound.substr(0, 4)), ContainsSubstring("0 tokens"));
  CHECK_THAT(refusal(file_text({{"a", 0.0f}})), ContainsSubstring("bytes alone need 259"));
  // The last token begins 12 bytes before the end: 4 of its score, 4 of its length, 4 of text.
  for (std::size_t cut = 1; cut < 12; ++cut) {
    CAPTURE(cut);
    CHECK_THAT(refusal(sound.substr(0, sound.size() - cut)), ContainsSubstring("token 260"));
  }
  CHECK_THAT(refusal(sound + "x"), ContainsSubstring("the score of token 261"));
  for (const std::int32_t length :
       {-1, 0, 17, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
    std::string text = sound;
    std::memcpy(text.data() + text.size() - 8, &length, sizeof length);
    CAPTURE(length);
    CHECK_THAT(refusal(text), ContainsSubstring("token 260 has " + std::to_string(length) + " bytes"));
    std::memcpy(text.data(), &length, sizeof length);
    if (length < 1) CHECK_THAT(refusal(text), ContainsSubstring("max_token_length is"));
  }
  {
    // The length is allowed by max_token_length, but the file ends before.
    std::string text = sound;
    const std::int32_t huge = std::numeric_limits<std::int32_t>::max();
    std::memcpy(text.data(), &huge, sizeof huge);
    std::memcpy(text.data() + text.size() - 8, &huge, sizeof huge);
    CHECK_THAT(refusal(text), ContainsSubstring("ends within the 2147483647 bytes of token 260"));
  }
  for (const float score : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()}) {
    CHECK_THAT(refusal(file_text(vocabulary({{"a", score}}))), ContainsSubstring("token 259 has a score"));
  }
  CHECK_THAT(refusal(file_text(vocabulary({{std::string("a\0b", 3), 0.0f}}))), ContainsSubstring("zero byte"));
  CHECK(refusal(file_text(vocabulary())).empty());
  for (const std::size_t id : {std::size_t{3}, std::size_t{13}, std::size_t{258}}) {
    const std::string byte = vocabulary()[id].first;
    std::string lower = byte;  // how no file spells it
    for (char& c : lower) c = c == 'A' ? 'a' : c == 'F' ? 'f' : c;
    for (const std::string& other : {std::string("a"), std::string("<0x20>"), byte + "-", byte.substr(0, 5), lower}) {
      if (other == byte) continue;
      auto entries = vocabulary({{byte, -1.0f}});
      entries[id].first = other;
      CAPTURE(id, other);
      CHECK_THAT(refusal(file_text(entries)),
                 ContainsSubstring("token " + std::to_string(id) + " is not the byte " + byte));
    }
  }
  CHECK_THROWS_AS(Llama2cTokenizer(data / "tok512.bin", -1), tenon::ValueError);
  CHECK_THROWS_AS(Llama2cTokenizer(data / "nothing.bin"), tenon::FileError);
}
