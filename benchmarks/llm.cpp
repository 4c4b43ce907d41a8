// llm: how fast a whole model reads prompts and generates, as a share of what the machine can do.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <optional>
#include <string>
#include <type_traits>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <tenon/io/load.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/runtime/context.hpp>

#include <common/command_line.hpp>
#include <common/program.hpp>
#include <common/signals.hpp>
#include <llm/measure.hpp>
#include <llm/random_weights.hpp>
#include <llm/shapes.hpp>

namespace {

using tenon::Context;
using tenon::Cpu;
using tenon::DType;

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
--batch N: N independent sequences on one model, decoded in turn on the same threads, one token each; weights are read
once per token of each, so the sum of tokens per second stays that of one sequence. It is what N users get in turn.
--shape takes random weights, which cost the same as trained ones.)";

struct Options {
  std::filesystem::path model;
  std::string shape;
  std::string dtype = "auto";
  std::string simd = "auto";
  int threads = 0;
  bool json = false;
  llm::Plan plan;
};

std::int64_t weight_bytes(const tenon::WeightMap& weights, bool tied) {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : weights) {
    if (!tied || name != "lm_head.weight") sum += static_cast<std::int64_t>(tensor.nbytes());
  }
  return sum;
}

nlohmann::json numbers(const std::vector<double>& values) { return values; }

void print_report(const nlohmann::json& r) {
  const auto number = [&](const char* pointer) { return r.at(nlohmann::json::json_pointer(pointer)).get<double>(); };
  const auto text = [&](const char* pointer) { return r.at(nlohmann::json::json_pointer(pointer)).get<std::string>(); };
  std::printf("model     %s, %.1f million parameters, %s, weights %.3f GB, %s, %d threads\n",
              program::printable(text("/model")).c_str(), number("/parameters") * 1e-6, text("/dtype").c_str(),
              number("/memory/weight_bytes") * 1e-9, text("/simd").c_str(), r.at("threads").get<int>());
  std::printf(
      "limits    read %.2f GB/s (buffer %.2f GB; %.2f GB/s on as much as a token reads), multiply-add %.1f GFLOP/s\n",
      number("/limits/read_bytes_per_second") * 1e-9, number("/limits/buffer_bytes") * 1e-9,
      number("/limits/reread_bytes_per_second") * 1e-9, number("/limits/multiply_add_operations_per_second") * 1e-9);
  std::printf("prefill   %.1f tokens/s (%lld tokens in %.4f s), %.1f GFLOP/s, %.1f %% of the multiply-add rate\n",
              number("/prefill/tokens_per_second"), r.at("prompt").get<long long>(), number("/prefill/seconds"),
              number("/prefill/operations_per_second") * 1e-9, number("/prefill/share_of_multiply_add") * 100);
  std::printf(
      "decode    %.2f tokens/s (%.3f ms a token), %.2f GB/s, %.1f %% of the read bandwidth (%.1f %% on as much)\n",
      number("/decode/tokens_per_second"), number("/decode/seconds_per_token") * 1e3,
      number("/decode/bytes_per_second") * 1e-9, number("/decode/share_of_read_bandwidth") * 100,
      number("/decode/share_of_reread_bandwidth") * 100);
  std::printf("memory    peak %.3f GB, %.2f times the weights\n", number("/memory/peak_resident_bytes") * 1e-9,
              number("/memory/peak_over_weights"));
}

template <class Model>
void run(const Options& options) {
  using T = typename Model::value_type;
  Context<Cpu> ctx(options.threads);
  if (options.simd != "auto") {
    for (const auto level : {tenon::SimdLevel::portable, tenon::SimdLevel::avx2, tenon::SimdLevel::avx512}) {
      if (options.simd == tenon::simd_level_name(level)) ctx.set_simd_level(level);
    }
  }

  std::int64_t bytes = 0;
  const auto start = std::chrono::steady_clock::now();
  const Model model = [&] {
    tenon::ModelConfig config;
    tenon::WeightMap weights;
    if (options.shape.empty()) {
      config = tenon::read_model_config(options.model / "config.json");
      weights = tenon::read_weights(tenon::open_checkpoint(options.model), {.prefault = true, .progress = {}});
    } else {
      config = llm::shape_config(options.shape);
      weights = llm::RandomWeights(ctx, config, tenon::dtype_of<T>).take();
    }
    bytes = weight_bytes(weights, config.tie_word_embeddings);
    return Model(ctx, std::move(config), std::move(weights));
  }();
  const double load_seconds = limits::seconds_since(start);
  const llm::Plan& plan = options.plan;
  const llm::Measurement measured = llm::measure(ctx, model, plan);

  const double sequences = static_cast<double>(plan.batch);
  const double prefill_seconds = llm::median(measured.prefill_seconds);
  const double decode_seconds = llm::median(measured.decode_seconds);
  const double bandwidth = llm::median(measured.read_bandwidth);
  const double reread = llm::median(measured.reread_bandwidth);
  const double rate = llm::median(measured.multiply_add_rate);
  const double operations = llm::prefill_operations(model.config(), plan.prompt) * sequences / prefill_seconds;
  const double cache_bytes = llm::cache_bytes_per_token(model.config(), plan.prompt, plan.generate, sizeof(T));
  const double token_bytes = static_cast<double>(model.bytes_per_token()) + cache_bytes;
  const double tokens = static_cast<double>(plan.generate) * sequences;
  const double read = token_bytes * tokens / decode_seconds;

  nlohmann::json report;
  report["model"] = options.shape.empty() ? options.model.string() : options.shape;
  report["parameters"] = model.config().parameter_count();
  report["dtype"] = tenon::dtype_name(tenon::dtype_of<T>);
  report["simd"] = tenon::simd_level_name(ctx.simd_level());
  report["threads"] = ctx.threads();
  report["prompt"] = plan.prompt;
  report["generate"] = plan.generate;
  report["batch"] = plan.batch;
  report["repeat"] = plan.repeat;
  report["load_seconds"] = load_seconds;
  report["limits"] = {{"read_bytes_per_second", bandwidth},
                      {"reread_bytes_per_second", reread},
                      {"multiply_add_operations_per_second", rate},
                      {"buffer_bytes", measured.bandwidth_buffer_bytes},
                      {"all_reread_bytes_per_second", numbers(measured.reread_bandwidth)},
                      {"all_read_bytes_per_second", numbers(measured.read_bandwidth)},
                      {"all_multiply_add_operations_per_second", numbers(measured.multiply_add_rate)}};
  report["prefill"] = {{"seconds", prefill_seconds},
                       {"tokens_per_second", static_cast<double>(plan.prompt) * sequences / prefill_seconds},
                       {"operations_per_second", operations},
                       {"share_of_multiply_add", operations / rate},
                       {"all_seconds", numbers(measured.prefill_seconds)}};
  report["decode"] = {{"seconds", decode_seconds},
                      {"seconds_per_token", decode_seconds / tokens},
                      {"tokens_per_second", tokens / decode_seconds},
                      {"weight_bytes_per_token", model.bytes_per_token()},
                      {"cache_bytes_per_token", cache_bytes},
                      {"bytes_per_second", read},
                      {"share_of_read_bandwidth", read / bandwidth},
                      {"share_of_reread_bandwidth", read / reread},
                      {"all_seconds", numbers(measured.decode_seconds)}};
  report["memory"] = {
      {"weight_bytes", bytes},
      {"peak_resident_bytes", measured.peak_resident_bytes},
      {"peak_over_weights", static_cast<double>(measured.peak_resident_bytes) / static_cast<double>(bytes)}};
  if (options.json) {
    std::cout << report.dump(2) << std::endl;
  } else {
    print_report(report);
  }
}

template <class T>
void run_as(const Options& options, const std::string& model_type) {
  if (model_type == "llama") return run<tenon::Llama<T, Cpu>>(options);
  return run<tenon::Qwen2<T, Cpu>>(options);
}

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("llm");
  Options options;
  std::string device = "cpu";
  CLI::App app(
      "Measures how fast a model reads prompts and generates, and which share of the machine's limits that is.", "llm");
  app.footer(details);
  app.get_formatter()->column_width(24);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", program::version_text("llm"), "Print the version and exit");
  auto* model = app.add_option("--model", options.model, "Folder with config.json and *.safetensors")->type_name("DIR");
  app.add_option("--shape", options.shape, "Random weights in the shape of " + llm::shape_names())
      ->type_name("NAME")
      ->excludes(model);
  app.add_option("--device", device, "Where to compute: cpu (default)")->type_name("NAME");
  app.add_option("--dtype", options.dtype,
                 "f32, f16, bf16 or auto (default): the type of the checkpoint; bf16 for a shape")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}).name(""));
  app.add_option("--simd", options.simd, "portable, avx2, avx512 or auto (default): the best that there is")
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
  app.add_option("--threads", options.threads, "Threads to compute with; default: one for each physical core")
      ->type_name("N")
      ->transform(program::count_within(1, Context<Cpu>::max_threads));
  std::int64_t read_buffer = 0;
  app.add_option("--read-buffer", read_buffer, "MiB that the read bandwidth is measured on; default: see below")
      ->type_name("N")
      ->transform(program::count_within(std::int64_t{1}, most));
  app.add_flag("--json", options.json, "Print everything that was measured as JSON")->disable_flag_override();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program::run("llm", [&] { return app.exit(error); });
    return program::fail("llm", program::parse_problem(error) + " (--help lists the options)", 2);
  }
  options.plan.read_buffer_bytes = read_buffer << 20;
  if (const std::string problem = program::device_problem(device); !problem.empty()) {
    return program::fail("llm", problem, 2);
  }
  if (options.model.empty() && options.shape.empty()) {
    return program::fail("llm", "one of --model and --shape is needed (--help lists the options)", 2);
  }

  return program::run("llm", [&] {
    tenon::ModelConfig config;
    DType dtype = DType::bfloat16;
    if (options.shape.empty()) {
      config = tenon::read_model_config(options.model / "config.json");
      if (options.dtype == "auto") dtype = tenon::checkpoint_dtype(config, tenon::open_checkpoint(options.model));
    } else {
      try {
        config = llm::shape_config(options.shape);
      } catch (const tenon::ValueError& error) {
        return program::fail("llm", error.what(), 2);
      }
    }
    switch (program::named_dtype(options.dtype).value_or(dtype)) {
      case DType::bfloat16: run_as<tenon::bfloat16>(options, config.model_type); break;
      case DType::float16: run_as<tenon::float16>(options, config.model_type); break;
      default: run_as<float>(options, config.model_type);
    }
    return 0;
  });
}
