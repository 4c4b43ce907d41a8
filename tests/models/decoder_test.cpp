// The decoder against transformers' numbers, and against itself: pieces, threads, instruction sets.
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <models/decoder_support.hpp>
#include <support/contexts.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/json.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>

namespace {

using support::Reference;
using tenon::bfloat16;
using tenon::Context;
using tenon::Cpu;
using tenon::float16;
using tenon::Llama;
using tenon::Qwen2;

constexpr double logit_tolerance = 2e-4;
const std::vector<std::string> qwen2_names{"qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16"};
const std::vector<std::vector<std::size_t>> ways_to_read{{1000}, {1}, {1, 2, 3, 5, 8, 13}, {9}, {32, 1}};

template <class Model>
support::Ids greedy(Context<Cpu>& ctx, const Model& model, const Reference& reference) {
  tenon::Sequence<Model> sequence(ctx, model,
                                  static_cast<std::int64_t>(reference.ids.size() + reference.greedy.size()));
  tenon::GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = static_cast<std::int64_t>(reference.greedy.size());
  return sequence.generate(reference.ids, options).ids;
}

/// float32: every logit, whatever way the ids are read, and all greedy ids.
template <class Model>
void check_float32(const std::string& name) {
  const Reference reference(name);
  support::for_each_level([&](Context<Cpu>& ctx) {
    CAPTURE(name, support::describe(ctx));
    const auto model = tenon::load_model<Model>(ctx, support::golden(name));
    for (const auto& pieces : ways_to_read) {
      CAPTURE(pieces.front());
      CHECK(support::difference(support::read(ctx, model, reference.ids, pieces), reference.logits).largest <=
            logit_tolerance);
    }
    CHECK(greedy(ctx, model, reference) == reference.greedy);
  });
}

/// Narrow types. The reference says what computing in bfloat16 costs: logits_bf16 against logits_f32. Another program's
/// roundings fall elsewhere, so ours may cost half as much again on average and twice as much at the worst place. Two
/// bfloat16 programs differ by the sum of two such errors. float16 rounds eight times as finely.
template <class Model>
void check_narrow(const std::string& name, double scale) {
  const Reference reference(name);
  const auto loss = support::difference<float>(reference.bfloat16_logits, reference.logits);
  REQUIRE(loss.rms > 0);
  support::for_each_level([&](Context<Cpu>& ctx) {
    CAPTURE(name, support::describe(ctx));
    const auto model = tenon::load_model<Model>(ctx, support::golden(name));
    for (const auto& pieces : ways_to_read) {
      CAPTURE(pieces.front());
      const auto logits = support::read(ctx, model, reference.ids, pieces);
      const auto ours = support::difference(logits, reference.logits);
      CHECK(ours.rms <= 1.5 * scale * loss.rms);
      CHECK(ours.largest <= 2.0 * scale * loss.largest);
      CHECK(ours.rms > 0.1 * scale * loss.rms);  // or it is not computed in that type at all
      if (scale == 1.0) {
        const auto theirs = support::difference(logits, reference.bfloat16_logits);
        CHECK(theirs.rms <= 1.5 * std::sqrt(2.0) * loss.rms);
        CHECK(theirs.largest <= 3.0 * loss.largest);
      }
    }
  });
}

}  // namespace

TEST_CASE("qwen2: logits and greedy ids in float32 equal the reference", "[decoder]") {
  for (const std::string& name : qwen2_names) check_float32<Qwen2<float>>(name);
}

TEST_CASE("qwen2: logits in bfloat16 are as near to float32 as the reference's own", "[decoder]") {
  for (const std::string& name : qwen2_names) check_narrow<Qwen2<bfloat16>>(name, 1.0);
}

TEST_CASE("qwen2: logits in float16 are eight times as near", "[decoder]") {
  for (const std::string& name : qwen2_names) check_narrow<Qwen2<float16>>(name, 0x1p-3);
}

TEST_CASE("C17: llama with grouped heads equals the reference", "[decoder]") {
  check_float32<Llama<float>>("llama-f32");
  check_narrow<Llama<bfloat16>>("llama-f32", 1.0);
  check_narrow<Llama<float16>>("llama-f32", 0x1p-3);
}

TEST_CASE("C18: half-split weights give the logits that llama2.c computes from interleaved ones", "[decoder]") {
  const std::filesystem::path folder = std::filesystem::path(TENON_TEST_DATA) / "llama2c";
  const auto record = tenon::read_json_file(folder / "golden" / "ids_greedy_empty_n200.json");
  auto ids = record.at("sequence").get<support::Ids>();
  const tenon::FileMap numbers = tenon::FileMap::open(folder / "golden" / "logits_greedy_empty_n200.f32");
  const tenon::Tensor<const float, 2> expected =
      tenon::AnyTensor::from_external(tenon::DType::float32, {200, 512}, numbers.bytes().data(), nullptr)
          .as<const float, 2>();
  REQUIRE(ids.size() >= 200);
  ids.resize(200);  // row i follows id i
  support::for_each_level([&](Context<Cpu>& ctx) {
    CAPTURE(support::describe(ctx));
    const auto model = tenon::load_model<Llama<float>>(ctx, folder / "stories260K-hf-f32");
    CHECK(support::difference(support::read(ctx, model, ids), expected).largest <= logit_tolerance);
    CHECK(support::difference(support::read(ctx, model, ids, {1}), expected).largest <= logit_tolerance);
  });
}

TEST_CASE("decoder: hidden states equal the reference, layer by layer", "[decoder]") {
  const std::string name = GENERATE(as<std::string>{}, "qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16");
  const Reference reference(name);
  Context<Cpu> ctx(2);
  const auto model = tenon::load_model<Qwen2<float>>(ctx, support::golden(name));
  const std::int64_t layers = model.config().num_hidden_layers;
  auto cache = model.make_cache(ctx);
  std::vector<std::int64_t> seen;
  const auto logits = tenon::empty<float>(ctx, {1, model.config().vocab_size});
  model.forward(ctx, cache, reference.ids, logits, [&](std::int64_t index, tenon::View<const float, 2> hidden) {
    seen.push_back(index);
    CAPTURE(name, index);
    CHECK(support::difference<float>(hidden, reference.hidden(index)).largest <= logit_tolerance);
  });
  support::Ids expected(static_cast<std::size_t>(layers) + 1);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::int64_t>(i);
  CHECK(seen == expected);
  const auto last = reference.logits.slice(0, reference.logits.size(0) - 1, reference.logits.size(0));
  CHECK(support::difference<float>(tenon::View<const float, 2>(logits), last).largest <= logit_tolerance);

  // bfloat16: a layer rounds about 14 times; independent roundings add up as the square root of their number.
  const auto narrow = tenon::load_model<Qwen2<bfloat16>>(ctx, support::golden(name));
  auto narrow_cache = narrow.make_cache(ctx);
  narrow.forward(ctx, narrow_cache, reference.ids, logits,
                 [&](std::int64_t index, tenon::View<const bfloat16, 2> hidden) {
                   CAPTURE(name, index);
                   const auto state = reference.hidden(index);
                   const auto zero = tenon::zeros<float>(ctx, state.sizes());
                   const double length = support::difference<float>(tenon::View<const float, 2>(zero), state).rms;
                   CHECK(support::difference<bfloat16>(hidden, state).rms <=
                         0x1p-8 * std::sqrt(1.0 + 14.0 * static_cast<double>(index)) * length);
                 });
}

TEST_CASE("decoder: repeated runs and other numbers of threads give the same bits", "[decoder]") {
  const std::string name = "qwen2-tied-gqa7-f32";
  const Reference reference(name);
  const auto check = [&]<class Model>(std::type_identity<Model>) {
    support::for_each_level([&](Context<Cpu>& one) {
      CAPTURE(support::describe(one));
      const auto model = tenon::load_model<Model>(one, support::golden(name));
      const auto whole = support::read(one, model, reference.ids);
      const auto single = support::read(one, model, reference.ids, {1});
      CHECK(support::same_bits(support::read(one, model, reference.ids), whole));
      for (const int threads : {2, 3, 5}) {
        CAPTURE(threads);
        Context<Cpu> many(threads);
        many.set_simd_level(one.simd_level());
        CHECK(support::same_bits(support::read(many, model, reference.ids), whole));
        CHECK(support::same_bits(support::read(many, model, reference.ids, {1}), single));
      }
    });
  };
  check(std::type_identity<Qwen2<float>>{});
  check(std::type_identity<Qwen2<bfloat16>>{});
}

TEST_CASE("K5, K6, K7: batch-invariant mode gives the same bits in one piece, in several and one by one", "[decoder]") {
  Context<Cpu> setup(1);
  auto config = support::small_config();
  const auto ids = support::random_ids(300, config.vocab_size);
  const auto check = [&]<class T>(std::type_identity<T>) {
    const Qwen2<T> model(setup, config, support::random_weights(setup, config));
    support::for_each_level([&](Context<Cpu>& ctx) {
      CAPTURE(support::describe(ctx), tenon::dtype_name(tenon::dtype_of<T>));
      ctx.set_batch_invariant(true);
      const auto whole = support::read(ctx, model, ids);
      for (const std::vector<std::size_t>& pieces :
           {std::vector<std::size_t>{1}, {2, 7, 1, 64}, {299}, {100}, {8}, {9, 128}}) {
        CAPTURE(pieces.front());
        CHECK(support::same_bits(support::read(ctx, model, ids, pieces), whole));
      }
      // A prompt whose beginning is in the cache already is answered as one that is new.
      auto cache = model.make_cache(ctx, 300);
      static_cast<void>(support::read(ctx, model, cache, std::span(ids).first(250), {1000}));
      cache.truncate(190);
      const auto rest = support::read(ctx, model, cache, std::span(ids).subspan(190), {1000});
      CHECK(std::equal(rest.data(), rest.data() + rest.numel(), whole.ptr(190, 0)));
      ctx.set_batch_invariant(false);
    });
  };
  check(std::type_identity<float>{});
  check(std::type_identity<bfloat16>{});
  check(std::type_identity<float16>{});
}
