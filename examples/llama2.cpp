// llama2: continues a text with a LLaMA 2 checkpoint; the options, and with a seed the text, are those of llama2.c's `run`.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <tenon/core/error.hpp>
#include <tenon/generate/llama2c_sampler.hpp>

#include "common/command_line.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"
#include "llama2/model.hpp"
#include "llama2/text.hpp"

namespace {

constexpr const char* description =
    R"(Continues a text with a LLaMA 2 checkpoint: a file of llama2.c (version 0, 1 or 2) or a folder of Hugging Face. The
text goes to standard output, the speed to standard error.)";

/// A seed, or a negative number, which counts down from 2^64 as it does in llama2.c.
CLI::Validator seed_number() {
  return CLI::Validator(
      [](std::string& text) -> std::string {
        std::int64_t negative = 0;
        std::uint64_t seed = 0;
        if (program::read_number(text, negative) && negative < 0) {
          seed = static_cast<std::uint64_t>(negative);
        } else if (!program::read_number(text, seed)) {
          return program::in_quotes(text) + " is not a whole number of 64 bits";
        }
        text = std::to_string(seed);
        return {};
      },
      "");
}

/// Tokens that were read, and the seconds after the first, which llama2.c does not count either.
struct Speed {
  std::int64_t tokens = 0;
  double seconds = 0.0;
};

Speed generate(llama2::Model& model, llama2::Text& text, tenon::Llama2cSampler& sampler, const std::string& prompt) {
  const std::vector<std::int64_t> ids = text.encode(prompt);
  if (const std::int64_t largest = *std::max_element(ids.begin(), ids.end()); largest >= model.vocab_size()) {
    throw tenon::FormatError("the tokenizer gives the prompt an id " + std::to_string(largest) +
                             ", and the model has " + std::to_string(model.vocab_size()) +
                             " tokens: they do not belong together");
  }
  std::int64_t id = ids.front();
  Speed speed;
  std::chrono::steady_clock::time_point start;
  for (std::int64_t position = 0; position < model.capacity(); ++position) {
    const auto logits = model.forward(id);
    const auto following = static_cast<std::size_t>(position) + 1;
    const std::int64_t next = following < ids.size() ? ids[following] : sampler.sample(logits);
    if (position > 0) {
      speed.tokens = position;
      speed.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    } else {
      start = std::chrono::steady_clock::now();
    }
    if (text.ends(next)) break;
    const std::string piece = text.next(id, next);
    std::fwrite(piece.data(), 1, piece.size(), stdout);
    std::fflush(stdout);
    id = next;
  }
  std::printf("%s\n", text.rest().c_str());
  return speed;
}

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("llama2");
  llama2::Options options;
  tenon::Llama2cSamplerOptions sampling;
  sampling.seed = 0;
  std::string prompt;
  std::filesystem::path tokenizer;
  program::CommandLine app(description, "llama2");
  app.add_option("MODEL", options.model, "File of llama2.c, or folder with config.json and *.safetensors")->required();
  app.add_option("-t", sampling.temperature, "Temperature, 0 or more; 0 takes the most probable token (1.0)")
      ->type_name("T")
      ->check(program::number_within(0, std::numeric_limits<float>::max(), "a number of at least 0"));
  app.add_option("-p", sampling.topp, "Top-p, from 0 to 1; 0 and 1 turn it off (0.9)")
      ->type_name("P")
      ->check(program::number_within(0, 1, "a number between 0 and 1"));
  app.add_option("-s", sampling.seed, "Seed; default: the time")->type_name("SEED")->transform(seed_number());
  app.add_option("-n", options.steps, "Positions; 0, or more than the model was trained on: that many (256)")
      ->type_name("N")
      ->transform(program::count_within(std::int64_t{0}, std::int64_t{1} << 30));
  app.add_option("-i", prompt, "The text to continue")->type_name("PROMPT");
  app.add_option("-z", tokenizer,
                 "Tokenizer: a tokenizer.bin of llama2.c, or a tokenizer.json; default: the\ntokenizer.json in the "
                 "folder MODEL, else ./tokenizer.bin")
      ->type_name("FILE");
  app.add_device(options.device);
  app.add_cudnn(options.cudnn, options.device);
  app.add_switch("--eager", options.eager, "Use the decoder class instead of the graph");
  app.add_threads(options.threads);
  app.require(
      [&] { return std::string(options.cudnn && options.eager ? "--cudnn is for the graph, not for --eager" : ""); });
  if (const auto exit_code = app.read(argc, argv)) return *exit_code;
  if (sampling.seed == 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    sampling.seed = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
  }

  return program::run("llama2", [&] {
    std::unique_ptr<llama2::Model> model;
#ifdef TENON_PROGRAM_CUDA
    if (options.device.is_cuda()) model = llama2::open_on_cuda(options);
#endif
    if (!model) model = llama2::open_on_cpu(options);
    const auto text = llama2::open_text(tokenizer, options.model, model->vocab_size());
    tenon::Llama2cSampler sampler(sampling);
    const Speed speed = generate(*model, *text, sampler, prompt);
    if (speed.tokens > 1) {
      std::fprintf(stderr, "achieved tok/s: %.1f\n", static_cast<double>(speed.tokens) / speed.seconds);
    }
    return 0;
  });
}
