#include <tenon/text/text_stream.hpp>

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

using tenon::TextStream;
using tenon::Tokenizer;
using Ids = std::vector<std::int64_t>;

namespace {

const Tokenizer& tokenizer_of(const std::string& name) {
  static const Tokenizer qwen = Tokenizer::from_folder(std::filesystem::path(TENON_TEST_TOKENIZERS) / "qwen2.5");
  static const Tokenizer llama = Tokenizer::from_folder(std::filesystem::path(TENON_TEST_TOKENIZERS) / "llama2");
  static const Tokenizer tiny = Tokenizer::from_folder(TENON_TEST_MODEL);
  return name == "qwen2.5" ? qwen : name == "llama2" ? llama : tiny;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids, tenon::TextStreamOptions options = {}) {
  TextStream stream(tokenizer, options);
  std::string text;
  for (const auto id : ids) {
    const std::string piece = stream.push(id);
    REQUIRE(tenon::is_valid_utf8(piece));
    REQUIRE(stream.held().size() <= 3);
    text += piece;
  }
  return text + stream.flush();
}

}  // namespace

TEST_CASE("T15: characters that span tokens appear whole when they are complete", "[text_stream]") {
  TextStream stream(tokenizer_of("qwen2.5"));
  std::vector<std::string> pieces;
  for (const std::int64_t id : {55336, 76952, 122, 23836, 99491, 105266}) pieces.push_back(stream.push(id));
  CHECK(pieces == std::vector<std::string>{"Swift", " ", "社", "区", "非常", "活跃"});
  CHECK(stream.flush() == "");
}

TEST_CASE("T16: an unfinished character turns into U+FFFD only when the next byte makes it impossible",
          "[text_stream]") {
  const Tokenizer& qwen = tokenizer_of("qwen2.5");
  const std::int64_t half = 76952;  // a space and the first two bytes of "社"
  REQUIRE(qwen.token_bytes(half) == " \xE7\xA4");
  const auto x = qwen.encode(" x", {.parse_special = false, .add_special_tokens = false});
  REQUIRE(x.size() == 1);
  TextStream stream(qwen);
  CHECK(stream.push(half) == " ");
  CHECK(stream.held() == "\xE7\xA4");
  CHECK(stream.push(x[0]) == "\xEF\xBF\xBD x");
  CHECK(stream.held().empty());
  CHECK(stream.push(half) == " ");
  CHECK(stream.flush() == "\xEF\xBF\xBD");
  CHECK(stream.flush() == "");
}

TEST_CASE("T18: Korean and emoji stream without loss, token by token", "[text_stream]") {
  for (const char* name : {"qwen2.5", "llama2", "tiny"}) {
    const Tokenizer& tokenizer = tokenizer_of(name);
    for (const std::string text :
         {"안녕하세요, 세계! 뷁쉙", "👩‍👩‍👧‍👦 family 🏳️‍🌈", "नमस्ते दुनिया", "a  b\n\n\tc"}) {
      const Ids ids = tokenizer.encode(text, {.parse_special = false, .add_special_tokens = false});
      INFO(name << ": " << text);
      CHECK(streamed(tokenizer, ids) == text);
    }
  }
}

TEST_CASE("what a stream returns is the decoded whole, for random ids", "[text_stream]") {
  std::mt19937 random(16);
  for (const char* name : {"qwen2.5", "llama2", "tiny"}) {
    const Tokenizer& tokenizer = tokenizer_of(name);
    Ids fragments;  // tokens that are no text by themselves
    for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) {
      if (!tenon::is_valid_utf8(tokenizer.token_bytes(id))) fragments.push_back(id);
    }
    REQUIRE(fragments.size() > 100);
    for (int round = 0; round < 1500; ++round) {
      Ids ids;
      for (unsigned i = 0, n = static_cast<unsigned>(random() % 20); i < n; ++i) {
        const auto limit = static_cast<std::uint64_t>(tokenizer.vocab_size()) + 40;  // some ids name no token
        const auto any = static_cast<std::int64_t>(random() % limit);
        ids.push_back(random() % 3 != 0 ? fragments[random() % fragments.size()] : any);
      }
      for (const bool skip : {false, true}) {
        REQUIRE(streamed(tokenizer, ids, {.skip_special_tokens = skip}) == tokenizer.decode(ids, skip));
      }
    }
  }
}

TEST_CASE("the leading space of LLaMA 2 is dropped where a text starts, and kept where it goes on", "[text_stream]") {
  const Tokenizer& llama = tokenizer_of("llama2");
  const Ids ids = llama.encode("Once upon", {.parse_special = false, .add_special_tokens = false});
  REQUIRE(llama.token_bytes(ids[0]).front() == ' ');
  CHECK(streamed(llama, ids) == "Once upon");
  CHECK(streamed(llama, ids, {.starts_text = false}) == " Once upon");
  TextStream stream(llama);
  CHECK(stream.push(1) == "");  // BOS is skipped and does not count as the start
  CHECK(stream.push(ids[0]) == "Once");
  stream.reset();
  CHECK(stream.push(ids[0]) == "Once");
  CHECK(stream.push(ids[0]) == " Once");
}

TEST_CASE("special tokens are skipped or kept by option, and ids beyond the vocabulary give nothing", "[text_stream]") {
  const Tokenizer& qwen = tokenizer_of("qwen2.5");
  const Ids ids{151644, 9707, 151645, 151700, 200000};
  CHECK(streamed(qwen, ids) == "Hello");
  CHECK(streamed(qwen, ids, {.skip_special_tokens = false}) == "<|im_start|>Hello<|im_end|>");
  TextStream stream(qwen);
  CHECK_THROWS_AS(stream.push(-1), tenon::IndexError);
  CHECK(stream.push(9707) == "Hello");
}

TEST_CASE("the golden decodings come out of the stream", "[text_stream]") {
  std::ifstream file(std::filesystem::path(TENON_TEST_DATA) / "tokenizer/golden/qwen2.5.decode.jsonl");
  REQUIRE(file.good());
  int rows = 0;
  for (std::string line; std::getline(file, line); ++rows) {
    const auto row = nlohmann::json::parse(line);
    INFO(line);
    const Ids ids = row["ids"];
    CHECK(streamed(tokenizer_of("qwen2.5"), ids, {.skip_special_tokens = false}) == row["text"].get<std::string>());
    CHECK(streamed(tokenizer_of("qwen2.5"), ids) == row["text_skip_special"].get<std::string>());
  }
  CHECK(rows > 10);
}
