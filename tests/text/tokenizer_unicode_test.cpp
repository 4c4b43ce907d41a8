// UTF-8 and normalisation, against utf8proc and the definitions of the Unicode standard.
#include <tenon/text/byte_level.hpp>
#include <tenon/text/nfc.hpp>
#include <tenon/text/utf8.hpp>

#include <catch2/catch_test_macros.hpp>

#include <utf8proc.h>

#include <cstdint>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

using tenon::detail::append_utf8;
using tenon::detail::is_nfc_inert;
using tenon::detail::to_nfc;

namespace {

std::string encoded(std::uint32_t point) {
  std::string text;
  append_utf8(text, point);
  return text;
}

std::string nfc(std::string_view text) {
  std::string storage;
  return std::string(to_nfc(text, storage));
}

/// utf8proc's own function for whole strings.
std::string whole_string_nfc(const std::string& text) {
  utf8proc_uint8_t* result = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
  const utf8proc_ssize_t length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                               static_cast<utf8proc_ssize_t>(text.size()), &result, options);
  REQUIRE(length >= 0);
  std::string out(reinterpret_cast<const char*>(result), static_cast<std::size_t>(length));
  std::free(result);
  return out;
}

}  // namespace

TEST_CASE("What is taken for normalised is so", "[tokenizer]") {
  // Second halves of canonical decompositions: what can compose with a character before it.
  std::set<std::uint32_t> seconds;
  for (std::uint32_t j = 0x1161; j <= 0x1175; ++j) seconds.insert(j);
  for (std::uint32_t j = 0x11A8; j <= 0x11C2; ++j) seconds.insert(j);
  const auto each = [](auto&& visit) {
    for (std::uint32_t point = 0; point < 0x110000; ++point) {
      if (point < 0xD800 || point > 0xDFFF) visit(point);
    }
  };
  each([&](std::uint32_t point) {
    if (point >= 0xAC00 && point <= 0xD7A3) return;
    const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(point));
    if (property->decomp_type != 0) return;  // none, or a compatibility one
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(point), parts, 32, UTF8PROC_COMPOSE, &boundary);
    for (utf8proc_ssize_t i = 1; i < count; ++i) seconds.insert(static_cast<std::uint32_t>(parts[i]));
  });
  std::size_t inert = 0;
  each([&](std::uint32_t point) {
    if (!is_nfc_inert(point)) return;
    ++inert;
    const bool ok = whole_string_nfc(encoded(point)) == encoded(point) && seconds.count(point) == 0 &&
                    utf8proc_get_property(static_cast<utf8proc_int32_t>(point))->combining_class == 0;
    if (!ok) FAIL_CHECK("code point " << point);
  });
  CHECK(inert > 40000);
}

TEST_CASE("NFC equals utf8proc on whole strings", "[tokenizer]") {
  std::mt19937 random(11);
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> blocks{
      {0x20, 0x7E},     {0xA0, 0x250},    {0x300, 0x36F},     {0x370, 0x590},    {0x900, 0xDFF},
      {0x1100, 0x11A6}, {0x11A8, 0x11FF}, {0x1E00, 0x20D0},   {0x2100, 0x2130},  {0x3040, 0x30FF},
      {0xAC00, 0xAD00}, {0xF900, 0xFB50}, {0x11080, 0x11150}, {0x1D150, 0x1D1D0}};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    const auto& first = blocks[random() % blocks.size()];
    const auto& second = blocks[random() % blocks.size()];
    for (int i = 0; i < 25; ++i) {
      const auto& block = random() % 3 == 0 ? blocks[2] : random() % 2 == 0 ? first : second;
      append_utf8(text, block.first + static_cast<std::uint32_t>(random() % (block.second - block.first + 1)));
    }
    if (nfc(text) != whole_string_nfc(text)) FAIL_CHECK(text);
  }
}

TEST_CASE("NFC by the standard's own examples", "[tokenizer]") {
  CHECK(nfc("") == "");
  CHECK(nfc("plain") == "plain");
  CHECK(nfc("cafe\u0301 x") == "caf\u00E9 x");
  CHECK(nfc("\u212B") == "\u00C5");
  CHECK(nfc("\u1100\u1161\u11A8") == "\uAC01");
  CHECK(nfc("q\u0307\u0323") == "q\u0323\u0307");
  CHECK(nfc("\u0344") == "\u0308\u0301");
  CHECK(nfc("\u0958") == "\u0915\u093C");
  CHECK(nfc("\uAE68\u11A7x") == "\uAE68\u11A7x");  // a vowel, not an empty final consonant
  std::string marks;
  for (int i = 0; i < 100000; ++i) marks += "\u0301\u0323";
  std::string sorted;
  for (int i = 0; i < 100000; ++i) sorted += "\u0323";
  for (int i = 0; i < 100000; ++i) sorted += "\u0301";
  CHECK(nfc(marks) == sorted);
}

TEST_CASE("UTF-8 is decoded strictly", "[tokenizer]") {
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    if (point == 0xD800) point = 0xE000;
    const std::string text = encoded(point);
    const tenon::detail::Utf8Step step = tenon::detail::decode_utf8(text, 0);
    if (!step.valid || step.code_point != point || step.length != text.size()) FAIL_CHECK("code point " << point);
  }
  for (const char* invalid : {"\x80", "\xC1\x81", "\xE0\x9F\xBF", "\xED\xA0\x80", "\xF0\x8F\xBF\xBF",
                              "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF"}) {
    CHECK_FALSE(tenon::is_valid_utf8(invalid));
  }
  CHECK(tenon::is_valid_utf8("plain text, long enough for words: Größe 日本 👩"));
}

TEST_CASE("Invalid bytes are replaced as WHATWG says", "[tokenizer]") {
  CHECK(tenon::repair_utf8("ok") == "ok");
  CHECK(tenon::repair_utf8("a\xF0\x9F\x98z") == "a\uFFFDz");
  CHECK(tenon::repair_utf8("\xE2\x82") == "\uFFFD");
  CHECK(tenon::repair_utf8("\xE0\x80\x80") == "\uFFFD\uFFFD\uFFFD");
  CHECK(tenon::repair_utf8("\xC3\xC3\xA9") == "\uFFFDé");
}

TEST_CASE("The tail of an unfinished character is recognised", "[tokenizer]") {
  const std::string emoji = "x👩";
  CHECK(tenon::incomplete_utf8_tail("") == 0);
  CHECK(tenon::incomplete_utf8_tail("x") == 0);
  CHECK(tenon::incomplete_utf8_tail(emoji) == 0);
  for (std::size_t cut = 1; cut <= 3; ++cut) CHECK(tenon::incomplete_utf8_tail(emoji.substr(0, 5 - cut)) == 4 - cut);
  CHECK(tenon::incomplete_utf8_tail("é\x80") == 0);
  CHECK(tenon::incomplete_utf8_tail("\x80\x80\x80\x80") == 0);
  CHECK(tenon::incomplete_utf8_tail("\xE0\x80") == 0);
}

TEST_CASE("Bytes and their spelling are inverse", "[tokenizer]") {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.push_back(static_cast<char>(static_cast<unsigned char>(byte)));
  const std::string spelling = tenon::detail::spell_bytes(bytes);
  CHECK(spelling.substr(0, 6) == "ĀāĂ");
  CHECK(tenon::detail::spell_bytes(" \n") == "ĠĊ");
  std::string back;
  CHECK(tenon::detail::append_bytes_of_spelling(back, spelling));
  CHECK(back == bytes);
  back = "kept";
  CHECK_FALSE(tenon::detail::append_bytes_of_spelling(back, "a b"));
  CHECK_FALSE(tenon::detail::append_bytes_of_spelling(back, "日"));
  CHECK(back == "kept");
}
