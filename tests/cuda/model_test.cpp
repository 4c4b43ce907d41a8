// The decoder on CUDA against transformers' numbers, against the CPU, and against itself: steps, graphs, sequences.
#include <tenon/cuda.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <tenon/generate/sequence.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>

#include "models/decoder_support.hpp"
#include "support/cuda.hpp"

using support::Ids;
using support::Reference;
using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::float16;
using tenon::Llama;
using tenon::Qwen2;
using tenon::Tensor;

namespace {

/// As support::read, on the device; the logits come back to the CPU.
template <class Model>
Tensor<float, 2> read(Context<Cuda>& ctx, const Model& model, std::span<const std::int64_t> ids, std::size_t piece) {
  auto cache = model.make_cache(ctx, static_cast<std::int64_t>(ids.size()));
  const auto logits = tenon::empty<float>(ctx, {static_cast<std::int64_t>(ids.size()), model.config().vocab_size});
  for (std::size_t begin = 0; begin < ids.size(); begin += piece) {
    const std::size_t count = std::min(piece, ids.size() - begin);
    model.forward(ctx, cache, ids.subspan(begin, count),
                  logits.slice(0, static_cast<std::int64_t>(begin), static_cast<std::int64_t>(begin + count)));
  }
  return logits.cpu(ctx);
}

/// The same by decode steps, which are captured from the second on.
template <class T>
Tensor<float, 2> read_by_steps(Context<Cuda>& ctx, const tenon::Decoder<T, Cuda>& model,
                               std::span<const std::int64_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  auto cache = model.make_cache(ctx, count);
  tenon::DecodeStep<T> step(ctx, model, cache);
  const auto logits = tenon::empty<float>(ctx, {count, model.config().vocab_size});
  for (std::int64_t i = 0; i < count; ++i) {
    const tenon::View<std::int64_t, 1, Cuda> id(step.id(), tenon::Sizes<1>{1});
    copy(ctx, id, tenon::View<const std::int64_t, 1>(&ids[static_cast<std::size_t>(i)], tenon::Sizes<1>{1}));
    step.set_position(ctx, i);
    step.run(ctx);
    copy(ctx, logits.slice(0, i, i + 1), step.logits());
  }
  return logits.cpu(ctx);
}

template <class Model>
tenon::GenerateResult generate(Context<Cuda>& ctx, const Model& model, const Ids& prompt, std::int64_t count,
                               const tenon::SamplingOptions& sampling) {
  tenon::Sequence<Model> sequence(ctx, model, static_cast<std::int64_t>(prompt.size()) + count);
  tenon::GenerateOptions options;
  options.sampling = sampling;
  options.max_new_tokens = count;
  return sequence.generate(prompt, options);
}

tenon::SamplingOptions greedy() {
  tenon::SamplingOptions options;
  options.greedy = true;
  return options;
}

tenon::SamplingOptions sampled(std::uint64_t seed) {
  tenon::SamplingOptions options;
  options.temperature = 0.9;
  options.top_k = 40;
  options.top_p = 0.95;
  options.repetition_penalty = 1.1;
  options.seed = seed;
  return options;
}

bool same(const tenon::GenerateResult& a, const tenon::GenerateResult& b) {
  if (a.ids != b.ids || a.log_probabilities.size() != b.log_probabilities.size()) return false;
  for (std::size_t i = 0; i < a.log_probabilities.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a.log_probabilities[i]) != std::bit_cast<std::uint32_t>(b.log_probabilities[i]))
      return false;
  }
  return true;
}

template <class Model>
void check_float32(const std::string& name) {
  const Reference reference(name);
  Context<Cuda> ctx;
  CAPTURE(name);
  const auto model = tenon::load_model<Model>(ctx, support::golden(name));
  for (const std::size_t piece : {std::size_t{1000}, std::size_t{1}, std::size_t{9}, std::size_t{5}}) {
    CAPTURE(piece);
    CHECK(support::difference(read(ctx, model, reference.ids, piece), reference.logits).largest <= 2e-4);
  }
  CHECK(support::difference(read_by_steps<float>(ctx, model, reference.ids), reference.logits).largest <= 2e-4);
  CHECK(generate(ctx, model, reference.ids, static_cast<std::int64_t>(reference.greedy.size()), greedy()).ids ==
        reference.greedy);
}

/// In a narrow type: no worse than 1.5 times on average, and twice at the worst place, what transformers loses in
/// bfloat16; an eighth of that in float16.
template <class T>
void check_narrow(const std::string& name, double share) {
  const Reference reference(name);
  Context<Cuda> ctx;
  CAPTURE(name);
  const auto model = tenon::load_model<Qwen2<T, Cuda>>(ctx, support::golden(name));
  const auto lost = support::difference<float>(reference.bfloat16_logits, reference.logits);
  for (const auto& logits : {read(ctx, model, reference.ids, 1000), read_by_steps<T>(ctx, model, reference.ids)}) {
    const auto difference = support::difference(logits, reference.logits);
    CHECK(difference.rms <= 1.5 * share * lost.rms);
    CHECK(difference.largest <= 2 * share * lost.largest);
  }
}

tenon::ModelConfig wide_config() {
  tenon::ModelConfig config = support::small_config();
  config.vocab_size = 1000;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 64;
  return config;
}

}  // namespace

TEST_CASE("cuda: qwen2 and llama in float32 equal the reference", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  for (const std::string name : {"qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16"}) {
    check_float32<Qwen2<float, Cuda>>(name);
  }
  check_float32<Llama<float, Cuda>>("llama-f32");
}

TEST_CASE("cuda: qwen2 in narrow types is as near to float32 as the reference's own", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  for (const std::string name : {"qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16"}) {
    check_narrow<bfloat16>(name, 1.0);
    check_narrow<float16>(name, 0.125);
  }
}

TEST_CASE("cuda: hidden states equal the reference, layer by layer", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  const Reference reference("qwen2-untied-bf16");
  Context<Cuda> ctx;
  const auto model = tenon::load_model<Qwen2<float, Cuda>>(ctx, support::golden("qwen2-untied-bf16"));
  auto cache = model.make_cache(ctx);
  const auto logits = tenon::empty<float>(ctx, {1, model.config().vocab_size});
  std::int64_t seen = 0;
  model.forward(ctx, cache, reference.ids, logits, [&](std::int64_t index, tenon::View<const float, 2, Cuda> hidden) {
    CAPTURE(index);
    CHECK(index == seen++);
    const auto host = tenon::detail::allocate_host_tensor<float>(hidden.sizes());
    copy(ctx, tenon::View<float, 2>(host), hidden);
    CHECK(support::difference(host, reference.hidden(index)).largest <= 2e-4);
  });
  CHECK(seen == model.config().num_hidden_layers + 1);
}

TEST_CASE("cuda: models of odd sizes, with windows and every grouping of heads, equal the CPU's", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(2);
  std::vector<tenon::ModelConfig> configs{support::small_config(), wide_config()};
  configs.push_back(wide_config());
  configs.back().num_key_value_heads = 4;
  configs.push_back(wide_config());
  configs.back().num_key_value_heads = 1;
  configs.push_back(support::small_config());
  configs.back().sliding_window = 7;
  configs.back().sliding_layers = {true, false, true};
  configs.push_back(wide_config());
  configs.back().sliding_window = 30;
  configs.back().sliding_layers = {false, true, true};
  for (std::size_t i = 0; i < configs.size(); ++i) {
    CAPTURE(i);
    const auto weights = support::random_weights(cpu, configs[i]);
    const Qwen2<float> expected(cpu, configs[i], weights);
    const Qwen2<float, Cuda> model(ctx, configs[i], weights);
    const Ids ids = support::random_ids(130, configs[i].vocab_size);
    const auto reference = support::read(cpu, expected, ids);
    const auto check = [&](const Tensor<float, 2>& logits) {
      CHECK(support::difference<float>(tenon::View<const float, 2>(logits), reference).largest <= 2e-3);
    };
    check(read(ctx, model, ids, 1000));
    check(read(ctx, model, ids, 3));
    check(read_by_steps<float>(ctx, model, ids));
  }
}

TEMPLATE_TEST_CASE("cuda: graphs and dependent launches change no bit", "[cuda][decoder]", float, float16, bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto model = tenon::load_model<Qwen2<TestType, Cuda>>(ctx, TENON_TEST_MODEL);
  const Ids prompt = support::random_ids(37, 1500);
  for (const auto& sampling : {greedy(), sampled(3)}) {
    ctx.set_graphs(true);
    ctx.set_dependent_launch(true);
    const auto expected = generate(ctx, model, prompt, 100, sampling);
    CHECK(expected.ids.size() == 100);
    for (const bool graphs : {true, false}) {
      for (const bool dependent : {true, false}) {
        CAPTURE(graphs, dependent);
        ctx.set_graphs(graphs);
        ctx.set_dependent_launch(dependent);
        CHECK(same(generate(ctx, model, prompt, 100, sampling), expected));
      }
    }
  }
}

TEST_CASE("cuda: sampling with a seed gives the CPU's ids", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(2);
  const auto model = tenon::load_model<Qwen2<float, Cuda>>(ctx, TENON_TEST_MODEL);
  const auto expected = tenon::load_model<Qwen2<float>>(cpu, TENON_TEST_MODEL);
  int equal = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const Ids prompt = support::random_ids(9, 1500, static_cast<unsigned>(seed));
    tenon::Sequence<Qwen2<float>> sequence(cpu, expected, 64);
    tenon::GenerateOptions options;
    options.sampling = sampled(seed);
    options.max_new_tokens = 40;
    const auto wanted = sequence.generate(prompt, options);
    const auto result = generate(ctx, model, prompt, 40, sampled(seed));
    equal += result.ids == wanted.ids;
    if (result.ids == wanted.ids) {
      for (std::size_t i = 0; i < result.ids.size(); ++i) {
        CHECK(std::abs(result.log_probabilities[i] - wanted.log_probabilities[i]) < 1e-3f);
      }
    }
  }
  CHECK(equal >= 19);  // a draw may fall between the two programs' roundings
}

TEST_CASE("cuda: a sequence goes on, is cut back, stops early and reuses what its prompts share", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto model = tenon::load_model<Qwen2<float, Cuda>>(ctx, TENON_TEST_MODEL);
  tenon::Sequence<Qwen2<float, Cuda>> sequence(ctx, model, 200);
  tenon::GenerateOptions options;
  options.sampling = greedy();
  options.max_new_tokens = 20;
  const Ids prompt = support::random_ids(11, 1500);
  const auto first = sequence.generate(prompt, options);
  REQUIRE(first.ids.size() == 20);

  // Stopped by the callback while the next step runs already: what follows is as if that step had never been.
  int calls = 0;
  tenon::Sequence<Qwen2<float, Cuda>> stopped(ctx, model, 200);
  const auto part = stopped.generate(prompt, options, [&](const tenon::Sample&) { return ++calls < 7; });
  CHECK(part.finish_reason == tenon::FinishReason::cancelled);
  CHECK(part.ids == Ids(first.ids.begin(), first.ids.begin() + 7));
  Ids longer = prompt;
  longer.insert(longer.end(), part.ids.begin(), part.ids.end());
  const auto rest = stopped.generate(longer, options);
  CHECK(rest.reused_tokens == static_cast<std::int64_t>(prompt.size()) + 6);
  CHECK(Ids(rest.ids.begin(), rest.ids.begin() + 13) == Ids(first.ids.begin() + 7, first.ids.end()));

  // A stop id ends it, and the same prompt again gives the same.
  options.stop_ids = tenon::StopIds(std::span(first.ids).subspan(4, 1), model.config().vocab_size);
  const auto at_stop = sequence.generate(prompt, options);
  CHECK(at_stop.finish_reason == tenon::FinishReason::stop);
  CHECK(at_stop.reused_tokens == static_cast<std::int64_t>(prompt.size()) - 1);
  CHECK(at_stop.ids.size() <= 5);

  // Up to the last place of the context.
  options = {};
  options.sampling = greedy();
  const auto full = sequence.generate(prompt, options);
  CHECK(full.finish_reason == tenon::FinishReason::length);
  CHECK(full.ids.size() == 200 - prompt.size() + 1);
  CHECK_THROWS_AS(sequence.generate(Ids{5, 99999}, options), tenon::IndexError);
  options.max_new_tokens = 20;
  CHECK(sequence.generate(prompt, options).ids == first.ids);
}

TEST_CASE("cuda: K9: what changes from step to step is read from device memory, for every length", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(2);
  const auto config = wide_config();
  const auto weights = support::random_weights(cpu, config);
  const Qwen2<bfloat16, Cuda> model(ctx, config, weights);
  const Ids ids = support::random_ids(700, config.vocab_size);
  const auto by_steps = read_by_steps<bfloat16>(ctx, model, ids);
  const auto at_once = read(ctx, model, ids, 1000);
  const auto difference = support::difference<float>(tenon::View<const float, 2>(by_steps), at_once);
  CHECK(difference.rms < 0.05);
  ctx.set_graphs(false);
  CHECK(support::same_bits(read_by_steps<bfloat16>(ctx, model, ids), by_steps));
}

TEST_CASE("cuda: K11, K12: steps allocate nothing, and sequences that come and go leave nothing", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto model = tenon::load_model<Qwen2<bfloat16, Cuda>>(ctx, TENON_TEST_MODEL);
  const Ids prompt = support::random_ids(20, 1500);
  static_cast<void>(generate(ctx, model, prompt, 50, greedy()));
  ctx.synchronize();
  const std::size_t before = tenon::Runtime<Cuda>::free_memory();
  const auto expected = generate(ctx, model, prompt, 50, greedy());
  for (int i = 0; i < 200; ++i) {
    const auto result = generate(ctx, model, prompt, 1 + i % 50, greedy());
    CHECK(std::equal(result.ids.begin(), result.ids.end(), expected.ids.begin()));
  }
  ctx.synchronize();
  const std::size_t after = tenon::Runtime<Cuda>::free_memory();
  CHECK(before - std::min(before, after) < (std::size_t{64} << 20));
}

TEST_CASE("cuda: several threads use one model, each with a context and sequence of its own", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto model = tenon::load_model<Qwen2<bfloat16, Cuda>>(ctx, TENON_TEST_MODEL);
  std::vector<tenon::GenerateResult> alone;
  for (unsigned i = 0; i < 4; ++i) {
    alone.push_back(generate(ctx, model, support::random_ids(10 + i, 1500, i), 80, sampled(i)));
  }
  std::vector<tenon::GenerateResult> together(4);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      Context<Cuda> own;
      together[i] = generate(own, model, support::random_ids(10 + i, 1500, i), 80, sampled(i));
    });
  }
  for (auto& thread : threads) thread.join();
  for (unsigned i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(same(alone[i], together[i]));
  }
}

TEST_CASE("cuda: N8: logits that are not finite are reported, and the sequence stays usable", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const auto config = wide_config();
  auto weights = support::random_weights(cpu, config);
  const auto embedding = weights.at("model.embed_tokens.weight").as<float, 2>();
  embedding(7, 3) = std::numeric_limits<float>::quiet_NaN();
  const Qwen2<float, Cuda> model(ctx, config, weights);
  tenon::Sequence<Qwen2<float, Cuda>> sequence(ctx, model, 100);
  tenon::GenerateOptions options;
  options.sampling = greedy();
  options.max_new_tokens = 5;
  CHECK_THROWS_MATCHES(sequence.generate(Ids{1, 7}, options), tenon::NumericError,
                       Catch::Matchers::Message("the logits of sampled token 0 are not finite: id 0 is NaN"));
  CHECK(!sequence.generate(Ids{1, 2}, options).ids.empty());
}

TEST_CASE("cuda: E10: a model that does not fit is refused, and a smaller one loads after it", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const auto config = wide_config();
  const auto weights = support::random_weights(cpu, config);
  {
    const Qwen2<bfloat16, Cuda> model(ctx, config, weights);
    // All that is left is taken: another model does not fit.
    std::vector<tenon::Storage<Cuda>> taken;
    for (std::size_t bytes = std::size_t{1} << 36; bytes >= (std::size_t{1} << 18); bytes /= 2) {
      try {
        while (true) taken.push_back(tenon::allocate_storage(ctx, bytes));
      } catch (const tenon::Error&) {
      }
    }
    CHECK_THROWS_AS((Qwen2<float, Cuda>(ctx, config, weights)), tenon::Error);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  const Qwen2<float, Cuda> model(ctx, config, weights);
  CHECK(generate(ctx, model, Ids{1, 2, 3}, 4, greedy()).ids.size() == 4);
}

TEST_CASE("cuda: progress of loading ends with all bytes", "[cuda][decoder]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::int64_t last = 0;
  std::int64_t total = 0;
  tenon::LoadOptions options;
  options.progress = [&](std::int64_t done, std::int64_t of) {
    CHECK(done >= last);
    last = done;
    total = of;
  };
  const auto model = tenon::load_model<Qwen2<float, Cuda>>(ctx, TENON_TEST_MODEL, options);
  CHECK(last == total);
  CHECK(total > 5'000'000);
}
