#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <nlohmann/json.hpp>

#include <tenon/generate/llama2c_sampler.hpp>
#include <tenon/io/json.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/text/llama2c_tokenizer.hpp>

#include <support/contexts.hpp>
#include <support/temporary_folder.hpp>

#include "models/decoder_support.hpp"

namespace {

using tenon::Context;
using tenon::Cpu;
using tenon::Llama2cSampler;
using tenon::Llama2cTokenizer;
using Model = tenon::Llama<float>;

const std::filesystem::path data = std::filesystem::path(TENON_TEST_DATA) / "llama2c";
const std::filesystem::path golden = data / "golden";
constexpr double logit_tolerance = 1e-3;

/// The ids of llama2.c's `run`: BOS, the prompt, and what follows. `steps` bounds positions; BOS ends the text.
std::vector<std::int64_t> run(Context<Cpu>& ctx, const Model& model, const Llama2cTokenizer& tokenizer,
                              Llama2cSampler sampler, std::string_view prompt, std::int64_t steps) {
  std::vector<std::int64_t> ids = tokenizer.encode(prompt);
  const std::size_t prompt_size = ids.size();
  auto cache = model.make_cache(ctx, steps);
  for (std::size_t position = 0; position < static_cast<std::size_t>(steps); ++position) {
    const auto logits = model.forward(ctx, cache, std::span<const std::int64_t>(&ids[position], 1));
    if (position + 1 < prompt_size) continue;
    const std::int64_t next = sampler.sample({logits.data(), static_cast<std::size_t>(logits.numel())});
    if (next == Llama2cTokenizer::bos_id) break;
    ids.push_back(next);
  }
  return ids;
}

Model load(Context<Cpu>& ctx, const std::string& name) {
  return name.ends_with(".bin") ? tenon::load_llama2c<Model>(ctx, data / name)
                                : tenon::load_model<Model>(ctx, data / name);
}

Llama2cSampler greedy() { return Llama2cSampler({.temperature = 0.0f}); }

}  // namespace

TEST_CASE("llama2c: greedy text is what llama2.c prints, from every kind of file", "[llama2c]") {
  struct Case {
    std::string_view file;
    std::string_view prompt;
    std::int64_t steps;
  };
  const auto [file, prompt, steps] =
      GENERATE(Case{"empty_n200", "", 200}, Case{"empty_n256", "", 256}, Case{"once_n200", "Once upon a time", 200},
               Case{"once_n256", "Once upon a time", 256}, Case{"once_n512", "Once upon a time", 512});
  const std::string name = GENERATE(as<std::string>{}, "stories260K.bin", "stories260K.v1.bin", "stories260K-hf-f32");
  CAPTURE(file, name);
  Context<Cpu> ctx(1);
  const Model model = load(ctx, name);
  const Llama2cTokenizer tokenizer(data / "tok512.bin", model.config().vocab_size);
  const auto ids = run(ctx, model, tokenizer, greedy(), prompt, steps);
  CHECK(tokenizer.decode(ids) + "\n" == tenon_test::slurp(golden / ("run_greedy_" + std::string(file) + ".txt")));
  const auto record = tenon::read_json_file(golden / ("ids_greedy_" + std::string(file) + ".json"));
  auto sequence = record.at("sequence").get<support::Ids>();
  if (record.at("stopped_on_bos").get<bool>()) sequence.pop_back();  // the BOS that ended the text
  CHECK(ids == sequence);
  CHECK(tokenizer.encode(prompt) == record.at("prompt_ids").get<support::Ids>());
}

TEST_CASE("llama2c: logits are those of llama2.c", "[llama2c]") {
  const std::string name = GENERATE(as<std::string>{}, "stories260K.bin", "stories260K.v1.bin", "stories260K-hf-f32");
  const auto record = tenon::read_json_file(golden / "ids_greedy_empty_n200.json");
  auto ids = record.at("sequence").get<support::Ids>();
  REQUIRE(ids.size() >= 200);
  ids.resize(200);  // row i follows id i
  const tenon::FileMap numbers = tenon::FileMap::open(golden / "logits_greedy_empty_n200.f32");
  REQUIRE(numbers.size() == 200 * 512 * sizeof(float));
  const auto expected =
      tenon::AnyTensor::from_external(tenon::DType::float32, {200, 512}, numbers.bytes().data(), nullptr)
          .as<const float, 2>();
  support::for_each_level([&](Context<Cpu>& ctx) {
    CAPTURE(name, support::describe(ctx));
    const Model model = load(ctx, name);
    CHECK(support::difference(support::read(ctx, model, ids), expected).largest <= logit_tolerance);
    CHECK(support::difference(support::read(ctx, model, ids, {1}), expected).largest <= logit_tolerance);
  });
}

TEST_CASE("llama2c: versions 0 and 1 and the Hugging Face folder hold the same weights", "[llama2c]") {
  const auto expected = tenon::read_weights(tenon::open_checkpoint(data / "stories260K-hf-f32"));
  const std::string name = GENERATE(as<std::string>{}, "stories260K.bin", "stories260K.v1.bin");
  const tenon::Llama2cCheckpoint checkpoint(data / name);
  const tenon::WeightMap weights = tenon::read_llama2c_weights(checkpoint);
  REQUIRE(weights.size() == expected.size());
  for (const auto& [key, tensor] : expected) {
    CAPTURE(name, key);
    REQUIRE(weights.contains(key));
    const tenon::AnyTensor& actual = weights.at(key);
    CHECK(actual.sizes() == tensor.sizes());
    REQUIRE(actual.is_contiguous());
    REQUIRE(actual.nbytes() == tensor.nbytes());
    CHECK(std::equal(actual.data(), actual.data() + actual.nbytes(), tensor.data()));
  }
  tenon::ModelConfig config = tenon::read_model_config(data / "stories260K-hf-f32" / "config.json");
  CHECK(checkpoint.config() == config);
}

TEST_CASE("llama2c: dequantised int8 weights write the text of runq, which rounds activations to int8 too",
          "[llama2c]") {
  Context<Cpu> ctx(1);
  const Model model = load(ctx, "stories260K.v2.gs4.bin");
  const Llama2cTokenizer tokenizer(data / "tok512.bin", model.config().vocab_size);
  CHECK(tokenizer.decode(run(ctx, model, tokenizer, greedy(), "", 200)) + "\n" ==
        tenon_test::slurp(golden / "runq_v2gs4_greedy_empty_n200.txt"));
}

TEST_CASE("llama2c: a seed writes the text that it writes in llama2.c", "[llama2c]") {
  Context<Cpu> ctx(1);
  const Model model = load(ctx, "stories260K.bin");
  const Llama2cTokenizer tokenizer(data / "tok512.bin", model.config().vocab_size);
  std::istringstream lines(tenon_test::slurp(golden / "run_sampled.jsonl"));
  std::size_t count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    CAPTURE(line);
    const auto record = nlohmann::json::parse(line);
    const Llama2cSampler sampler({.temperature = record.at("temperature").get<float>(),
                                  .topp = record.at("topp").get<float>(),
                                  .seed = record.at("seed").get<std::uint64_t>()});
    const auto ids = run(ctx, model, tokenizer, sampler, record.at("prompt").get<std::string>(),
                         record.at("steps").get<std::int64_t>());
    CHECK(tokenizer.decode(ids) + "\n" == record.at("text").get<std::string>());
  }
  CHECK(count == 10);
}
