// What a program does with a model: sequences, limits, mistakes.
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <models/decoder_support.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using support::Ids;
using tenon::Context;
using tenon::Cpu;
using tenon::FormatError;
using tenon::ModelConfig;
using tenon::Qwen2;
using tenon::WeightMap;

tenon::GenerateOptions greedy(std::int64_t count = 0) {
  tenon::GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = count;
  return options;
}

struct Small {
  explicit Small(std::int64_t positions = 4096) {
    config.max_position_embeddings = positions;
    model = std::make_unique<Qwen2<float>>(ctx, config, support::random_weights(ctx, config));
    ids = support::random_ids(30, config.vocab_size);
  }
  Context<Cpu> ctx{1};
  ModelConfig config = support::small_config();
  std::unique_ptr<Qwen2<float>> model;
  Ids ids;
};

}  // namespace

TEST_CASE("decoder: several sequences use one const model from several threads", "[decoder]") {
  const Small small;
  const Qwen2<float>& model = *small.model;
  struct Task {
    Ids ids;
    tenon::Tensor<float, 2> expected;
    bool good = false;
  };
  std::vector<Task> tasks(4);
  Context<Cpu> ctx(1);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].ids =
        support::random_ids(20 + static_cast<std::int64_t>(i), small.config.vocab_size, static_cast<unsigned>(i));
    tasks[i].expected = support::read(ctx, model, tasks[i].ids, {7, 1});
  }
  std::vector<std::thread> threads;
  for (Task& task : tasks) {
    threads.emplace_back([&task, &model] {
      Context<Cpu> own(1);
      task.good = true;
      for (int round = 0; round < 3; ++round) {
        task.good = task.good && support::same_bits(support::read(own, model, task.ids, {7, 1}), task.expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Task& task : tasks) CHECK(task.good);
}

TEST_CASE("decoder: interleaved sequences do not see each other", "[decoder]") {
  Small small;
  const Ids other = support::random_ids(30, small.config.vocab_size, 77);
  const auto expected = support::read(small.ctx, *small.model, small.ids, {1});
  const auto expected_other = support::read(small.ctx, *small.model, other, {1});
  auto a = small.model->make_cache(small.ctx, 30);
  auto b = small.model->make_cache(small.ctx, 30);
  bool same = true;
  for (std::size_t i = 0; i < 30; ++i) {
    const auto row = small.model->forward(small.ctx, a, std::span(small.ids).subspan(i, 1));
    const auto row_other = small.model->forward(small.ctx, b, std::span(other).subspan(i, 1));
    same = same && std::equal(row.data(), row.data() + row.numel(), expected.ptr(static_cast<std::int64_t>(i), 0));
    same = same && std::equal(row_other.data(), row_other.data() + row_other.numel(),
                              expected_other.ptr(static_cast<std::int64_t>(i), 0));
  }
  CHECK(same);
}

TEST_CASE("decoder: a cache that is cut back goes on as if the rest had never been read", "[decoder]") {
  Small small;
  auto cache = small.model->make_cache(small.ctx, 64);
  const auto straight = support::read(small.ctx, *small.model, small.ids, {10});
  static_cast<void>(support::read(small.ctx, *small.model, cache, std::span(small.ids).first(10), {10}));
  const Ids detour = support::random_ids(25, small.config.vocab_size, 123);
  static_cast<void>(support::read(small.ctx, *small.model, cache, detour, {10}));
  cache.truncate(10);
  const auto rest = support::read(small.ctx, *small.model, cache, std::span(small.ids).subspan(10), {10});
  CHECK(std::equal(rest.data(), rest.data() + rest.numel(), straight.ptr(10, 0)));
  CHECK(cache.length() == 30);
  CHECK_THROWS_AS(cache.truncate(31), tenon::ValueError);
  CHECK_THROWS_AS(cache.truncate(-1), tenon::ValueError);
  CHECK(cache.length() == 30);
  cache.truncate(0);
  const auto again = support::read(small.ctx, *small.model, cache, small.ids, {10});
  CHECK(support::same_bits(again, straight));
}

TEST_CASE("decoder: a sequence reuses what its prompt shares with the last one", "[decoder]") {
  Small small;
  small.ctx.set_batch_invariant(true);  // so that reused and new prompts may be compared id by id
  tenon::Sequence<Qwen2<float>> sequence(small.ctx, *small.model, 200);
  const auto first = sequence.generate(small.ids, greedy(20));
  Ids edited = small.ids;
  edited[25] = (edited[25] + 1) % small.config.vocab_size;
  const auto second = sequence.generate(edited, greedy(20));
  CHECK(second.reused_tokens == 25);
  tenon::Sequence<Qwen2<float>> fresh(small.ctx, *small.model, 200);
  CHECK(fresh.generate(edited, greedy(20)).ids == second.ids);
  CHECK(sequence.generate(small.ids, greedy(20)).ids == first.ids);
}

TEST_CASE("decoder: the context length ends a text with the reason length", "[decoder]") {
  Small small(40);
  tenon::Sequence<Qwen2<float>> sequence(small.ctx, *small.model);
  CHECK(sequence.capacity() == 40);
  const auto result = sequence.generate(small.ids, greedy());
  CHECK(result.finish_reason == tenon::FinishReason::length);
  CHECK(result.ids.size() == 11);  // ten fit behind the prompt, and the last is not read any more
  CHECK(sequence.ids().size() == 40);
  const Ids full = support::random_ids(40, small.config.vocab_size);
  CHECK(sequence.generate(full, greedy()).ids.size() == 1);
  CHECK_THROWS_WITH(sequence.generate(support::random_ids(41, small.config.vocab_size), greedy()),
                    "the prompt has 41 tokens, but the context holds 40");
  CHECK_THROWS_AS(sequence.generate(Ids{}, greedy()), tenon::ValueError);
  CHECK(sequence.generate(small.ids, greedy()).ids == result.ids);  // usable as before

  CHECK_THROWS_AS(small.model->make_cache(small.ctx, 41), tenon::ValueError);
  CHECK_THROWS_AS(small.model->make_cache(small.ctx, -1), tenon::ValueError);
  CHECK_THROWS_WITH(small.model->make_cache(small.ctx, 41), ContainsSubstring("41") && ContainsSubstring("40"));
}

TEST_CASE("K4: a request that does not fit takes no room from the next one", "[decoder]") {
  Small small;
  auto cache = small.model->make_cache(small.ctx, 32);
  const auto expected = support::read(small.ctx, *small.model, small.ids, {30});
  for (int round = 0; round < 5; ++round) {
    CHECK_THROWS_WITH(small.model->forward(small.ctx, cache, support::random_ids(33, small.config.vocab_size)),
                      "forward: 33 tokens do not fit a context of 32 that holds 0");
    CHECK(cache.length() == 0);
    const auto logits = support::read(small.ctx, *small.model, cache, small.ids, {30});
    CHECK(support::same_bits(logits, expected));
    CHECK_THROWS_AS(small.model->forward(small.ctx, cache, Ids(3, 1)), tenon::ValueError);
    CHECK(cache.length() == 30);
    CHECK_NOTHROW(small.model->forward(small.ctx, cache, Ids(2, 1)));
    cache.truncate(0);
  }
}

TEST_CASE("decoder: ids outside the vocabulary change nothing", "[decoder]") {
  Small small;
  auto cache = small.model->make_cache(small.ctx, 64);
  static_cast<void>(support::read(small.ctx, *small.model, cache, std::span(small.ids).first(10), {10}));
  const auto straight = support::read(small.ctx, *small.model, small.ids, {10});
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{71}, std::int64_t{1} << 40,
                                 std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(small.model->forward(small.ctx, cache, Ids{1, 2, bad, 3}), tenon::IndexError);
    CHECK_THROWS_WITH(small.model->forward(small.ctx, cache, Ids{1, 2, bad, 3}),
                      "forward: ids[2] is " + std::to_string(bad) + ", not in [0, 71)");
    CHECK(cache.length() == 10);
  }
  const auto rest = support::read(small.ctx, *small.model, cache, std::span(small.ids).subspan(10), {10});
  CHECK(std::equal(rest.data(), rest.data() + rest.numel(), straight.ptr(10, 0)));

  tenon::Sequence<Qwen2<float>> sequence(small.ctx, *small.model, 64);
  const auto before = sequence.generate(small.ids, greedy(5));
  CHECK_THROWS_AS(sequence.generate(Ids{1, 2, 71}, greedy(5)), tenon::IndexError);
  CHECK(sequence.generate(small.ids, greedy(5)).ids == before.ids);
}

TEST_CASE("decoder: logits of another shape are refused before anything is read", "[decoder]") {
  Small small;
  auto cache = small.model->make_cache(small.ctx, 64);
  const Ids ids{1, 2, 3};
  const auto into = [&](std::int64_t rows, std::int64_t columns) {
    small.model->forward(small.ctx, cache, ids, tenon::empty<float>(small.ctx, {rows, columns}));
  };
  CHECK_THROWS_AS(into(4, 71), tenon::ShapeError);
  CHECK_THROWS_AS(into(3, 70), tenon::ShapeError);
  CHECK_THROWS_AS(small.model->forward(small.ctx, cache, Ids{}), tenon::ValueError);
  CHECK(cache.length() == 0);
  CHECK_NOTHROW(into(0, 71));  // reading without logits is allowed
  CHECK(cache.length() == 3);
}

TEST_CASE("decoder: an observer that throws leaves the cache as it was", "[decoder]") {
  Small small;
  auto cache = small.model->make_cache(small.ctx, 64);
  const auto logits = tenon::empty<float>(small.ctx, {1, 71});
  const auto throwing = [](std::int64_t index, tenon::View<const float, 2>) {
    if (index == 2) throw std::runtime_error("enough");
  };
  CHECK_THROWS_WITH(small.model->forward(small.ctx, cache, small.ids, logits, throwing), "enough");
  CHECK(cache.length() == 0);
  CHECK(support::same_bits(support::read(small.ctx, *small.model, cache, small.ids, {30}),
                           support::read(small.ctx, *small.model, small.ids, {30})));
}

TEST_CASE("decoder: prompts longer than a piece are read in pieces, with the same result", "[decoder]") {
  Small small;
  const Ids ids = support::random_ids(Qwen2<float>::max_tokens_at_once * 2 + 77, small.config.vocab_size);
  auto cache = small.model->make_cache(small.ctx);
  const auto last = small.model->forward(small.ctx, cache, ids);
  CHECK(cache.length() == static_cast<std::int64_t>(ids.size()));
  auto observed_cache = small.model->make_cache(small.ctx);
  const auto logits = tenon::empty<float>(small.ctx, {3, 71});
  std::int64_t rows = 0;
  small.model->forward(small.ctx, observed_cache, ids, logits,
                       [&](std::int64_t, tenon::View<const float, 2> hidden) { rows = hidden.size(0); });
  CHECK(rows == static_cast<std::int64_t>(ids.size()));  // an observer sees all at once
  double error = 0;
  for (std::int64_t i = 0; i < 71; ++i) error = std::max(error, std::abs(static_cast<double>(last(i) - logits(2, i))));
  CHECK(error <= 2e-4);
  // More rows of logits than a piece.
  auto third = small.model->make_cache(small.ctx);
  const auto many = tenon::empty<float>(small.ctx, {Qwen2<float>::max_tokens_at_once + 50, 71});
  small.model->forward(small.ctx, third, ids, many);
  error = 0;
  for (std::int64_t i = 0; i < 71; ++i) {
    error = std::max(error, std::abs(static_cast<double>(last(i) - many(many.size(0) - 1, i))));
  }
  CHECK(error <= 2e-4);
}

TEST_CASE("C14: an output projection of zeros is not a model", "[decoder]") {
  Context<Cpu> ctx(1);
  ModelConfig config = support::small_config();
  auto weights = support::random_weights(ctx, config);
  weights["lm_head.weight"] = tenon::zeros<float>(ctx, {71, 60});
  CHECK_THROWS_AS(Qwen2<float>(ctx, config, weights), FormatError);
  CHECK_THROWS_WITH(Qwen2<float>(ctx, config, weights), ContainsSubstring("output projection"));
  config.tie_word_embeddings = true;
  weights = support::random_weights(ctx, config);
  weights["model.embed_tokens.weight"] = tenon::zeros<float>(ctx, {71, 60});
  CHECK_THROWS_AS(Qwen2<float>(ctx, config, weights), FormatError);
}

TEST_CASE("C12: every weight is bound once; what is missing, superfluous or ill-shaped is named", "[decoder]") {
  Context<Cpu> ctx(1);
  const ModelConfig config = support::small_config();
  const WeightMap good = support::random_weights(ctx, config);
  CHECK_NOTHROW(Qwen2<float>(ctx, config, good));
  for (const auto& [name, tensor] : good) {
    CAPTURE(name);
    WeightMap missing = good;
    missing.erase(name);
    CHECK_THROWS_AS(Qwen2<float>(ctx, config, missing), FormatError);
    CHECK_THROWS_WITH(Qwen2<float>(ctx, config, missing), "weights: tensor '" + name + "' is missing");
    WeightMap shaped = good;
    std::vector<std::int64_t> sizes = tensor.sizes();
    ++sizes.back();
    shaped[name] = tenon::AnyTensor::empty(ctx, tenon::DType::float32, sizes);
    CHECK_THROWS_WITH(Qwen2<float>(ctx, config, shaped),
                      StartsWith("weights: tensor '" + name + "' has shape " + tenon::shape_string(sizes)));
    WeightMap flat = good;  // as many elements, another rank
    flat[name] = tensor.view({1, -1, 1});
    CHECK_THROWS_AS(Qwen2<float>(ctx, config, flat), FormatError);
    WeightMap typed = good;
    typed[name] = tenon::AnyTensor::empty(ctx, tenon::DType::int32, tensor.sizes());
    CHECK_THROWS_AS(Qwen2<float>(ctx, config, typed), tenon::DTypeError);
    CHECK_THROWS_WITH(Qwen2<float>(ctx, config, typed),
                      ContainsSubstring("'" + name + "'") && ContainsSubstring("int32"));
  }
  WeightMap more = good;
  more["model.layers.3.mlp.up_proj.weight"] = tenon::zeros<float>(ctx, {2, 2});
  CHECK_THROWS_WITH(Qwen2<float>(ctx, config, more), ContainsSubstring("'model.layers.3.mlp.up_proj.weight'"));
  more.erase("model.layers.3.mlp.up_proj.weight");
  more["model.layers.0.self_attn.o_proj.bias"] = tenon::zeros<float>(ctx, {60});  // Qwen2 has none: not to be dropped
  CHECK_THROWS_AS(Qwen2<float>(ctx, config, more), FormatError);
  more.erase("model.layers.0.self_attn.o_proj.bias");
  more["model.layers.0.self_attn.rotary_emb.inv_freq"] = tenon::zeros<float>(ctx, {5});  // only a table
  CHECK_NOTHROW(Qwen2<float>(ctx, config, more));
  CHECK_THROWS_AS(tenon::Llama<float>(ctx, config, good), FormatError);
  CHECK_THROWS_WITH(tenon::Llama<float>(ctx, config, good),
                    ContainsSubstring("'qwen2'") && ContainsSubstring("'llama'"));
  ModelConfig broken = config;
  broken.num_key_value_heads = 4;
  CHECK_THROWS_AS(Qwen2<float>(ctx, broken, good), FormatError);
}

TEST_CASE("E11: a model whose constructor throws lets go of its weights; one that lives holds them once", "[decoder]") {
  Context<Cpu> ctx(1);
  const ModelConfig config = support::small_config();
  const auto owned = [&](WeightMap& weights) {
    // Weights in memory of which the last use is seen.
    auto owner = std::make_shared<std::vector<float>>(static_cast<std::size_t>(config.hidden_size), 1.0f);
    weights["model.norm.weight"] = tenon::AnyTensor::from_external(
        tenon::DType::float32, {config.hidden_size}, reinterpret_cast<const std::byte*>(owner->data()), owner);
    return std::weak_ptr<std::vector<float>>(owner);
  };
  WeightMap weights = support::random_weights(ctx, config);
  auto watch = owned(weights);
  weights["zzz"] = tenon::zeros<float>(ctx, {1});  // found to be superfluous at the very end
  CHECK_THROWS_AS(Qwen2<float>(ctx, config, std::move(weights)), FormatError);
  weights = {};
  CHECK(watch.expired());

  weights = support::random_weights(ctx, config);
  watch = owned(weights);
  {
    const Qwen2<float> model(ctx, config, std::move(weights));
    weights = {};
    CHECK(watch.use_count() == 1);  // shared with the caller's memory, not copied
    CHECK(support::read(ctx, model, Ids{1, 2, 3}).numel() == 3 * 71);
  }
  CHECK(watch.expired());
}

TEST_CASE("N8: numbers that are none are reported, not sampled, and the sequence stays usable", "[decoder]") {
  Context<Cpu> ctx(1);
  const ModelConfig config = support::small_config();
  WeightMap weights = support::random_weights(ctx, config);
  const auto table = weights.at("model.embed_tokens.weight").as<float, 2>();
  table(7, 3) = std::numeric_limits<float>::quiet_NaN();
  const Qwen2<float> model(ctx, config, weights);
  tenon::Sequence<Qwen2<float>> sequence(ctx, model, 64);
  CHECK_THROWS_AS(sequence.generate(Ids{1, 7, 2}, greedy(3)), tenon::NumericError);
  const auto good = sequence.generate(Ids{1, 6, 2}, greedy(1));
  CHECK(good.ids.size() == 1);
}

TEST_CASE("decoder: weights of any float type serve any type of computation", "[decoder]") {
  Context<Cpu> ctx(1);
  const ModelConfig config = support::small_config();
  const WeightMap wide = support::random_weights(ctx, config);
  const Ids ids = support::random_ids(12, config.vocab_size);
  for (const tenon::DType kept :
       {tenon::DType::float32, tenon::DType::float64, tenon::DType::float16, tenon::DType::bfloat16}) {
    CAPTURE(tenon::dtype_name(kept));
    WeightMap converted;
    WeightMap back;
    for (const auto& [name, tensor] : wide) {
      converted[name] = tensor.cast(ctx, kept);
      back[name] = converted[name].cast(ctx, tenon::DType::float32);
    }
    const auto exact = support::read(ctx, Qwen2<float>(ctx, config, back), ids);
    const auto read_as_kept = support::read(ctx, Qwen2<float>(ctx, config, converted), ids);
    CHECK(support::difference<float>(tenon::View<const float, 2>(read_as_kept), exact).largest <= 2e-4);
    const auto brain = support::read(ctx, Qwen2<tenon::bfloat16>(ctx, config, converted), ids);
    const auto half = support::read(ctx, Qwen2<tenon::float16>(ctx, config, converted), ids);
    CHECK(support::difference<float>(tenon::View<const float, 2>(brain), exact).rms < 0.2);
    CHECK(support::difference<float>(tenon::View<const float, 2>(half), exact).rms < 0.03);
  }
}

TEST_CASE("decoder: bytes that a token reads", "[decoder]") {
  Context<Cpu> ctx(1);
  ModelConfig config = support::small_config();
  const std::int64_t layer = 60 * 60 * 2 + 60 * 20 * 2 + 3 * 60 * 93;
  const Qwen2<float> wide(ctx, config, support::random_weights(ctx, config));
  CHECK(wide.bytes_per_token() == 4 * (3 * layer + 71 * 60));
  const Qwen2<tenon::bfloat16> narrow(ctx, config, support::random_weights(ctx, config));
  CHECK(narrow.bytes_per_token() == 2 * (3 * layer + 71 * 60));
}

TEST_CASE("decoder: a cloned cache goes on by itself", "[decoder]") {
  Context<Cpu> ctx(1);
  const Qwen2<float> model = tenon::load_model<Qwen2<float>>(ctx, support::golden("qwen2-tied-gqa7-f32"));
  const support::Reference reference("qwen2-tied-gqa7-f32");
  const auto ids = std::span<const std::int64_t>(reference.ids);
  auto first = model.make_cache(ctx, 64);
  static_cast<void>(model.forward(ctx, first, ids.first(10)));
  auto second = first.clone(ctx);
  CHECK(second.length() == 10);
  CHECK(second.capacity() == 64);
  const auto other = model.forward(ctx, second, ids.subspan(20, 3));  // writes over what `first` will need
  const auto logits = model.forward(ctx, first, ids.subspan(10, 3));
  auto fresh = model.make_cache(ctx, 64);
  static_cast<void>(model.forward(ctx, fresh, ids.first(10)));
  const auto expected = model.forward(ctx, fresh, ids.subspan(10, 3));
  CHECK(support::same_bits(logits.unsqueeze(0), expected.unsqueeze(0)));
  CHECK_FALSE(support::same_bits(other.unsqueeze(0), expected.unsqueeze(0)));
  STATIC_CHECK_FALSE(std::is_copy_constructible_v<tenon::KvCache<float, Cpu>>);
  STATIC_CHECK_FALSE(std::is_copy_constructible_v<tenon::Sequence<Qwen2<float>>>);
  STATIC_CHECK_FALSE(std::is_constructible_v<tenon::Sequence<Qwen2<float>>, Context<Cpu>&, Qwen2<float>>);
}

TEST_CASE("decoder: a cache of another model is refused", "[decoder]") {
  Context<Cpu> ctx(1);
  const Qwen2<float> model = tenon::load_model<Qwen2<float>>(ctx, support::golden("qwen2-tied-gqa7-f32"));
  const Qwen2<float> other = tenon::load_model<Qwen2<float>>(ctx, support::golden("qwen2-sharded-f16"));
  auto cache = other.make_cache(ctx, 8);
  const std::int64_t id = 1;
  CHECK_THROWS_AS(static_cast<void>(model.forward(ctx, cache, {&id, 1})), tenon::ShapeError);
  CHECK_NOTHROW(static_cast<void>(other.forward(ctx, cache, {&id, 1})));
}

TEST_CASE("K2: a full context ends the answer, and nothing is shifted", "[decoder]") {
  Context<Cpu> ctx(1);
  const Qwen2<float> model = tenon::load_model<Qwen2<float>>(ctx, support::golden("qwen2-tied-gqa7-f32"));
  const support::Reference reference("qwen2-tied-gqa7-f32");
  const auto prompt = std::span<const std::int64_t>(reference.ids).first(12);
  tenon::GenerateOptions options;
  options.sampling.greedy = true;
  tenon::Sequence<Qwen2<float>> small(ctx, model, 16);
  const auto cut = small.generate(prompt, options);
  CHECK(cut.finish_reason == tenon::FinishReason::length);
  CHECK(cut.ids.size() == 5);  // four that were read back, and the one that the last of them predicts
  CHECK(small.ids().size() == 16);
  options.max_new_tokens = 5;
  tenon::Sequence<Qwen2<float>> large(ctx, model, 64);
  CHECK(large.generate(prompt, options).ids == cut.ids);
  options.max_new_tokens = 1;
  CHECK(small.generate(prompt, options).ids.front() == cut.ids.front());  // the sequence is usable afterwards
}
