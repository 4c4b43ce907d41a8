// The benchmark on the CPU, and its report.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/runtime/context.hpp>

#include <common/program.hpp>
#include <llm/measure.hpp>
#include <llm/report.hpp>
#include <llm/source.hpp>

namespace llm {
namespace {

void print_report(const nlohmann::json& r) {
  const auto number = [&](const char* pointer) { return number_at(r, pointer); };
  std::printf("model     %s, %.1f million parameters, %s, weights %.3f GB, %s, %d threads\n",
              program::printable(text_at(r, "/model")).c_str(), number("/parameters") * 1e-6,
              text_at(r, "/dtype").c_str(), number("/memory/weight_bytes") * 1e-9, text_at(r, "/simd").c_str(),
              r.at("threads").get<int>());
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
  tenon::Context<tenon::Cpu> ctx(options.threads);
  if (options.simd != "auto") {
    for (const auto level : {tenon::SimdLevel::portable, tenon::SimdLevel::avx2, tenon::SimdLevel::avx512}) {
      if (options.simd == tenon::simd_level_name(level)) ctx.set_simd_level(level);
    }
  }

  std::int64_t bytes = 0;
  const auto start = std::chrono::steady_clock::now();
  const Model model = [&] {
    Source source = read_source(ctx, options, true);
    bytes = weight_bytes(source.weights, source.config.tie_word_embeddings);
    return Model(ctx, std::move(source.config), std::move(source.weights));
  }();
  const double load_seconds = limits::seconds_since(start);
  const Measurement measured = measure(ctx, model, options.plan);

  const double reread = median(measured.reread_bandwidth);
  const double rate = median(measured.multiply_add_rate);

  nlohmann::json report = common_report(options, model, measured);
  report["device"] = "cpu";
  report["simd"] = tenon::simd_level_name(ctx.simd_level());
  report["threads"] = ctx.threads();
  report["load_seconds"] = load_seconds;
  report["limits"] = {{"read_bytes_per_second", median(measured.read_bandwidth)},
                      {"reread_bytes_per_second", reread},
                      {"multiply_add_operations_per_second", rate},
                      {"buffer_bytes", measured.bandwidth_buffer_bytes},
                      {"all_reread_bytes_per_second", measured.reread_bandwidth},
                      {"all_read_bytes_per_second", measured.read_bandwidth},
                      {"all_multiply_add_operations_per_second", measured.multiply_add_rate}};
  report["prefill"]["share_of_multiply_add"] = number_at(report, "/prefill/operations_per_second") / rate;
  report["decode"]["share_of_reread_bandwidth"] = number_at(report, "/decode/bytes_per_second") / reread;
  report["memory"] = {
      {"weight_bytes", bytes},
      {"peak_resident_bytes", measured.peak_resident_bytes},
      {"peak_over_weights", static_cast<double>(measured.peak_resident_bytes) / static_cast<double>(bytes)}};
  give_out(options, report, measured, print_report);
}

template <class T>
void run_as(const Options& options) {
  if (options.model_type == "llama") return run<tenon::Llama<T, tenon::Cpu>>(options);
  return run<tenon::Qwen2<T, tenon::Cpu>>(options);
}

}  // namespace

void run_on_cpu(const Options& options) {
  switch (options.dtype) {
    case tenon::DType::bfloat16: return run_as<tenon::bfloat16>(options);
    case tenon::DType::float16: return run_as<tenon::float16>(options);
    default: return run_as<float>(options);
  }
}

}  // namespace llm
