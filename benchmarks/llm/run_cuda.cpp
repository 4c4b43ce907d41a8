// The benchmark on a GPU, and its report.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/cuda.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>

#include <common/program.hpp>
#include <cuda_limits.hpp>
#include <llm/arithmetic.hpp>
#include <llm/report.hpp>
#include <llm/source.hpp>
#include <timing.hpp>

namespace llm {
namespace {

using tenon::Cuda;

/// One entry per repetition: seconds, and what the card could do around them.
struct Measurement {
  std::vector<double> prefill_seconds;
  std::vector<double> decode_seconds;
  std::vector<double> read_bandwidth;  ///< bytes per second
  std::vector<double> product_rate;    ///< operations per second
  std::vector<Ids> ids;                ///< generated, sequence after sequence; of the warm-up, too
  double ready_seconds = 0;            ///< making the sequences
  double first_token_seconds = 0;      ///< and then reading the first prompt, up to the choice of a token
  std::int64_t buffer_bytes = 0;
  std::int64_t product_size = 0;
  std::int64_t device_bytes = 0;  ///< taken since `free_before`, after a full warm-up, before the limits need some
};

std::int64_t free_memory(const tenon::Context<Cuda>& ctx) {
  const auto device = ctx.activate();
  return static_cast<std::int64_t>(tenon::Runtime<Cuda>::free_memory());
}

/// Runs the plan: two warm-ups, then `repeat` times the product, reading, an answer of every sequence, and both limits again.
template <class Model>
Measurement measure(tenon::Context<Cuda>& ctx, const Model& model, const Plan& plan, std::int64_t free_before) {
  using T = typename Model::value_type;
  Measurement result;
  const Ids prompt = random_prompt(plan.prompt, model.config().vocab_size);
  tenon::GenerateOptions answer;
  answer.sampling.greedy = true;
  answer.sampling.log_probabilities = false;
  answer.max_new_tokens = plan.generate + 1;  // the first one comes with the prompt, and each other one is a step

  const auto start = std::chrono::steady_clock::now();
  std::vector<tenon::Sequence<Model>> sequences;
  sequences.reserve(static_cast<std::size_t>(plan.batch));
  for (std::int64_t i = 0; i < plan.batch; ++i) sequences.emplace_back(ctx, model, plan.prompt + plan.generate);
  ctx.synchronize();
  result.ready_seconds = timing::seconds_since(start);
  tenon::GenerateOptions first = answer;
  first.max_new_tokens = 1;
  sequences.front().generate(prompt, first);
  result.first_token_seconds = timing::seconds_since(start) - result.ready_seconds;

  const auto run = [&] {
    double prefill = 0;
    double decode = 0;
    result.ids.emplace_back();
    for (auto& sequence : sequences) {
      sequence.truncate(0);
      const auto generated = sequence.generate(prompt, answer);
      prefill += generated.prompt_seconds;
      decode += generated.generate_seconds;
      result.ids.back().insert(result.ids.back().end(), generated.ids.begin(), generated.ids.end());
    }
    return std::pair(prefill, decode);
  };

  for (int i = 0; i < 2; ++i) static_cast<void>(run());  // also where one answer is too short to capture a step
  result.device_bytes = free_before - free_memory(ctx);
  limits::LargeProduct<T> product(ctx);
  limits::DeviceBandwidth bandwidth(ctx, plan.read_buffer_bytes);
  result.product_size = product.size();
  result.buffer_bytes = bandwidth.bytes();
  static_cast<void>(bandwidth.read());
  for (int i = 0; i < plan.repeat; ++i) {
    result.product_rate.push_back(product.measure());
    result.read_bandwidth.push_back(bandwidth.read());
    const auto [prefill, decode] = run();
    result.prefill_seconds.push_back(prefill);
    result.decode_seconds.push_back(decode);
    result.read_bandwidth.push_back(bandwidth.read());
    result.product_rate.push_back(product.measure());
  }
  return result;
}

void print_report(const nlohmann::json& r) {
  const auto number = [&](const char* pointer) { return number_at(r, pointer); };
  const long long size = r.at("limits").at("product_size");
  std::printf("model     %s, %.1f million parameters, %s, weights %.3f GB, %s (%s)%s%s\n",
              program::printable(text_at(r, "/model")).c_str(), number("/parameters") * 1e-6,
              text_at(r, "/dtype").c_str(), number("/memory/weight_bytes") * 1e-9, text_at(r, "/device_name").c_str(),
              text_at(r, "/device").c_str(), r.at("graphs").get<bool>() ? "" : ", no graphs",
              r.at("dependent_launch").get<bool>() ? "" : ", no dependent launch");
  std::printf("limits    read %.1f GB/s (buffer %.2f GB), product %.1f TFLOP/s (%lld x %lld x %lld, %s)\n",
              number("/limits/read_bytes_per_second") * 1e-9, number("/limits/buffer_bytes") * 1e-9,
              number("/limits/product_operations_per_second") * 1e-12, size, size, size, text_at(r, "/dtype").c_str());
  std::printf("prefill   %.1f tokens/s (%lld tokens in %.5f s), %.1f TFLOP/s, %.1f %% of the rate of the product\n",
              number("/prefill/tokens_per_second"), r.at("prompt").get<long long>(), number("/prefill/seconds"),
              number("/prefill/operations_per_second") * 1e-12, number("/prefill/share_of_product") * 100);
  std::printf("decode    %.2f tokens/s (%.4f ms a token), %.1f GB/s, %.1f %% of the read bandwidth\n",
              number("/decode/tokens_per_second"), number("/decode/seconds_per_token") * 1e3,
              number("/decode/bytes_per_second") * 1e-9, number("/decode/share_of_read_bandwidth") * 100);
  std::printf("memory    %.3f GB on the device, %.2f times the weights\n", number("/memory/device_bytes") * 1e-9,
              number("/memory/device_over_weights"));
  if (r.contains("start")) {
    std::printf(
        "start     %.3f s until the first prompt can be read (device %.3f s, weights %.3f s), first token %.3f s "
        "later\n",
        number("/start/seconds"), number("/start/device_seconds"), number("/start/weights_seconds"),
        number("/start/first_token_seconds"));
  }
  const nlohmann::json& ids = r.at("ids");
  std::printf("ids       %lld, hash %s%s\n", ids.at("count").get<long long>(), text_at(ids, "/hash").c_str(),
              ids.at("equal_in_all_repetitions").get<bool>() ? "" : ", NOT equal in all repetitions");
}

template <class Model>
void run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  tenon::Context<Cuda> ctx(options.device.ordinal);
  ctx.set_graphs(options.graphs);
  ctx.set_dependent_launch(options.dependent_launch);
  const std::int64_t free_before = free_memory(ctx);
  const double device_seconds = timing::seconds_since(start);

  std::int64_t bytes = 0;
  const auto weights_start = std::chrono::steady_clock::now();
  const Model model = [&] {
    tenon::Context<tenon::Cpu> host(options.threads);
    Source source = read_source(host, options, false);
    bytes = weight_bytes(source.weights, source.config.tie_word_embeddings);
    return Model(ctx, std::move(source.config), std::move(source.weights));
  }();
  ctx.synchronize();
  const double weights_seconds = timing::seconds_since(weights_start);
  const Measurement measured = measure(ctx, model, options.plan, free_before);

  const double rate = median(measured.product_rate);

  nlohmann::json report = common_report(options, model, measured);
  report["device"] = "cuda:" + std::to_string(ctx.ordinal());
  report["device_name"] = ctx.properties().name;
  report["compute_capability"] = ctx.properties().compute_capability;
  report["graphs"] = ctx.graphs();
  report["dependent_launch"] = ctx.dependent_launch();
  report["load_seconds"] = weights_seconds;
  if (options.shape.empty()) {
    report["start"] = {{"seconds", device_seconds + weights_seconds + measured.ready_seconds},
                       {"device_seconds", device_seconds},
                       {"weights_seconds", weights_seconds},
                       {"first_token_seconds", measured.first_token_seconds}};
  }
  report["limits"] = {{"read_bytes_per_second", median(measured.read_bandwidth)},
                      {"product_operations_per_second", rate},
                      {"product_size", measured.product_size},
                      {"buffer_bytes", measured.buffer_bytes},
                      {"all_read_bytes_per_second", measured.read_bandwidth},
                      {"all_product_operations_per_second", measured.product_rate}};
  report["prefill"]["share_of_product"] = number_at(report, "/prefill/operations_per_second") / rate;
  report["memory"] = {{"weight_bytes", bytes},
                      {"device_bytes", measured.device_bytes},
                      {"device_over_weights", static_cast<double>(measured.device_bytes) / static_cast<double>(bytes)}};
  give_out(options, report, measured, print_report);
}

template <class T>
void run_as(const Options& options) {
  if (options.model_type == "llama") return run<tenon::Llama<T, Cuda>>(options);
  return run<tenon::Qwen2<T, Cuda>>(options);
}

}  // namespace

void run_on_cuda(const Options& options) {
  switch (options.dtype) {
    case tenon::DType::bfloat16: return run_as<tenon::bfloat16>(options);
    case tenon::DType::float16: return run_as<tenon::float16>(options);
    default: return run_as<float>(options);
  }
}

}  // namespace llm
