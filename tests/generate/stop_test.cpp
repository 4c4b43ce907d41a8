#include <tenon/generate/stop.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

using tenon::merge_stop_ids;
using tenon::StopIds;
using tenon::StopStrings;

namespace {

// An independent definition: cut the whole text at the stop string whose last byte comes first (longest on a tie).
struct Cut {
  std::string text;
  std::string matched;
};
Cut cut_whole(const std::string& text, const std::vector<std::string>& stops) {
  Cut best{text, ""};
  std::size_t best_end = std::string::npos;
  for (const auto& stop : stops) {
    const std::size_t at = text.find(stop);
    if (at == std::string::npos) continue;
    const std::size_t end = at + stop.size();
    if (end < best_end || (end == best_end && stop.size() > best.matched.size())) {
      best_end = end;
      best = {text.substr(0, at), stop};
    }
  }
  return best;
}

}  // namespace

TEST_CASE("T20: a stop string that spans pieces is found and no part of it leaks", "[stop]") {
  StopStrings stop({"own fox", "beta gamma"});
  CHECK(stop.push("The quick br") == "The quick br");
  CHECK(stop.push("own") == "");
  CHECK(stop.held() == "own");
  CHECK(stop.push(" fo") == "");
  CHECK(stop.push("x jumps") == "");
  CHECK(stop.stopped());
  CHECK(stop.matched() == "own fox");
  CHECK(stop.push("more") == "");
  CHECK(stop.flush() == "");

  stop.reset();
  CHECK_FALSE(stop.stopped());
  CHECK(stop.push("alpha be") == "alpha ");
  CHECK(stop.push("ta ga") == "");
  CHECK(stop.push("rden") == "beta garden");
  CHECK(stop.push(" beta gamma!") == " ");
  CHECK(stop.matched() == "beta gamma");
}

TEST_CASE("T22: only true prefixes are held back, so markers pass through whole", "[stop]") {
  StopStrings stop({"<|im_end|>", "a very long stop string that never comes"});
  CHECK(stop.push("</think>") == "</think>");
  CHECK(stop.push("\n\nSo") == "\n\nSo");
  CHECK(stop.push("1 <") == "1 ");
  CHECK(stop.push(" 2") == "< 2");
  CHECK(stop.push("<|im") == "");
  CHECK(stop.flush() == "<|im");
}

TEST_CASE("the stop string that is complete first wins, the longest on a tie", "[stop]") {
  StopStrings nested({"abcd", "bc"});
  CHECK(nested.push("xabcd") == "xa");
  CHECK(nested.matched() == "bc");

  StopStrings tie({"c", "bc", "abc"});
  CHECK(tie.push("xabc") == "x");
  CHECK(tie.matched() == "abc");

  StopStrings repeated({"aab"});
  CHECK(repeated.push("aaa") == "a");
  CHECK(repeated.push("b") == "");
  CHECK(repeated.stopped());
}

TEST_CASE("without stop strings all text passes", "[stop]") {
  StopStrings none;
  CHECK(none.push("text") == "text");
  CHECK(none.push("") == "");
  CHECK(none.flush() == "");
  CHECK_FALSE(none.stopped());
}

TEST_CASE("an empty stop string is an error", "[stop]") { CHECK_THROWS_AS(StopStrings({"ok", ""}), tenon::ValueError); }

TEST_CASE("stop strings: any way of cutting the text gives the result of the whole text", "[stop]") {
  std::mt19937 random(7);
  int stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto draw = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    const auto letters = [&](unsigned length) {
      std::string s;
      for (unsigned i = 0; i < length; ++i) s += static_cast<char>('a' + draw(3));
      return s;
    };
    std::vector<std::string> stops;
    for (unsigned i = 0, n = 1 + draw(3); i < n; ++i) stops.push_back(letters(1 + draw(6)));
    const std::string text = letters(draw(24));

    StopStrings engine(stops);
    std::string shown;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t n = std::min<std::size_t>(1 + draw(5), text.size() - at);
      shown += engine.push(text.substr(at, n));
      at += n;
      // What is held back must be exactly the longest suffix that can still become a stop string.
      if (!engine.stopped()) {
        std::size_t longest = 0;
        for (const auto& stop : stops) {
          for (std::size_t k = 1; k < stop.size() && k <= at; ++k) {
            if (text.compare(at - k, k, stop, 0, k) == 0) longest = std::max(longest, k);
          }
        }
        REQUIRE(engine.held().size() == longest);
        REQUIRE(shown + engine.held() == text.substr(0, at));
      }
    }
    shown += engine.flush();
    const Cut expected = cut_whole(text, stops);
    REQUIRE(shown == expected.text);
    REQUIRE(engine.matched() == expected.matched);
    stopped += engine.stopped() ? 1 : 0;
  }
  CHECK(stopped > 500);
  CHECK(stopped < 4000);
}

TEST_CASE("S14: stop ids outside the vocabulary are refused", "[stop]") {
  const std::vector<std::int64_t> high{3, 10};
  const std::vector<std::int64_t> negative{-1};
  CHECK_THROWS_AS(StopIds(high, 10), tenon::ValueError);
  CHECK_THROWS_AS(StopIds(negative, 10), tenon::ValueError);
  const StopIds stop(high, 11);
  CHECK(stop.contains(3));
  CHECK(stop.contains(10));
  CHECK_FALSE(stop.contains(4));
  CHECK_FALSE(stop.contains(-1));
  CHECK(StopIds().empty());
}

TEST_CASE("T13: the stop set is the union of generation config, tokenizer and model config", "[stop]") {
  const std::vector<std::int64_t> generation{151645, 151643};
  const std::vector<std::int64_t> tokenizer{151645};
  const std::vector<std::int64_t> config{151643, 7};
  CHECK(merge_stop_ids({generation, tokenizer, config}) == std::vector<std::int64_t>{7, 151643, 151645});
  CHECK(merge_stop_ids({{}, tokenizer, {}}) == std::vector<std::int64_t>{151645});
  CHECK(merge_stop_ids({}).empty());
}
