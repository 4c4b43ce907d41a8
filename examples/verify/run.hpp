// The comparison itself, for every model, element type and device. run_cpu.cpp and run_cuda.cpp instantiate it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tenon/generate/sequence.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/tensor/create.hpp>

#include "common/program.hpp"
#include "verify/compare.hpp"
#include "verify/options.hpp"
#include "verify/reference.hpp"

namespace verify {

inline std::string state_name(std::int64_t index, std::int64_t layers) {
  if (index == 0) return "embedding";
  return index == layers ? "layer " + std::to_string(index) + ", final norm" : "layer " + std::to_string(index);
}

inline void print_row(const std::string& name, const Difference& difference, bool good) {
  std::printf("%-22s %11.3g %11.3g %12.9f   %s\n", name.c_str(), difference.max_absolute, difference.max_relative,
              difference.cosine,
              !difference.finite ? "NOT FINITE"
              : good             ? "ok"
                                 : "OFF");
}

template <class T>
std::span<const T> elements(const tenon::View<const T, 1>& x) {
  return {x.data(), static_cast<std::size_t>(x.numel())};
}

/// A copy in CPU memory.
template <class T, std::size_t Rank, tenon::DeviceTag Device>
tenon::Tensor<T, Rank> on_cpu(tenon::Context<Device>& ctx, const tenon::View<const T, Rank, Device>& x) {
  tenon::Context<tenon::Cpu> host(1);
  auto result = tenon::empty<T>(host, x.sizes());
  tenon::copy(ctx, tenon::View<T, Rank>(result), x);
  return result;
}

/// Compares hidden states and logits. True if all are within their limits.
template <class Model>
bool compare_states(tenon::Context<typename Model::device_type>& ctx, const Model& model, const Reference& reference,
                    tenon::DType dtype, double tolerance, const Limit& logits_limit) {
  using T = typename Model::value_type;
  using Device = typename Model::device_type;
  const std::int64_t layers = model.config().num_hidden_layers;
  std::string first_off;
  const auto row = [&](const std::string& name, const Difference& difference, const Limit& limit) {
    const bool good = limit.holds(difference);
    print_row(name, difference, good);
    if (!good && first_off.empty()) first_off = name;
  };

  auto cache = model.make_cache(ctx, reference.input_ids.size(0));
  const tenon::Tensor<float, 2, Device> logits = tenon::empty<float>(ctx, reference.logits.sizes());
  std::printf("%-22s %11s %11s %12s\n", "state", "max abs", "max rel", "cosine");
  model.forward(ctx, cache, elements<std::int64_t>(reference.input_ids), logits,
                [&](std::int64_t index, tenon::View<const T, 2, Device> hidden) {
                  const auto found = reference.hidden.find(index);
                  if (found == reference.hidden.end()) return;
                  const auto difference = compare<T>(on_cpu(ctx, hidden), found->second);
                  row(state_name(index, layers), difference, state_limit(dtype, tolerance, index, difference));
                });
  row("logits", compare<float>(logits.cpu(ctx), reference.logits), logits_limit);
  if (!first_off.empty()) std::printf("first state that is off: %s\n", first_off.c_str());
  return first_off.empty();
}

/// Compares greedy ids; in narrow types a near tie ends the comparison without a fault.
template <class Model>
bool compare_greedy(tenon::Context<typename Model::device_type>& ctx, const Model& model, const Reference& reference,
                    double near_tie) {
  const auto prompt = elements<std::int64_t>(reference.input_ids);
  const auto expected = elements<std::int64_t>(*reference.greedy);
  const auto room = static_cast<std::int64_t>(prompt.size() + expected.size());
  tenon::Sequence<Model> sequence(ctx, model, room);
  tenon::GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = static_cast<std::int64_t>(expected.size());
  const std::vector<std::int64_t> ours = sequence.generate(prompt, options).ids;

  const auto equal = static_cast<std::size_t>(
      std::mismatch(ours.begin(), ours.end(), expected.begin(), expected.end()).first - ours.begin());
  std::printf("greedy ids: %zu of %zu equal\n", equal, expected.size());
  if (equal == expected.size()) return true;
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  text.insert(text.end(), expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(equal));
  auto cache = model.make_cache(ctx, room);
  const auto logits = model.forward(ctx, cache, text).cpu(ctx);
  const std::int64_t theirs = expected[equal];
  const double gap = static_cast<double>(logits(ours[equal])) - static_cast<double>(logits(theirs));
  const bool tie = gap <= near_tie;
  std::printf("greedy id %zu is %lld, expected %lld; their logits are %.3g apart%s\n", equal,
              static_cast<long long>(ours[equal]), static_cast<long long>(theirs), gap, tie ? ", a near tie" : "");
  return tie;
}

/// `processor` says what computes: threads and SIMD level, or a GPU.
template <class Model>
bool run(tenon::Context<typename Model::device_type>& ctx, const std::string& processor, const Options& options) {
  const Model model = tenon::load_model<Model>(ctx, options.model);
  const Reference reference = read_reference(options.reference, model.config());
  const tenon::DType dtype = tenon::dtype_of<typename Model::value_type>;
  const bool wide = dtype == tenon::DType::float32;
  const double tolerance = options.tolerance > 0 ? options.tolerance : wide ? float32_tolerance : 0.0;
  std::optional<Difference> loss;
  if (reference.bfloat16_logits) loss = compare<float>(*reference.bfloat16_logits, reference.logits);
  const Limit limit = logits_limit(dtype, tolerance, model.config().num_hidden_layers, loss ? &*loss : nullptr);

  std::printf("model      %s, %lld layers\n", program::printable(options.model.string()).c_str(),
              static_cast<long long>(model.config().num_hidden_layers));
  std::printf("reference  %s, %lld ids\n", program::printable(options.reference.string()).c_str(),
              static_cast<long long>(reference.input_ids.size(0)));
  std::printf("compute    %s, %s\n\n", std::string(tenon::dtype_name(dtype)).c_str(), processor.c_str());
  bool good = compare_states(ctx, model, reference, dtype, tolerance, limit);
  if (reference.greedy) {
    // Where only the length of the difference is bounded, a single logit is off by at most about four times its share.
    const double share = limit.relative_length * compare<float>(reference.logits, reference.logits).reference_rms;
    const double allowed = std::isinf(limit.max_absolute) ? 4 * share : limit.max_absolute;
    good = compare_greedy(ctx, model, reference, wide ? 0.0 : 2 * allowed) && good;
  }
  std::printf("%s\n", good ? "equal within the tolerance" : "NOT equal within the tolerance");
  return good;
}

template <tenon::DeviceTag Device, template <class, class> class Model>
bool run_in(tenon::Context<Device>& ctx, const std::string& processor, const Options& options) {
  switch (options.dtype) {
    case tenon::DType::bfloat16: return run<Model<tenon::bfloat16, Device>>(ctx, processor, options);
    case tenon::DType::float16: return run<Model<tenon::float16, Device>>(ctx, processor, options);
    default: return run<Model<float, Device>>(ctx, processor, options);
  }
}

template <class T, class D>
using Qwen2 = tenon::Qwen2<T, D>;
template <class T, class D>
using Llama = tenon::Llama<T, D>;

template <tenon::DeviceTag Device>
bool run_model(tenon::Context<Device>& ctx, const std::string& processor, const Options& options) {
  if (options.model_type == "qwen2") return run_in<Device, Qwen2>(ctx, processor, options);
  return run_in<Device, Llama>(ctx, processor, options);
}

}  // namespace verify
