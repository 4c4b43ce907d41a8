// The regular expressions and the direct ASCII scanner.
#include <tenon/text/ascii_split.hpp>
#include <tenon/text/pre_tokenizer.hpp>
#include <tenon/text/regex.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

using tenon::detail::ascii_split;
using tenon::detail::ascii_split_digits;
using tenon::detail::Regex;
using tenon::detail::RegexMatcher;

namespace {

/// Checks each answer of the scanner on `text` against PCRE2; returns how often the scanner answered.
std::size_t compare(std::string_view text, RegexMatcher& matcher, std::size_t digits) {
  std::size_t answers = 0;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t start = 0;
    std::size_t end = 0;
    if (!matcher.find(text, i, start, end) || start != i || end == i) {
      FAIL("the pattern does not match at " << i << " of '" << text << "'");
    }
    const std::size_t fast = ascii_split(text, i, digits);
    if (fast != 0) {
      ++answers;
      if (fast != end) FAIL("'" << text << "' at " << i << ": " << fast << " instead of " << end);
    }
    i = end;
  }
  return answers;
}

}  // namespace

TEST_CASE("The ASCII scanner equals the regular expression", "[tokenizer]") {
  for (const std::string_view pattern : {tenon::detail::qwen2_pattern, tenon::detail::llama3_pattern}) {
    const std::size_t digits = ascii_split_digits(pattern);
    REQUIRE(digits != 0);
    const Regex regex(pattern);
    RegexMatcher matcher(regex);
    std::size_t answers = 0;
    // All strings of up to four of these; they hold every class and every letter of a contraction.
    const std::vector<std::string> alphabet{"a", "S",  "'",  "r",  "E",    "l",      "7",      "!",
                                            " ", "\t", "\n", "\r", "\x1c", "\u017f", "\u3000", "é"};
    const std::size_t n = alphabet.size();
    for (std::size_t code = 0; code < n * n * n * n; ++code) {
      const std::string text =
          alphabet[code % n] + alphabet[code / n % n] + alphabet[code / n / n % n] + alphabet[code / n / n / n];
      answers += compare(text, matcher, digits);
    }
    // Longer ones from all ASCII and a few others.
    std::mt19937 random(3);
    for (int round = 0; round < 3000; ++round) {
      std::string text;
      for (int i = 0; i < 40; ++i) {
        text += random() % 12 == 0 ? alphabet[random() % n] : std::string(1, static_cast<char>(random() % 128));
      }
      answers += compare(text, matcher, digits);
    }
    CHECK(answers > 100000);
  }
}

TEST_CASE("Escapes mean what they mean in Oniguruma", "[tokenizer]") {
  const auto matches = [](std::string_view pattern, std::string_view text) {
    const Regex regex(pattern);
    RegexMatcher matcher(regex);
    std::size_t start = 0;
    std::size_t end = 0;
    return matcher.find(text, 0, start, end);
  };
  for (const char* space :
       {" ", "\t", "\n", "\v", "\f", "\r", "\u0085", "\u00A0", "\u1680", "\u2003", "\u2028", "\u3000"}) {
    CHECK(matches("\\s", space));
    CHECK(matches("[\\s]", space));
    CHECK_FALSE(matches("\\S", space));
    CHECK_FALSE(matches("[^\\s]", space));
  }
  for (const char* other : {"\u180E", "\u200B", "\u2060", "\uFEFF", "\x1C", "a"}) {
    CHECK_FALSE(matches("\\s", other));
    CHECK(matches("[\\S]", other));
  }
  CHECK(matches("\\w", "\u0301"));
  CHECK(matches("[\\w]", "\u203F"));
  CHECK_FALSE(matches("\\w", "\u00B2"));
  CHECK(matches("\\W", "\u00B2"));
  CHECK(matches("(?i:'s)", "'\u017F"));
  CHECK(matches("\\p{Han}", "漢"));
  CHECK_FALSE(matches("\\p{Han}", "、"));  // its Script is Common, only its extensions name Han
}

TEST_CASE("A pattern that exhausts the fast engine's stack still matches", "[tokenizer]") {
  const std::string text(1 << 18, 'a');
  const Regex regex("(?:a|b(?=c))*+");  // remembers every step
  RegexMatcher matcher(regex);
  std::size_t start = 1;
  std::size_t end = 0;
  REQUIRE(matcher.find(text, 0, start, end));
  CHECK(start == 0);
  CHECK(end == text.size());
  const Regex lazy("(?:(a)|(b))*c|a");
  RegexMatcher lazy_matcher(lazy);
  REQUIRE(lazy_matcher.find(text, 0, start, end));
  CHECK(end == 1);
}

TEST_CASE("A pattern that backtracks without bound ends in an error", "[tokenizer]") {
  std::string text(60, 'a');
  text.append("c b");
  const Regex regex("(?:a+)+b");
  RegexMatcher matcher(regex);
  std::size_t start = 0;
  std::size_t end = 0;
  CHECK_THROWS_AS(matcher.find(text, 0, start, end), tenon::ValueError);
}
