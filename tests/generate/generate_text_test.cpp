#include <tenon/generate/generate_text.hpp>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <tenon/io/load.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/text/tokenizer.hpp>
#include <vector>

namespace {

using tenon::FinishReason;
using Model = tenon::Qwen2<float, tenon::Cpu>;

/// The shipped model in float32, loaded once: it does not change.
struct Shipped {
  tenon::Context<tenon::Cpu> ctx{1};
  Model model = tenon::load_model<Model>(ctx, TENON_TEST_MODEL);
  tenon::Tokenizer tokenizer = tenon::Tokenizer::from_folder(TENON_TEST_MODEL);
};

Shipped& shipped() {
  static Shipped instance;
  return instance;
}

struct Chat {
  std::vector<std::int64_t> input_ids;
  std::vector<std::int64_t> output_ids;
  std::string output;
};

/// What transformers answers, greedily and in float32.
std::vector<Chat> golden_chats() {
  std::ifstream file(TENON_TEST_DATA "/golden/tiny-qwen2/chat_greedy_f32.json");
  std::vector<Chat> chats;
  for (const auto& entry : nlohmann::json::parse(file)) {
    chats.push_back({entry["input_ids"], entry["output_ids"], entry["output"]});
  }
  return chats;
}

tenon::TextOptions greedy() {
  tenon::TextOptions options;
  options.sampling.greedy = true;
  options.stop_ids = tenon::StopIds(std::vector<std::int64_t>{1500, 1502}, 1536);
  return options;
}

/// Generates with a callback that collects, and checks that the pieces are the text.
tenon::TextResult generate(tenon::Sequence<Model>& sequence, const std::vector<std::int64_t>& prompt,
                           const tenon::TextOptions& options) {
  std::string pieces;
  auto result = tenon::generate_text(sequence, shipped().tokenizer, prompt, options, [&](std::string_view piece) {
    pieces += piece;
    return true;
  });
  CHECK(pieces == result.text);
  return result;
}

tenon::TextResult generate(const std::vector<std::int64_t>& prompt, const tenon::TextOptions& options) {
  tenon::Sequence<Model> sequence(shipped().ctx, shipped().model);
  return generate(sequence, prompt, options);
}

TEST_CASE("generate_text reproduces the greedy chats of transformers character for character", "[generate_text]") {
  const auto chats = golden_chats();
  REQUIRE(chats.size() == 12);
  tenon::Sequence<Model> sequence(shipped().ctx, shipped().model);  // one for all: the cache is cut back each time
  for (const Chat& chat : chats) {
    const auto result = generate(sequence, chat.input_ids, greedy());
    CHECK(result.text == chat.output);
    CHECK(result.ids == chat.output_ids);
    CHECK(result.finish_reason == FinishReason::stop);
    CHECK(result.stop_string.empty());
  }
}

TEST_CASE("T20: a stop string that spans tokens ends the text before it, and nothing of it leaks", "[generate_text]") {
  const Chat chat = golden_chats().at(0);
  const std::string stop = "ade to sh";  // starts and ends inside of words
  const std::size_t at = chat.output.find(stop);
  REQUIRE(at != std::string::npos);
  auto options = greedy();
  options.stop_strings = {"never to be seen", stop, "questions"};
  const auto result = generate(chat.input_ids, options);
  CHECK(result.text == chat.output.substr(0, at));
  CHECK(result.stop_string == stop);
  CHECK(result.finish_reason == FinishReason::stop);
  CHECK(result.ids.size() < chat.output_ids.size());
}

TEST_CASE("What was held back as the possible start of a stop string comes out at the end", "[generate_text]") {
  const Chat chat = golden_chats().at(1);
  REQUIRE(chat.output == "7 + 5 = 12.");
  auto options = greedy();
  options.stop_strings = {"= 12. And so on"};
  const auto result = generate(chat.input_ids, options);
  CHECK(result.text == chat.output);
  CHECK(result.stop_string.empty());
}

TEST_CASE("A stop string at the last allowed token is a stop, not a length", "[generate_text]") {
  const Chat chat = golden_chats().at(1);
  auto options = greedy();
  options.stop_strings = {"+"};
  options.max_new_tokens = 2;  // "7", " +"
  const auto result = generate(chat.input_ids, options);
  CHECK(result.text == "7 ");
  CHECK(result.finish_reason == FinishReason::stop);
}

TEST_CASE("max_new_tokens ends the text with the finish reason length", "[generate_text]") {
  const Chat chat = golden_chats().at(0);
  auto options = greedy();
  options.max_new_tokens = 5;
  const auto result = generate(chat.input_ids, options);
  CHECK(result.finish_reason == FinishReason::length);
  CHECK(result.ids == std::vector<std::int64_t>(chat.output_ids.begin(), chat.output_ids.begin() + 5));
  CHECK(result.text == shipped().tokenizer.decode(result.ids));
  CHECK(chat.output.starts_with(result.text));
}

TEST_CASE("The callback can end the text at any token, and is not called again", "[generate_text]") {
  const Chat chat = golden_chats().at(0);
  tenon::Sequence<Model> sequence(shipped().ctx, shipped().model);
  int calls = 0;
  const auto result = tenon::generate_text(sequence, shipped().tokenizer, chat.input_ids, greedy(),
                                           [&](std::string_view) { return ++calls < 4; });
  CHECK(calls == 4);
  CHECK(result.finish_reason == FinishReason::cancelled);
  CHECK(result.ids.size() == 4);
  CHECK(result.text == shipped().tokenizer.decode(result.ids));

  // The sequence goes on from there as if nothing had happened.
  const auto again = generate(sequence, chat.input_ids, greedy());
  CHECK(again.text == chat.output);
  CHECK(again.reused_tokens == static_cast<std::int64_t>(chat.input_ids.size()) - 1);
}

TEST_CASE("Control tokens are left out of the text unless asked for", "[generate_text]") {
  const Chat chat = golden_chats().at(1);
  auto options = greedy();
  options.stop_ids = {};
  options.max_new_tokens = static_cast<std::int64_t>(chat.output_ids.size());
  CHECK(generate(chat.input_ids, options).text == chat.output);
  options.stream.skip_special_tokens = false;
  CHECK(generate(chat.input_ids, options).text == chat.output + "<|im_end|>");
}

TEST_CASE("An empty stop string is refused before anything is generated", "[generate_text]") {
  tenon::Sequence<Model> sequence(shipped().ctx, shipped().model);
  auto options = greedy();
  options.stop_strings = {""};
  const std::vector<std::int64_t> prompt{1501};
  CHECK_THROWS_AS(tenon::generate_text(sequence, shipped().tokenizer, prompt, options), tenon::ValueError);
  CHECK(sequence.ids().empty());
}

TEST_CASE("C15: with vocab_limit no id comes that the tokenizer does not know", "[generate_text]") {
  auto options = greedy();
  options.sampling = {};
  options.sampling.temperature = 1000;  // nearly uniform: padded rows would come up within a few draws
  options.sampling.vocab_limit = shipped().tokenizer.vocab_size();
  options.stop_ids = {};
  options.max_new_tokens = 400;
  const auto result = generate({1501}, options);
  REQUIRE(result.ids.size() == 400);
  for (const std::int64_t id : result.ids) CHECK(id < shipped().tokenizer.vocab_size());
}

}  // namespace
