// The report: what every device has in it, and reading it back to print it for people.
#pragma once

#include <cstdint>
#include <iostream>
#include <string>

#include <nlohmann/json.hpp>

#include <tenon/core/dtype.hpp>

#include <llm/arithmetic.hpp>
#include <llm/options.hpp>

namespace llm {

inline double number_at(const nlohmann::json& report, const char* pointer) {
  return report.at(nlohmann::json::json_pointer(pointer)).get<double>();
}
inline std::string text_at(const nlohmann::json& report, const char* pointer) {
  return report.at(nlohmann::json::json_pointer(pointer)).get<std::string>();
}

/// Speeds of prefill and decode, what a token reads and its share of the read bandwidth, the ids, and what was asked for.
/// Devices add their limits, and shares of those.
template <class Model, class Measurement>
nlohmann::json common_report(const Options& options, const Model& model, const Measurement& measured) {
  using T = typename Model::value_type;
  const Plan& plan = options.plan;
  const double sequences = static_cast<double>(plan.batch);
  const double prefill_seconds = median(measured.prefill_seconds);
  const double decode_seconds = median(measured.decode_seconds);
  const double cache_bytes = cache_bytes_per_token(model.config(), plan.prompt, plan.generate, sizeof(T));
  const double tokens = static_cast<double>(plan.generate) * sequences;
  const double read = (static_cast<double>(model.bytes_per_token()) + cache_bytes) * tokens / decode_seconds;

  nlohmann::json report;
  report["model"] = options.shape.empty() ? options.model.string() : options.shape;
  report["parameters"] = model.config().parameter_count();
  report["dtype"] = tenon::dtype_name(tenon::dtype_of<T>);
  report["prompt"] = plan.prompt;
  report["generate"] = plan.generate;
  report["batch"] = plan.batch;
  report["repeat"] = plan.repeat;
  report["prefill"] = {
      {"seconds", prefill_seconds},
      {"tokens_per_second", static_cast<double>(plan.prompt) * sequences / prefill_seconds},
      {"operations_per_second", prefill_operations(model.config(), plan.prompt) * sequences / prefill_seconds},
      {"all_seconds", measured.prefill_seconds}};
  report["decode"] = {{"seconds", decode_seconds},
                      {"seconds_per_token", decode_seconds / tokens},
                      {"tokens_per_second", tokens / decode_seconds},
                      {"weight_bytes_per_token", model.bytes_per_token()},
                      {"cache_bytes_per_token", cache_bytes},
                      {"bytes_per_second", read},
                      {"share_of_read_bandwidth", read / median(measured.read_bandwidth)},
                      {"all_seconds", measured.decode_seconds}};
  report["ids"] = ids_report(measured.ids);
  return report;
}

/// Prints the report as it was asked for, and writes the ids where they were.
template <class Measurement, class Print>
void give_out(const Options& options, const nlohmann::json& report, const Measurement& measured, Print&& print) {
  if (!options.dump_ids.empty()) write_ids(options.dump_ids, measured.ids.front());
  if (options.json) {
    std::cout << report.dump(2) << std::endl;
  } else {
    print(report);
  }
}

}  // namespace llm
