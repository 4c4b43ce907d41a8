#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/core/error.hpp>
#include <tenon/generate/llama2c_sampler.hpp>

// That a seed gives llama2.c's own text is tested with a model, in models/llama2c_test.cpp.

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::Llama2cRandom;
using tenon::Llama2cSampler;
using tenon::NumericError;
using tenon::ValueError;

constexpr float infinity = std::numeric_limits<float>::infinity();

/// Ids of `count` draws from one row.
std::vector<std::int64_t> draws(Llama2cSampler sampler, const std::vector<float>& logits, std::size_t count) {
  std::vector<std::int64_t> ids(count);
  for (auto& id : ids) id = sampler.sample(logits);
  return ids;
}

/// How often each id was drawn, as a share.
std::vector<double> shares(const std::vector<std::int64_t>& ids, std::size_t vocabulary) {
  std::vector<double> result(vocabulary, 0.0);
  for (const auto id : ids) result.at(static_cast<std::size_t>(id)) += 1.0 / static_cast<double>(ids.size());
  return result;
}

}  // namespace

TEST_CASE("llama2c sampler: random numbers are those of llama2.c", "[llama2c]") {
  // Printed by llama2.c's random_u32 and random_f32.
  struct Case {
    std::uint64_t seed;
    std::array<std::uint32_t, 5> integers;
    float after;
  };
  const Case cases[] = {
      {1ull, {1206177355u, 2882512552u, 3117485455u, 1303648416u, 241277360u}, 0.782826126f},
      {42ull, {1456360119u, 3359763283u, 3393612768u, 4054632243u, 3283045847u}, 0.835739851f},
      {2147483647ull, {3078108155u, 991093431u, 3676902183u, 826642936u, 2834818212u}, 0.779934943f},
      {18446744073709551615ull, {4180462053u, 2415166680u, 879531507u, 3310800028u, 1814914367u}, 0.865830123f}};
  for (const Case& known : cases) {
    CAPTURE(known.seed);
    Llama2cRandom random(known.seed);
    for (const std::uint32_t expected : known.integers) CHECK(random.next() == expected);
    CHECK(random.uniform() == known.after);
  }
}

TEST_CASE("llama2c sampler: temperature 0 takes the first of the largest logits, and no random number", "[llama2c]") {
  Llama2cSampler sampler({.temperature = 0.0f, .topp = 0.5f, .seed = 42});
  CHECK(sampler.sample(std::vector<float>{1, 3, 2, 3}) == 1);
  CHECK(sampler.sample(std::vector<float>{-infinity, -5}) == 1);
  CHECK(sampler.sample(std::vector<float>{-0.0f, 0.0f}) == 0);
  CHECK(sampler.sample(std::vector<float>{7}) == 0);
}

TEST_CASE("llama2c sampler: equal probabilities stay in the order of their ids", "[llama2c]") {
  // Of 8 equal tokens topp 0.6 keeps the first five, and the coin c takes number floor(5c) of them.
  const std::vector<float> logits(8, 1.0f);
  Llama2cSampler sampler({.temperature = 1.0f, .topp = 0.6f, .seed = 5});
  Llama2cRandom random(5);
  std::vector<bool> seen(8, false);
  for (int i = 0; i < 500; ++i) {
    const auto expected = static_cast<std::int64_t>(random.uniform() * 5.0f);
    CHECK(sampler.sample(logits) == expected);
    seen[static_cast<std::size_t>(expected)] = true;
  }
  CHECK(seen == std::vector<bool>{true, true, true, true, true, false, false, false});
}

TEST_CASE("llama2c sampler: without a nucleus the coin runs through the ids in order", "[llama2c]") {
  const std::vector<float> logits(4, -2.0f);
  for (const float topp : {0.0f, 1.0f}) {
    Llama2cSampler sampler({.temperature = 0.7f, .topp = topp, .seed = 9});
    Llama2cRandom random(9);
    for (int i = 0; i < 500; ++i) CHECK(sampler.sample(logits) == static_cast<std::int64_t>(random.uniform() * 4.0f));
  }
}

TEST_CASE("llama2c sampler: draws follow softmax, temperature and nucleus", "[llama2c]") {
  const std::vector<float> logits{0.5f, 2.0f, -1.0f, 1.0f, -infinity};
  constexpr std::size_t count = 40000;
  for (const float temperature : {0.5f, 1.0f, 2.0f}) {
    std::vector<double> expected;
    double sum = 0.0;
    for (const float x : logits) {
      expected.push_back(std::exp(static_cast<double>(x) / static_cast<double>(temperature)));
      sum += expected.back();
    }
    for (double& x : expected) x /= sum;
    const auto all =
        shares(draws(Llama2cSampler({.temperature = temperature, .topp = 1.0f, .seed = 3}), logits, count), 5);
    for (std::size_t i = 0; i < 5; ++i) CHECK(std::abs(all[i] - expected[i]) < 0.01);
    CHECK(all[4] == 0.0);
    // The nucleus of 0.6 at temperature 1: ids 1 (0.62) alone; at 2 ids 1 and 3.
    const auto nucleus =
        shares(draws(Llama2cSampler({.temperature = temperature, .topp = 0.6f, .seed = 3}), logits, count), 5);
    if (temperature < 2.0f) {
      CHECK(nucleus[1] > 0.999);
    } else {
      CHECK(std::abs(nucleus[1] - expected[1] / (expected[1] + expected[3])) < 0.01);
      CHECK(nucleus[0] + nucleus[2] + nucleus[4] == 0.0);
    }
  }
}

TEST_CASE("llama2c sampler: rows that leave llama2.c no candidate", "[llama2c]") {
  // topp below 1 / n: every one of the equal probabilities is under the cutoff (1 - topp) / (n - 1).
  Llama2cSampler flat({.temperature = 1.0f, .topp = 0.001f, .seed = 1});
  CHECK(flat.sample(std::vector<float>(10, 0.0f)) == 0);
  CHECK(flat.sample(std::vector<float>{4.0f}) == 0);
}

TEST_CASE("llama2c sampler: unusable options and logits throw and change nothing", "[llama2c]") {
  CHECK_THROWS_AS(Llama2cRandom(0), ValueError);
  CHECK_THROWS_AS(Llama2cSampler({.seed = 0}), ValueError);
  for (const float bad : {-0.5f, infinity, std::nanf("")}) {
    CHECK_THROWS_WITH(Llama2cSampler({.temperature = bad}), ContainsSubstring("temperature"));
  }
  for (const float bad : {-0.1f, 1.1f, infinity, std::nanf("")}) {
    CHECK_THROWS_WITH(Llama2cSampler({.topp = bad}), ContainsSubstring("topp"));
  }
  const std::vector<float> sound{0.1f, 0.2f, 0.3f, 0.15f, 0.25f, 0.05f};
  Llama2cSampler sampler({.temperature = 1.0f, .topp = 0.9f, .seed = 11});
  const auto expected = draws(sampler, sound, 50);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK_THROWS_AS(sampler.sample({}), tenon::ShapeError);
    CHECK_THROWS_WITH(sampler.sample(std::vector<float>{0, std::nanf(""), 1}), ContainsSubstring("logit 1"));
    CHECK_THROWS_AS(sampler.sample(std::vector<float>{0, infinity}), NumericError);
    CHECK_THROWS_AS(sampler.sample(std::vector<float>{-infinity, -infinity}), NumericError);
    CHECK(sampler.sample(sound) == expected[i]);
  }
  Llama2cSampler tiny({.temperature = 1e-38f});
  CHECK_THROWS_WITH(tiny.sample(std::vector<float>{1.0f, 20.0f}), ContainsSubstring("divided by temperature"));
}
