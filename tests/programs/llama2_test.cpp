// The llama2 program, run as its users run it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/text/llama2c_tokenizer.hpp>

#include <programs/cuda.hpp>
#include <programs/process.hpp>
#include <support/temporary_folder.hpp>

namespace {

using tenon_test::Finished;
namespace fs = std::filesystem;

const fs::path data = fs::path(TENON_TEST_DATA) / "llama2c";

Finished llama2(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TENON_TEST_PROGRAMS "/llama2");
  return tenon_test::run_program(arguments,
                                 {.input = {}, .output_file = {}, .environment = {}, .obey_permissions = false});
}

/// A model of the test data with its tokenizer, and more.
Finished story(const std::string& model, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {(data / model).string(), "-z", (data / "tok512.bin").string()});
  return llama2(arguments);
}

std::string golden(const std::string& name) { return tenon_test::slurp(data / "golden" / name); }

void check_refused(const Finished& finished, int exit_code, const std::string& mentioned) {
  CAPTURE(finished.errors);
  CHECK(finished.exit_code == exit_code);
  CHECK(finished.errors.starts_with("llama2: "));
  CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  CHECK(finished.errors.find(mentioned) != std::string::npos);
}

/// A tokenizer.json as Hugging Face writes it for LLaMA 2, with the pieces of a tokenizer.bin. A piece with a lower id, which
/// there has the better score, is merged first.
nlohmann::json tokenizer_json(const tenon::Llama2cTokenizer& tokenizer) {
  using nlohmann::json;
  const auto spelled = [&](std::int64_t id) {
    const std::string piece(tokenizer.piece(id));
    if (id < 3) return std::vector<std::string>{"<unk>", "<s>", "</s>"}[static_cast<std::size_t>(id)];
    std::string result;
    for (const char c : piece) result += c == ' ' ? "\u2581" : std::string(1, c);
    return result;
  };
  json vocab = json::object();
  json merges = json::array();
  for (std::int64_t id = 0; id < tokenizer.vocab_size(); ++id) vocab[spelled(id)] = id;
  for (std::int64_t id = 259; id < tokenizer.vocab_size(); ++id) {
    const std::string piece = spelled(id);
    for (std::size_t i = 1; i < piece.size(); ++i) {
      if (vocab.contains(piece.substr(0, i)) && vocab.contains(piece.substr(i))) {
        merges.push_back({piece.substr(0, i), piece.substr(i)});
      }
    }
  }
  json added = json::array();
  for (std::int64_t id = 0; id < 3; ++id) {
    added.push_back({{"id", id},
                     {"content", spelled(id)},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  json result = json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<unk>", "continuing_subword_prefix": null,
      "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true}})");
  result["added_tokens"] = added;
  result["model"]["vocab"] = vocab;
  result["model"]["merges"] = merges;
  return result;
}

}  // namespace

TEST_CASE("llama2: greedy text is llama2.c's, with the graph and the decoder, from every kind of file", "[llama2]") {
  const std::string model = GENERATE(as<std::string>{}, "stories260K.bin", "stories260K.v1.bin", "stories260K-hf-f32");
  const std::vector<std::string> way = GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--eager"});
  std::vector<std::string> arguments = {"-t", "0", "-n", "256", "-i", "Once upon a time"};
  arguments.insert(arguments.end(), way.begin(), way.end());
  const Finished finished = story(model, arguments);
  CHECK(finished.exit_code == 0);
  CHECK(finished.output == golden("run_greedy_once_n256.txt"));
  CHECK(finished.errors.starts_with("achieved tok/s: "));
}

TEST_CASE("llama2: a folder of Hugging Face is read with its own tokenizer.json", "[llama2]") {
  const std::vector<std::string> way = GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--eager"});
  const tenon_test::TemporaryFolder folder;
  fs::copy(data / "stories260K-hf-f32", folder.path(), fs::copy_options::recursive);
  const fs::path json = folder.path() / "tokenizer.json";
  const auto write = [&](const nlohmann::json& text) { std::ofstream(json) << text.dump(); };
  write(tokenizer_json(tenon::Llama2cTokenizer(data / "tok512.bin")));
  std::vector<std::string> arguments = {folder.path().string(), "-t", "0", "-n", "256", "-i", "Once upon a time"};
  arguments.insert(arguments.end(), way.begin(), way.end());
  CHECK(llama2(arguments).output == golden("run_greedy_once_n256.txt"));

  arguments[0] = (data / "stories260K.bin").string();
  arguments.insert(arguments.end(), {"-z", json.string()});
  CHECK(llama2(arguments).output == golden("run_greedy_once_n256.txt"));

  auto larger = tokenizer_json(tenon::Llama2cTokenizer(data / "tok512.bin"));
  larger["model"]["vocab"]["\u2581zebra"] = 600;
  for (const auto& [left, right] :
       {std::pair{"\u2581", "z"}, {"\u2581z", "e"}, {"\u2581ze", "b"}, {"\u2581zeb", "r"}, {"\u2581zebr", "a"}}) {
    const std::string joined = std::string(left) + right;
    if (!larger["model"]["vocab"].contains(joined)) larger["model"]["vocab"][joined] = 512 + joined.size();
    larger["model"]["merges"].insert(larger["model"]["merges"].begin(), nlohmann::json{left, right});
  }
  write(larger);
  const Finished other = llama2({folder.path().string(), "-i", "zebra"});
  check_refused(other, 1, "they do not belong together");
  CHECK(other.output.empty());

  auto changed = tokenizer_json(tenon::Llama2cTokenizer(data / "tok512.bin"));
  changed["post_processor"] = nullptr;
  write(changed);
  check_refused(llama2({folder.path().string()}), 1, "puts no special token before a text");
}

TEST_CASE("llama2: a seed gives llama2.c's own text", "[llama2]") {
  std::istringstream lines(golden("run_sampled.jsonl"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    const auto record = nlohmann::json::parse(line);
    const auto number = [&](const char* name) { return record.at(name).dump(); };
    const Finished finished =
        story("stories260K.bin", {"-t", number("temperature"), "-p", number("topp"), "-s", number("seed"), "-n",
                                  number("steps"), "-i", record.at("prompt").get<std::string>()});
    CHECK(finished.output == record.at("text").get<std::string>());
  }
  CHECK(count == 10);
}

TEST_CASE("llama2: a file of int8 gives the text of runq", "[llama2]") {
  const Finished finished = story("stories260K.v2.gs4.bin", {"-t", "0", "-n", "200"});
  CHECK(finished.exit_code == 0);
  CHECK(finished.output == golden("runq_v2gs4_greedy_empty_n200.txt"));
}

TEST_CASE("llama2: on a GPU the text is the same", "[llama2][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(tenon_test::cuda_support(story("stories260K.bin", {"-n", "1", "--device", "cuda"})));
  const std::vector<std::string> way = GENERATE(std::vector<std::string>{}, std::vector<std::string>{"--eager"});
  std::vector<std::string> arguments = {"-t", "0", "-n", "256", "-i", "Once upon a time", "--device", "cuda"};
  arguments.insert(arguments.end(), way.begin(), way.end());
  const Finished finished = story("stories260K.bin", arguments);
  CAPTURE(finished.errors);
  CHECK(finished.exit_code == 0);
  CHECK(finished.output == golden("run_greedy_once_n256.txt"));
}

TEST_CASE("llama2: wrong use is one sentence", "[llama2]") {
  check_refused(llama2({}), 2, "MODEL");
  check_refused(story("stories260K.bin", {"-t", "-1"}), 2, "-t");
  check_refused(story("stories260K.bin", {"-p", "2"}), 2, "-p");
  check_refused(story("stories260K.bin", {"-n", "many"}), 2, "-n");
  check_refused(story("stories260K.bin", {"--device", "tpu"}), 2, "tpu");
  check_refused(story("stories260K.bin", {"-s", "99999999999999999999"}), 2, "whole number of 64 bits");
  check_refused(story("stories260K.bin", {"-s", ""}), 2, "-s");
  check_refused(story("stories260K.bin", {"--eager=7"}), 2, "--eager takes no value");
  check_refused(story("stories260K.bin", {"--cudnn"}), 2, "--cudnn");
  check_refused(llama2({(data / "nothing.bin").string()}), 1, "nothing.bin");
  check_refused(llama2({(data / "tok512.bin").string()}), 1, "tok512.bin");
  check_refused(llama2({(data / "stories260K.bin").string(), "-z", "/nonexistent"}), 1, "/nonexistent");
  check_refused(llama2({(data / "stories260K.bin").string(), "-z", (data / "stories260K.bin").string()}), 1,
                "stories260K.bin");
}

TEST_CASE("llama2: a seed is decimal, and a negative one counts down from 2^64", "[llama2]") {
  const auto text = [](const char* seed) { return story("stories260K.bin", {"-n", "40", "-s", seed}).output; };
  CHECK(text("010") == text("10"));
  CHECK(text("-1") == text("18446744073709551615"));
  CHECK(text("8") != text("10"));
}
