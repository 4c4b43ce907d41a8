#include <tenon/generate/sampler.hpp>

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using tenon::Sample;
using tenon::Sampler;
using tenon::SamplingOptions;
using tenon::TokenProbability;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();

std::vector<float> normal_logits(std::size_t n, double spread, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> logits(n);
  for (float& x : logits) {
    double sum = -6;
    for (int i = 0; i < 12; ++i) sum += static_cast<double>(random()) / 4294967296.0;
    x = static_cast<float>(sum * spread);
  }
  return logits;
}

// The oracle: probabilities per id, written from the definitions with a full sort, in double.
std::vector<double> softmax(const std::vector<double>& z) {
  const double max = *std::max_element(z.begin(), z.end());
  std::vector<double> p(z.size());
  double sum = 0;
  for (std::size_t i = 0; i < z.size(); ++i) sum += p[i] = std::exp(z[i] - max);
  for (double& x : p) x /= sum;
  return p;
}

std::vector<double> oracle(const std::vector<float>& logits, const SamplingOptions& o,
                           const std::set<std::int64_t>& seen = {}) {
  constexpr double removed = -std::numeric_limits<double>::infinity();
  std::vector<double> z(logits.begin(), logits.end());
  if (o.vocab_limit > 0) z.resize(std::min(z.size(), static_cast<std::size_t>(o.vocab_limit)));
  for (const auto id : seen) {
    double& x = z[static_cast<std::size_t>(id)];
    x = x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty;
  }
  std::vector<std::size_t> order(z.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return z[a] > z[b]; });
  for (double& x : z) x /= o.temperature;
  if (o.top_k > 0 && static_cast<std::size_t>(o.top_k) < z.size()) {
    const double kth = z[order[static_cast<std::size_t>(o.top_k) - 1]];
    for (double& x : z) x = x < kth ? removed : x;
  }
  if (o.top_p < 1) {
    const auto p = softmax(z);
    double before = 0;
    bool first = true;
    for (const std::size_t i : order) {
      if (!first && before >= o.top_p) z[i] = removed;
      before += p[i];
      first = false;
    }
  }
  if (o.min_p > 0) {
    const auto p = softmax(z);
    const double max = *std::max_element(p.begin(), p.end());
    for (std::size_t i = 0; i < z.size(); ++i) z[i] = p[i] < o.min_p * max ? removed : z[i];
  }
  return softmax(z);
}

void check_same(const std::vector<TokenProbability>& got, const std::vector<double>& expected) {
  std::set<std::int64_t> want;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    // exp() below -87 counts as zero in single precision.
    if (expected[i] > 1e-30) want.insert(static_cast<std::int64_t>(i));
  }
  std::set<std::int64_t> have;
  double total = 0;
  for (const auto& t : got) {
    if (t.probability > 1e-30) have.insert(t.id);
    total += t.probability;
    REQUIRE(t.probability == Approx(expected[static_cast<std::size_t>(t.id)]).epsilon(1e-4).margin(1e-9));
  }
  REQUIRE(have == want);
  REQUIRE(total == Approx(1).epsilon(1e-6));
  REQUIRE(std::is_sorted(got.begin(), got.end(), [](auto& a, auto& b) { return a.probability > b.probability; }));
}

// Draws with a fixed seed and compares the counts with the probabilities: chi-square over ids expected at least 5 times.
void check_frequencies(const std::vector<float>& logits, const SamplingOptions& options, int draws) {
  const auto expected = oracle(logits, options);
  std::vector<int> count(logits.size());
  Sampler sampler(options);
  for (int i = 0; i < draws; ++i) ++count[static_cast<std::size_t>(sampler.sample(logits).id)];
  double chi = 0;
  double rest_expected = 0;
  double rest_count = 0;
  int bins = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double e = expected[i] * draws;
    if (expected[i] == 0) REQUIRE(count[i] == 0);
    if (e < 5) {
      rest_expected += e;
      rest_count += count[i];
      continue;
    }
    chi += (count[i] - e) * (count[i] - e) / e;
    ++bins;
  }
  if (rest_expected >= 5) {
    chi += (rest_count - rest_expected) * (rest_count - rest_expected) / rest_expected;
    ++bins;
  }
  REQUIRE(bins > 1);
  const double freedom = bins - 1;
  INFO("chi-square " << chi << " with " << freedom << " degrees of freedom");
  CHECK(chi < freedom + 4 * std::sqrt(2 * freedom));
}

}  // namespace

TEST_CASE("random numbers are the stated function of seed and counter", "[sampler]") {
  tenon::CounterRandom zero(0);
  CHECK(zero.next() == 0x93118A61ED9E9E14u);
  CHECK(zero.next() == 0xD94259DF0D440A18u);
  tenon::CounterRandom last(std::numeric_limits<std::uint64_t>::max());
  CHECK(last.next() == 0xE1F6BEA1F71C3BA6u);
  tenon::CounterRandom resumed(42, 2);
  CHECK(resumed.next() == 0xEB61EF540335612Cu);
  CHECK(resumed.counter() == 3);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    const double u = zero.uniform();
    REQUIRE((u >= 0 && u < 1));
    sum += u;
  }
  CHECK(sum / 10000 == Approx(0.5).margin(0.015));
}

TEST_CASE("S12: every subset of the filters gives the distribution of the definition", "[sampler]") {
  std::mt19937 random(3);
  const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
  for (unsigned subset = 0; subset < 32; ++subset) {
    for (unsigned round = 0; round < 12; ++round) {
      auto logits = normal_logits(1 + random() % 300, 2.0, 100 * subset + round);
      if (round % 3 == 1) {
        for (float& x : logits) x = std::round(x);  // many ties
      }
      if (round % 4 == 3) {
        for (std::size_t i = 0; i + 1 < logits.size(); i += 2) logits[i] = -infinity;
      }
      SamplingOptions options;
      if ((subset & 1) != 0) options.temperature = 0.2 + 2 * uniform();
      if ((subset & 2) != 0) options.top_k = 1 + static_cast<std::int64_t>(random() % 80);
      if ((subset & 4) != 0) options.top_p = uniform();
      if ((subset & 8) != 0) options.min_p = 0.3 * uniform();
      std::set<std::int64_t> seen;
      if ((subset & 16) != 0) {
        options.repetition_penalty = 0.5 + uniform();
        for (int i = 0; i < 9; ++i) seen.insert(static_cast<std::int64_t>(random() % logits.size()));
      }
      Sampler sampler(options);
      sampler.observe(std::vector<std::int64_t>(seen.begin(), seen.end()));
      INFO("subset " << subset << " round " << round << " size " << logits.size());
      check_same(sampler.distribution(logits), oracle(logits, options, seen));
    }
  }
}

TEST_CASE("drawn frequencies follow the distribution", "[sampler]") {
  const auto logits = normal_logits(60, 1.5, 11);
  check_frequencies(logits, {.seed = 1}, 20000);
  check_frequencies(logits, {.temperature = 0.6, .seed = 2}, 20000);
  check_frequencies(logits, {.temperature = 1.7, .top_k = 12, .seed = 3}, 20000);
  check_frequencies(logits, {.top_p = 0.85, .seed = 4}, 20000);
  check_frequencies(logits, {.min_p = 0.1, .seed = 5}, 20000);
  check_frequencies(logits, {.temperature = 1.2, .top_k = 30, .top_p = 0.9, .min_p = 0.05, .seed = 6}, 20000);
  check_frequencies(normal_logits(5000, 0.1, 12), {.seed = 7}, 50000);  // several blocks of the unfiltered walk
}

TEST_CASE("rows of a real vocabulary: partial selection equals a full sort", "[sampler]") {
  const auto peaked = normal_logits(151936, 2.5, 21);
  const auto flat = normal_logits(151936, 0.05, 22);
  for (const auto* logits : {&peaked, &flat}) {
    for (const SamplingOptions& options :
         {SamplingOptions{.temperature = 0.7, .top_k = 20, .top_p = 0.8}, SamplingOptions{.top_k = 60000},
          SamplingOptions{.top_p = 0.95}, SamplingOptions{.temperature = 0.5, .top_p = 0.3, .min_p = 0.02}}) {
      const auto expected = oracle(*logits, options);
      const auto got = Sampler(options).distribution(*logits);
      const auto kept = std::count_if(expected.begin(), expected.end(), [](double p) { return p > 0; });
      // A border inside a crowd of nearly equal tokens may move by the rounding of the sum.
      CHECK(std::abs(static_cast<std::int64_t>(got.size()) - static_cast<std::int64_t>(kept)) <=
            std::max<std::int64_t>(0, kept / 20000));
      for (std::size_t i = 0; i < got.size(); i += 1 + got.size() / 100) {
        CHECK(got[i].probability == Approx(expected[static_cast<std::size_t>(got[i].id)]).epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("top-k keeps ties of the k-th largest, top-p breaks ties by id and keeps at least one", "[sampler]") {
  const std::vector<float> logits{1, 3, 2, 2, 2, 0};
  CHECK(Sampler({.top_k = 2}).distribution(logits).size() == 4);
  const std::vector<float> equal(8, 0.5f);
  const auto half = Sampler({.top_p = 0.5}).distribution(equal);
  REQUIRE(half.size() == 4);
  CHECK(half.back().id == 3);
  const auto none = Sampler({.top_p = 0}).distribution(logits);
  REQUIRE(none.size() == 1);
  CHECK(none[0].id == 1);
  const auto min_p = Sampler({.min_p = 1}).distribution(logits);
  REQUIRE(min_p.size() == 1);
  CHECK(min_p[0].id == 1);
}

TEST_CASE("S1: the repetition penalty counts once for each distinct id", "[sampler]") {
  const std::vector<float> logits{2.2f, -1.0f, 0.5f, 0.0f};
  SamplingOptions options{.repetition_penalty = 1.1};
  Sampler sampler(options);
  std::vector<std::int64_t> prompt(20, 0);
  prompt.insert(prompt.end(), {1, 1, 3});
  sampler.observe(prompt);
  const auto expected = softmax({2.2 / 1.1, -1.0 * 1.1, 0.5, 0.0});
  for (const auto& t : sampler.distribution(logits)) {
    CHECK(t.probability == Approx(expected[static_cast<std::size_t>(t.id)]).epsilon(1e-5));
  }
  const std::vector<std::int64_t> negative{2, -1};
  CHECK_THROWS_AS(sampler.observe(negative), tenon::IndexError);
}

TEST_CASE("S3: the penalty sees generated tokens", "[sampler]") {
  const std::vector<float> logits{10.0f, 9.0f, 1.0f};
  Sampler sampler({.greedy = true, .repetition_penalty = 1.5});
  CHECK(sampler.sample(logits).id == 0);  // 10
  CHECK(sampler.sample(logits).id == 1);  // 9 beats 10 / 1.5
  CHECK(sampler.sample(logits).id == 0);  // 6.7 beats 6
  sampler.reset();
  CHECK(sampler.sample(logits).id == 0);
  CHECK(sampler.sample(logits).id == 1);
}

TEST_CASE("S4: top_k beyond the vocabulary, 0 and -1 are off", "[sampler]") {
  const auto logits = normal_logits(5, 1.0, 4);
  const auto expected = oracle(logits, {});
  for (const std::int64_t k : {std::int64_t{100000}, std::int64_t{5}, std::int64_t{0}, std::int64_t{-1}}) {
    check_same(Sampler({.top_k = k}).distribution(logits), expected);
    CHECK(Sampler({.top_k = k}).sample(logits).id < 5);
  }
  CHECK_THROWS_AS(Sampler({.top_k = -2}), tenon::ValueError);
}

TEST_CASE("S7: temperature 0 is the argmax, tiny ones stay finite, impossible ones are refused", "[sampler]") {
  const std::vector<float> logits{0, 100, 99};
  CHECK(Sampler({.temperature = 0}).sample(logits).id == 1);
  const std::vector<float> ties{1, 7, 7, 7};
  CHECK(Sampler({.temperature = 0}).sample(ties).id == 1);
  std::vector<float> banned(50, -100.0f);
  banned[30] = 1;
  banned[31] = 0.5f;
  for (const double temperature : {1e-4, 1e-30, 1e-300, 5e-324}) {
    Sampler sampler({.temperature = temperature});
    for (int i = 0; i < 20; ++i) {
      CHECK(sampler.sample(logits).id == 1);
      const Sample s = sampler.sample(banned);
      CHECK(s.id == 30);
      CHECK(std::isfinite(s.log_probability));
    }
  }
  for (const double bad : {-1.0, -1e-9, std::numeric_limits<double>::quiet_NaN(), HUGE_VAL, -HUGE_VAL}) {
    CHECK_THROWS_AS(Sampler({.temperature = bad}), tenon::ValueError);
  }
  CHECK(Sampler({.temperature = 1e30}).distribution(logits).size() == 3);
}

TEST_CASE("S8: greedy is a flag of its own, whatever the temperature", "[sampler]") {
  const auto logits = normal_logits(1000, 0.1, 8);
  const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
  Sampler greedy({.temperature = 5, .greedy = true, .top_p = 0.5});
  Sampler zero({.temperature = 0, .top_k = 7});
  for (int i = 0; i < 50; ++i) {
    REQUIRE(greedy.sample(logits).id == best);
    REQUIRE(zero.sample(logits).id == best);
  }
  CHECK(greedy.distribution(logits).size() == 1);
}

TEST_CASE("S10: logits that are not finite are an error and leave the sampler usable", "[sampler]") {
  const auto logits = normal_logits(100, 1.0, 9);
  Sampler disturbed({.repetition_penalty = 1.3, .seed = 5});
  Sampler calm({.repetition_penalty = 1.3, .seed = 5});
  auto with_nan = logits;
  with_nan[17] = nan_value;
  auto with_infinity = logits;
  with_infinity[99] = infinity;
  const std::vector<float> all_nan(100, nan_value);
  const std::vector<float> all_banned(100, -infinity);
  for (int i = 0; i < 20; ++i) {
    CHECK_THROWS_WITH(disturbed.sample(with_nan), ContainsSubstring("not finite") &&
                                                      ContainsSubstring("id 17 is NaN") &&
                                                      ContainsSubstring("token " + std::to_string(i)));
    CHECK_THROWS_AS(disturbed.sample(all_nan), tenon::NumericError);
    CHECK_THROWS_WITH(disturbed.sample(with_infinity), ContainsSubstring("id 99 is infinite"));
    CHECK_THROWS_WITH(disturbed.sample(all_banned), ContainsSubstring("all are minus infinity"));
    CHECK_THROWS_AS(disturbed.sample({}), tenon::ShapeError);
    REQUIRE(disturbed.sample(logits).id == calm.sample(logits).id);
  }
}

TEST_CASE("N8: overflowed logits are reported instead of sampling id 0", "[sampler]") {
  const std::vector<float> overflowed(64, nan_value);
  CHECK_THROWS_AS(Sampler({.greedy = true}).sample(overflowed), tenon::NumericError);
  CHECK_THROWS_AS(Sampler({.temperature = 0}).sample(overflowed), tenon::NumericError);
}

TEST_CASE("S11: the defaults sample; no default filter hides the temperature", "[sampler]") {
  const auto logits = normal_logits(200, 0.2, 10);
  Sampler sampler;
  std::set<std::int64_t> ids;
  for (int i = 0; i < 500; ++i) ids.insert(sampler.sample(logits).id);
  CHECK(ids.size() > 100);
  CHECK(sampler.distribution(logits).size() == 200);
  CHECK_FALSE(SamplingOptions{}.is_greedy());
}

TEST_CASE("C15: rows of the output layer beyond the tokenizer's vocabulary are never chosen", "[sampler]") {
  auto logits = normal_logits(1536, 0.5, 13);
  for (std::size_t i = 1503; i < logits.size(); ++i) logits[i] = i % 2 == 0 ? 50.0f : nan_value;
  for (SamplingOptions options : {SamplingOptions{.greedy = true}, SamplingOptions{}, SamplingOptions{.top_k = 40},
                                  SamplingOptions{.top_p = 0.9}, SamplingOptions{.min_p = 0.01}}) {
    options.vocab_limit = 1503;
    options.top_log_probabilities = 3;
    Sampler sampler(options);
    for (int i = 0; i < 200; ++i) {
      const Sample s = sampler.sample(logits);
      REQUIRE(s.id < 1503);
      REQUIRE(std::isfinite(s.log_probability));
      REQUIRE(sampler.top_log_probabilities()[0].id < 1503);
    }
  }
}

TEST_CASE("banned ids are never drawn", "[sampler]") {
  std::vector<float> logits(40, -infinity);
  logits[7] = 0;
  logits[21] = -2;
  for (const SamplingOptions& options : {SamplingOptions{}, SamplingOptions{.top_k = 30},
                                         SamplingOptions{.top_p = 0.999}, SamplingOptions{.min_p = 1e-6}}) {
    Sampler sampler(options);
    for (int i = 0; i < 300; ++i) {
      const auto id = sampler.sample(logits).id;
      REQUIRE((id == 7 || id == 21));
    }
  }
}

TEST_CASE("log-probabilities are those of the model, in every mode", "[sampler]") {
  const auto logits = normal_logits(3001, 3.0, 14);
  const auto p = softmax(std::vector<double>(logits.begin(), logits.end()));
  for (SamplingOptions options : {SamplingOptions{.greedy = true}, SamplingOptions{.temperature = 0.3},
                                  SamplingOptions{.top_k = 5}, SamplingOptions{.repetition_penalty = 1.4}}) {
    options.top_log_probabilities = 4;
    Sampler sampler(options);
    for (int i = 0; i < 30; ++i) {
      const Sample s = sampler.sample(logits);
      REQUIRE(static_cast<double>(s.log_probability) ==
              Approx(std::log(p[static_cast<std::size_t>(s.id)])).margin(2e-5));
      const auto top = sampler.top_log_probabilities();
      REQUIRE(top.size() == 4);
      std::vector<double> sorted = p;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (std::size_t k = 0; k < 4; ++k) {
        REQUIRE(p[static_cast<std::size_t>(top[k].id)] == sorted[k]);
        REQUIRE(static_cast<double>(top[k].log_probability) == Approx(std::log(sorted[k])).margin(2e-5));
      }
    }
  }
  CHECK(std::isnan(Sampler({.log_probabilities = false}).sample(logits).log_probability));
  Sampler many({.greedy = true, .top_log_probabilities = 100000});
  (void)many.sample(logits);
  CHECK(many.top_log_probabilities().size() == 3001);
}

TEST_CASE("equal seeds give equal ids, other seeds give others, reset starts over", "[sampler]") {
  const auto logits = normal_logits(500, 0.5, 15);
  const auto run = [&](Sampler& sampler) {
    std::vector<std::int64_t> ids(40);
    for (auto& id : ids) id = sampler.sample(logits).id;
    return ids;
  };
  Sampler a({.seed = 123});
  Sampler b({.seed = 123});
  Sampler c({.seed = 124});
  const auto first = run(a);
  CHECK(first == run(b));
  CHECK(first != run(c));
  CHECK(first != run(a));
  a.reset();
  CHECK(first == run(a));
}

TEST_CASE("sampling options are validated by name", "[sampler]") {
  CHECK_THROWS_WITH(Sampler({.top_p = 1.5}), ContainsSubstring("top_p") && ContainsSubstring("1.5"));
  CHECK_THROWS_AS(Sampler({.top_p = -0.1}), tenon::ValueError);
  CHECK_THROWS_AS(Sampler({.top_p = std::nan("")}), tenon::ValueError);
  CHECK_THROWS_WITH(Sampler({.min_p = -0.5}), ContainsSubstring("min_p"));
  CHECK_THROWS_AS(Sampler({.repetition_penalty = 0}), tenon::ValueError);
  CHECK_THROWS_AS(Sampler({.repetition_penalty = HUGE_VAL}), tenon::ValueError);
  CHECK_THROWS_AS(Sampler({.vocab_limit = -1}), tenon::ValueError);
  CHECK_THROWS_AS(Sampler({.top_log_probabilities = -1}), tenon::ValueError);
}

TEST_CASE("row passes agree with plain loops at every length", "[sampler]") {
  for (std::size_t n = 1; n < 70; ++n) {
    const auto x = normal_logits(n, 20.0, static_cast<unsigned>(n));
    const auto size = static_cast<std::int64_t>(n);
    const auto scan = tenon::detail::scan_row(x.data(), size);
    const auto best = std::max_element(x.begin(), x.end());
    CHECK(scan.max == *best);
    CHECK(scan.argmax == best - x.begin());
    double sum = 0;
    for (const float v : x) sum += std::exp((static_cast<double>(v) - static_cast<double>(*best)) * 1.5);
    std::vector<float> out(n);
    CHECK(tenon::detail::sum_exp<true>(x.data(), size, *best, 1.5f, out.data()) == Approx(sum).epsilon(1e-5));
    CHECK(tenon::detail::sum_row(out.data(), size) == Approx(sum).epsilon(1e-5));
    auto sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    std::vector<float> buffer;
    for (std::size_t k = 1; k <= n; k += 7) {
      CHECK(tenon::detail::kth_largest(x.data(), size, static_cast<std::int64_t>(k), buffer) == sorted[k - 1]);
    }
    auto broken = x;
    broken[n / 2] = nan_value;
    CHECK(tenon::detail::scan_row(broken.data(), size).first_nan == static_cast<std::int64_t>(n / 2));
  }
  for (int i = 0; i <= 7300; ++i) {
    const float z = -100.0f + 0.0137f * static_cast<float>(i);
    const double e = static_cast<double>(tenon::detail::exp4(tenon::detail::Float4{z, z, z, z})[2]);
    if (z > -87) REQUIRE(e == Approx(std::exp(static_cast<double>(z))).epsilon(1e-6));
    if (z <= -87) REQUIRE(e == 0);
  }
}

TEST_CASE("the largest temperature gives probabilities, not NaN", "[sampler]") {
  constexpr float largest = std::numeric_limits<float>::max();
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (const double temperature : {1e30, 1e38, 1e46, 1e308, std::numeric_limits<double>::max()}) {
    for (const std::int64_t top_k : {0, 3}) {
      CAPTURE(temperature, top_k);
      Sampler sampler({.temperature = temperature, .top_k = top_k});
      const std::vector<float> logits{1.0f, -infinity, 2.0f, largest, -largest, 0.0f};
      double sum = 0;
      for (const auto& entry : sampler.distribution(logits)) {
        CHECK(entry.probability >= 0);
        CHECK(entry.id != 1);
        sum += entry.probability;
      }
      CHECK(std::abs(sum - 1) < 1e-6);
      CHECK(sampler.sample(logits).id != 1);
    }
  }
  // Ordinary logits are all alike then.
  const auto flat = Sampler({.temperature = 1e308}).distribution(std::vector<float>{1.0f, -3.0f, 2.0f, 7.0f});
  REQUIRE(flat.size() == 4);
  CHECK(flat[3].probability == 0.25);
}

TEST_CASE("an extreme repetition penalty is refused by name, and a large one never blames the logits", "[sampler]") {
  for (const double penalty : {1e-308, 9e-4, 1001.0, 1e308, std::nan("")}) {
    CHECK_THROWS_WITH(Sampler({.repetition_penalty = penalty}),
                      ContainsSubstring("repetition_penalty") && ContainsSubstring("between 0.001 and 1000"));
  }
  CHECK_THROWS_WITH(Sampler({.repetition_penalty = 1e-308}), ContainsSubstring("is 1e-308 but"));
  CHECK_THROWS_WITH(Sampler({.temperature = -1e308}), ContainsSubstring("is -1e+308 but"));
  constexpr float largest = std::numeric_limits<float>::max();
  for (const double penalty : {1e-3, 1e3}) {
    Sampler sampler({.greedy = true, .repetition_penalty = penalty});
    sampler.observe(std::vector<std::int64_t>{0, 1});
    CHECK_NOTHROW(sampler.sample(std::vector<float>{largest, -largest, 0.0f}));
  }
}
