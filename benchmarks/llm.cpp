// llm: how fast a whole model reads prompts and generates, as a share of what the machine can do.
#include <cstdint>
#include <filesystem>
#include <string>

#include <CLI/CLI.hpp>

#include <tenon/io/load.hpp>

#include <common/command_line.hpp>
#include <common/program.hpp>
#include <common/signals.hpp>
#include <llm/options.hpp>
#include <llm/shapes.hpp>
#include <llm/source.hpp>

namespace {

constexpr const char* details =
    R"(What is measured, in one run, after one warm-up; every number is the median over --repeat
  prefill   reading a prompt of --prompt random ids in one pass, up to the logits of its last token
  decode    --generate tokens one by one, greedy, the choice of each included
  limits    alternating with the above, with the same threads and SIMD level: the speed of reading a buffer of 1 GiB or
            four times the last cache (whichever is larger, at most half of the free memory), and the rate of float32
            multiply-adds in registers (one counts as two operations). Reading is also measured on as many bytes as a
            token reads, again and again: a large last cache holds a part of these, for the model as for the loop
  shares    bytes that decoding reads (every weight matrix once, and keys and values) per second over the read bandwidth;
            operations of prefill per second over the multiply-add rate
  memory    most memory resident during the warm-up, before the buffer of the bandwidth loop exists, and its ratio to the
            bytes of the weights
On a GPU (--device cuda)
  decode    as tenon::Sequence generates: the captured step with the choice of each token on the device, and the host
            waiting for it
  limits    reading a buffer of 4 GiB on the device with 16-byte loads, and the rate of a product of two 8192 x 8192
            matrices in the type of the model
  memory    device memory taken since the start, by weights, cache and scratch, after the warm-up
  start     from nothing until the first prompt could be read, for --model only: starting the device, and reading and
            copying the weights; and until the first token of an answer was there
--batch N: N independent sequences on one model, decoded in turn on the same threads, one token each (on a GPU: one
answer after the other); weights are read once per token of each, so the sum of tokens per second stays that of one
sequence. It is what N users get in turn.
--shape takes random weights, which cost the same as trained ones. --write-model makes a folder of them, for --model.)";

/// What is wrong with options that do not go together; empty for nothing.
std::string conflict(const llm::Options& options, const std::filesystem::path& write_model) {
  if (options.model.empty() && options.shape.empty()) return "one of --model and --shape is needed";
  if (!write_model.empty() && options.shape.empty()) return "--write-model needs --shape";
  if (!options.graphs && !options.device.is_cuda()) return "--no-graphs is for --device cuda";
  if (!options.dependent_launch && !options.device.is_cuda()) return "--no-dependent-launch is for --device cuda";
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("llm");
  llm::Options options;
  std::string dtype = "auto";
  std::filesystem::path write_model;
  program::CommandLine app(
      "Measures how fast a model reads prompts and generates, and which share of the machine's limits that is.", "llm");
  app.footer(details);
  auto* model = app.add_option("--model", options.model, "Folder with config.json and *.safetensors")->type_name("DIR");
  app.add_option("--shape", options.shape, "Random weights in the shape of " + llm::shape_names())
      ->type_name("NAME")
      ->excludes(model);
  app.add_device(options.device);
  app.add_option("--dtype", dtype, "f32, f16, bf16 or auto (default): the type of the checkpoint; bf16 for a shape")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}).name(""));
  app.add_option("--simd", options.simd, "On the CPU: portable, avx2, avx512 or auto (default), the best that there is")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "portable", "avx2", "avx512"}).name(""));
  constexpr std::int64_t most = 1 << 20;
  const auto count = [&](const char* name, auto& value, std::int64_t largest, const char* help) {
    app.add_option(name, value, help)
        ->type_name("N")
        ->transform(program::count_within(std::int64_t{1}, largest))
        ->capture_default_str();
  };
  count("--prompt", options.plan.prompt, most, "Tokens of the prompt");
  count("--generate", options.plan.generate, most, "Tokens to generate");
  count("--batch", options.plan.batch, 1024, "Sequences on one model, decoded in turn");
  count("--repeat", options.plan.repeat, 1000, "Repetitions");
  app.add_threads(options.threads);
  std::int64_t read_buffer = 0;
  app.add_option("--read-buffer", read_buffer, "MiB that the read bandwidth is measured on; default: see below")
      ->type_name("N")
      ->transform(program::count_within(std::int64_t{1}, most));
  const auto flag = [&](const char* name, auto&& set, const char* help) {
    app.add_flag_callback(name, set, help)->disable_flag_override();
  };
  flag(
      "--no-graphs", [&] { options.graphs = false; }, "On a GPU: launch every kernel instead of captured steps");
  flag(
      "--no-dependent-launch", [&] { options.dependent_launch = false; },
      "On a GPU: start no kernel before the one before it has ended");
  app.add_option("--dump-ids", options.dump_ids, "Write the generated ids to this file, one a line")->type_name("FILE");
  app.add_option("--write-model", write_model, "Write the weights of --shape as a model folder, and measure nothing")
      ->type_name("DIR");
  flag(
      "--json", [&] { options.json = true; }, "Print everything that was measured as JSON");
  app.require([&] { return conflict(options, write_model); });
  if (const auto exit_code = app.read(argc, argv)) return *exit_code;
  options.plan.read_buffer_bytes = read_buffer << 20;

  return program::run("llm", [&] {
    tenon::ModelConfig config;
    if (options.shape.empty()) {
      config = tenon::read_model_config(options.model / "config.json");
      if (dtype == "auto") options.dtype = tenon::checkpoint_dtype(config, tenon::open_checkpoint(options.model));
    } else {
      try {
        config = llm::shape_config(options.shape);
      } catch (const tenon::ValueError& error) {
        return program::fail("llm", error.what(), 2);
      }
    }
    options.model_type = config.model_type;
    options.dtype = program::named_dtype(dtype).value_or(options.dtype);
    if (!write_model.empty()) {
      llm::write_model(options, write_model);
      return 0;
    }
#ifdef TENON_PROGRAM_CUDA
    if (options.device.is_cuda()) {
      llm::run_on_cuda(options);
      return 0;
    }
#endif
    llm::run_on_cpu(options);
    return 0;
  });
}
