#include <tenon/cuda/token_sampler.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <tenon/cuda/graph.hpp>
#include <tenon/generate/sampler.hpp>

#include "support/cuda.hpp"

using tenon::Context;
using tenon::Cuda;
using tenon::Sampler;
using tenon::SamplingOptions;
using tenon::detail::TokenSample;
using tenon::detail::TokenSampler;
using tenon::detail::TokenSamplerOptions;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float nan_value = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t guard = -12345;

using Ids = std::vector<std::int64_t>;
using Row = std::vector<float>;

std::int64_t size_of(const Row& row) { return static_cast<std::int64_t>(row.size()); }
float at(const Row& row, std::int64_t id) { return row[static_cast<std::size_t>(id)]; }
float& at(Row& row, std::int64_t id) { return row[static_cast<std::size_t>(id)]; }

Row normal_row(std::int64_t n, double spread, unsigned seed) {
  std::mt19937 random(seed);
  Row row(static_cast<std::size_t>(n));
  for (float& x : row) {
    double sum = -3;
    for (int i = 0; i < 6; ++i) sum += static_cast<double>(random()) / 4294967296.0;
    x = static_cast<float>(sum * 1.4142 * spread);
  }
  return row;
}

TokenSamplerOptions values_of(const SamplingOptions& from) {
  TokenSamplerOptions to;
  to.greedy = from.is_greedy();
  to.scale = from.is_greedy() ? 1.0f : tenon::detail::sampling_scale(from.temperature);
  to.top_k = from.top_k;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.repetition_penalty = static_cast<float>(from.repetition_penalty);
  to.seed = from.seed;
  to.vocab_limit = from.vocab_limit;
  to.log_probabilities = from.log_probabilities;
  return to;
}

// A sampler, a row, and what it writes to, on the device.
class Rig {
 public:
  Rig(Context<Cuda>& ctx, std::int64_t vocabulary)
      : ctx_(ctx),
        vocabulary_(vocabulary),
        sampler_(ctx, vocabulary),
        row_(tenon::allocate_storage(ctx, static_cast<std::size_t>(vocabulary) * 4 + 64)),
        numbers_(tenon::allocate_storage(ctx, 4 * 8)) {
    write_numbers({guard, 0, 0, guard});
  }

  /// `shift`: elements by which the row is moved away from 16-byte alignment.
  void set_row(const Row& row, std::size_t shift = 0) {
    REQUIRE(size_of(row) == vocabulary_);
    logits_ = reinterpret_cast<float*>(row_.data()) + shift;
    tenon::detail::copy_bytes(ctx_, reinterpret_cast<std::byte*>(logits_),
                              reinterpret_cast<const std::byte*>(row.data()), row.size() * 4, tenon::DeviceKind::cuda,
                              tenon::DeviceKind::cpu);
  }
  void start(const SamplingOptions& options, std::span<const std::int64_t> history = {}) {
    sampler_.start(ctx_, values_of(options), history);
    step_ = 0;
  }
  void enqueue() { sampler_.enqueue(ctx_, logits_, numbers() + 1, numbers() + 2); }

  TokenSample draw() {
    enqueue();
    return next();
  }
  /// The outcome of the next draw that is in the stream already.
  TokenSample next() {
    ctx_.synchronize();
    const TokenSample sample = sampler_.result(step_);
    REQUIRE(sample.step == step_);
    REQUIRE(sample.id >= 0);
    REQUIRE(sample.id < vocabulary_);
    ++step_;
    return sample;
  }

  TokenSampler& sampler() { return sampler_; }
  float* logits() { return logits_; }
  std::int64_t* numbers() { return reinterpret_cast<std::int64_t*>(numbers_.data()); }
  /// A guard, the next id, the position, a guard.
  Ids read_numbers() {
    Ids values(4);
    tenon::detail::copy_bytes(ctx_, reinterpret_cast<std::byte*>(values.data()), numbers_.data(), 4 * 8,
                              tenon::DeviceKind::cpu, tenon::DeviceKind::cuda);
    return values;
  }
  void write_numbers(const Ids& values) {
    tenon::detail::copy_bytes(ctx_, numbers_.data(), reinterpret_cast<const std::byte*>(values.data()), 4 * 8,
                              tenon::DeviceKind::cuda, tenon::DeviceKind::cpu);
  }

 private:
  Context<Cuda>& ctx_;
  std::int64_t vocabulary_;
  TokenSampler sampler_;
  tenon::Storage<Cuda> row_;
  tenon::Storage<Cuda> numbers_;
  float* logits_ = nullptr;
  std::int64_t step_ = 0;
};

bool same_bits(const TokenSample& a, const TokenSample& b) {
  return a.id == b.id && a.status == b.status && a.step == b.step &&
         std::memcmp(&a.log_probability, &b.log_probability, sizeof(float)) == 0;
}

std::string text_of(const SamplingOptions& o) {
  return "temperature " + std::to_string(o.temperature) + (o.greedy ? " greedy" : "") + " top_k " +
         std::to_string(o.top_k) + " top_p " + std::to_string(o.top_p) + " min_p " + std::to_string(o.min_p) +
         " penalty " + std::to_string(o.repetition_penalty) + " seed " + std::to_string(o.seed) + " vocab_limit " +
         std::to_string(o.vocab_limit);
}

void check_log_probability(float got, float expected) {
  INFO("log-probability " << got << ", on the CPU " << expected);
  CHECK(std::abs(got - expected) <= 1e-5f * std::max(1.0f, std::abs(expected)));
}

// True where `id` is among what the CPU may draw, and `uniform` so close to its part of [0, 1) that rounding explains the
// difference: sums differ by about 1e-7, and the border of top-p may have moved by a token or two.
bool explained(const std::vector<tenon::TokenProbability>& distribution, std::int64_t id, double uniform) {
  auto by_id = distribution;
  std::sort(by_id.begin(), by_id.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  const double tolerance = 1e-6 + 2 * distribution.back().probability;
  double sum = 0;
  for (const auto& token : by_id) {
    const double before = sum;
    sum += token.probability;
    if (token.id == id) return uniform >= before - tolerance && uniform < sum + tolerance;
  }
  return false;
}

struct Count {
  int draws = 0;
  int other_ids = 0;
};

// Draws with both samplers. Greedy ids are equal; others differ only where rounding explains it, which is counted.
void compare(Rig& rig, const Row& row, const SamplingOptions& options, const Ids& history, int draws, Count& count) {
  INFO(row.size() << " ids, " << text_of(options));
  Sampler cpu(options);
  cpu.observe(history);
  tenon::CounterRandom random(options.seed);
  rig.start(options, history);
  for (int i = 0; i < draws; ++i) {
    INFO("draw " << i);
    Sampler before = cpu;
    const tenon::Sample expected = cpu.sample(row);
    const TokenSample got = rig.draw();
    const double uniform = random.uniform();
    REQUIRE(got.status == 0);
    ++count.draws;
    if (got.id == expected.id) {
      check_log_probability(got.log_probability, expected.log_probability);
      continue;
    }
    INFO("id " << got.id << ", on the CPU " << expected.id << ", uniform " << uniform);
    REQUIRE_FALSE(options.is_greedy());
    REQUIRE(explained(before.distribution(row), got.id, uniform));
    ++count.other_ids;
    if (options.repetition_penalty != 1.0) return;  // from here on the histories differ
  }
}

void check_few(const Count& count) {
  INFO(count.other_ids << " of " << count.draws << " draws differ");
  CHECK(count.other_ids <= count.draws / 100);
}

// Every subset of top-k, top-p, min-p and penalty, for several kinds of row.
void compare_filters(std::int64_t n, int draws) {
  Context<Cuda> ctx;
  Rig rig(ctx, n);
  std::mt19937 random(static_cast<unsigned>(n));
  const auto uniform = [&] { return static_cast<double>(random()) / 4294967296.0; };
  Count count;
  for (const std::string kind : {"peaked", "flat", "rounded", "half banned", "equal"}) {
    INFO(kind);
    Row row = kind == "flat" ? normal_row(n, 0.05, 1) : normal_row(n, 3.0, 2);
    if (kind == "rounded") {
      for (float& x : row) x = std::round(x);
    }
    if (kind == "half banned") {
      for (std::size_t i = 1; i < row.size(); i += 2) row[i] = -infinity;
    }
    if (kind == "equal") std::fill(row.begin(), row.end(), 0.25f);
    rig.set_row(row);
    for (unsigned subset = 0; subset < 16; ++subset) {
      SamplingOptions options;
      options.seed = random();
      options.temperature = subset % 3 == 0 ? 1.0 : 0.3 + 1.5 * uniform();
      if ((subset & 1) != 0) {
        options.top_k =
            1 + static_cast<std::int64_t>(uniform() * uniform() * static_cast<double>(std::min(n, n / 4 + 60)));
      }
      if ((subset & 2) != 0) options.top_p = uniform();
      if ((subset & 4) != 0) options.min_p = 0.3 * uniform() * uniform();
      Ids history;
      if ((subset & 8) != 0) {
        options.repetition_penalty = 0.5 + uniform();
        for (int i = 0; i < 40; ++i) history.push_back(static_cast<std::int64_t>(random() % row.size()));
        // Those that count most, too.
        history.push_back(std::max_element(row.begin(), row.end()) - row.begin());
      }
      compare(rig, row, options, history, draws, count);
    }
  }
  check_few(count);
}

}  // namespace

TEST_CASE("token sampler: every subset of the filters draws what the CPU draws, rows of 1 and 5", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  compare_filters(1, 3);
  compare_filters(5, 20);
}

TEST_CASE("token sampler: every subset of the filters draws what the CPU draws, rows of 1000", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  compare_filters(1000, 20);
}

TEST_CASE("token sampler: every subset of the filters draws what the CPU draws, rows of 32000", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  compare_filters(32000, 10);
}

TEST_CASE("token sampler: every subset of the filters draws what the CPU draws, rows of 151936", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  compare_filters(151936, 5);
}

TEST_CASE("token sampler: a row so long that a thread has several groups of ids", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 1200007;
  Rig rig(ctx, n);
  const Row row = normal_row(n, 2.0, 3);
  rig.set_row(row);
  Count count;
  compare(rig, row, {.greedy = true}, {}, 2, count);
  compare(rig, row, {.seed = 1}, {}, 10, count);
  compare(rig, row, {.top_k = 50, .top_p = 0.9, .min_p = 0.01, .repetition_penalty = 1.2, .seed = 2}, {n - 1, 5}, 10,
          count);
  compare(rig, row, {.temperature = 0.5, .top_p = 0.8, .seed = 3}, {}, 10, count);
  CHECK(count.other_ids <= 2);
}

TEST_CASE("token sampler: greedy takes the largest logit, the lowest id on a tie", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{3}, std::int64_t{4095}, std::int64_t{4096},
                               std::int64_t{4097}, std::int64_t{50000}, std::int64_t{151936}}) {
    INFO(n << " ids");
    Rig rig(ctx, n);
    Row row = normal_row(n, 1.0, static_cast<unsigned>(n));
    const auto check = [&](const SamplingOptions& options, std::int64_t id) {
      rig.set_row(row);
      rig.start(options);
      for (int i = 0; i < 2; ++i) {
        const TokenSample got = rig.draw();
        CHECK(got.status == 0);
        REQUIRE(got.id == id);
        check_log_probability(got.log_probability, Sampler(options).sample(row).log_probability);
      }
    };
    const std::int64_t best = std::max_element(row.begin(), row.end()) - row.begin();
    check({.greedy = true}, best);
    check({.temperature = 0}, best);
    check({.temperature = 7, .greedy = true, .top_k = 3, .top_p = 0.5, .min_p = 0.1}, best);
    for (const std::int64_t first : {std::int64_t{0}, n / 2, n - 1}) {
      for (const std::int64_t second : {n / 3, n - 1}) {
        const float before[2] = {at(row, first), at(row, second)};
        at(row, first) = at(row, second) = 100.0f;
        check({.greedy = true}, std::min(first, second));
        at(row, second) = before[1];
        at(row, first) = before[0];
      }
    }
    // Zeros of both signs are equal.
    std::fill(row.begin(), row.end(), -0.0f);
    at(row, n - 1) = 0.0f;
    check({.greedy = true}, 0);
    std::fill(row.begin(), row.end(), std::numeric_limits<float>::lowest());
    check({.greedy = true}, 0);
    at(row, n - 1) = -1e38f;
    check({.greedy = true}, n - 1);
  }
  Rig rig(ctx, 100);
  rig.set_row(normal_row(100, 1.0, 5));
  rig.start({.greedy = true, .log_probabilities = false});
  CHECK(std::isnan(rig.draw().log_probability));
  rig.start({.log_probabilities = false});
  CHECK(std::isnan(rig.draw().log_probability));
}

TEST_CASE("token sampler: logits that are not finite give a status, an id that exists, and no trace in the history",
          "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::int64_t n : {std::int64_t{1}, std::int64_t{100}, std::int64_t{20000}}) {
    Rig rig(ctx, n);
    const Row good = normal_row(n, 1.0, 6);
    for (const SamplingOptions& options :
         {SamplingOptions{.greedy = true, .repetition_penalty = 1.3},
          SamplingOptions{.repetition_penalty = 1.3, .seed = 4},
          SamplingOptions{.top_k = 7, .top_p = 0.9, .min_p = 0.01, .repetition_penalty = 1.3, .seed = 5}}) {
      INFO(n << " ids, " << text_of(options));
      Row row = good;
      const auto check = [&](std::int32_t status, std::int64_t id) {
        rig.set_row(row);
        const TokenSample got = rig.draw();
        CHECK(got.status == status);
        CHECK(got.id == id);
        CHECK(std::isnan(got.log_probability));
        CHECK(rig.read_numbers()[1] == id);
        row = good;
      };
      rig.start(options, Ids{0});
      std::fill(row.begin(), row.end(), nan_value);
      check(1, 0);
      at(row, n - 1) = nan_value;
      at(row, n / 2) = -nan_value;
      check(1, n / 2);
      at(row, n - 1) = infinity;
      check(2, n - 1);
      at(row, n - 1) = infinity;
      at(row, 0) = infinity;
      check(2, 0);
      at(row, 0) = infinity;
      at(row, n - 1) = nan_value;
      check(1, n - 1);
      std::fill(row.begin(), row.end(), -infinity);
      check(3, 0);

      // The draws above counted, and nothing else: as on the CPU with the same numbers.
      rig.set_row(good);
      const TokenSample after = rig.draw();
      CHECK(after.status == 0);
      if (options.greedy) {
        Sampler cpu(options);
        cpu.observe(Ids{0});
        CHECK(after.id == cpu.sample(good).id);
      }
    }
  }
}

TEST_CASE("token sampler: a single candidate is chosen with certainty", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 10000;
  Rig rig(ctx, n);
  for (const std::int64_t id : {std::int64_t{0}, std::int64_t{4096}, n - 1}) {
    Row row(static_cast<std::size_t>(n), -infinity);
    at(row, id) = -3.0f;
    rig.set_row(row);
    for (const SamplingOptions& options :
         {SamplingOptions{.greedy = true}, SamplingOptions{}, SamplingOptions{.top_k = 1}, SamplingOptions{.top_k = 50},
          SamplingOptions{.top_p = 0.5}, SamplingOptions{.top_p = 0}, SamplingOptions{.min_p = 1},
          SamplingOptions{.top_k = 3, .top_p = 0.999, .min_p = 1e-6, .repetition_penalty = 2}}) {
      INFO("id " << id << ", " << text_of(options));
      rig.start(options, Ids{id});
      for (int i = 0; i < 5; ++i) {
        const TokenSample got = rig.draw();
        REQUIRE(got.id == id);
        CHECK(got.log_probability == 0);
      }
    }
  }
}

TEST_CASE("token sampler: ids from vocab_limit on are never chosen, whatever their logits", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 9001;
  Rig rig(ctx, n);
  for (const std::int64_t limit : {std::int64_t{1}, std::int64_t{1503}, std::int64_t{4096}, n - 1}) {
    Row row = normal_row(n, 0.5, 13);
    for (std::int64_t i = limit; i < n; ++i) at(row, i) = i % 3 == 0 ? 50.0f : i % 3 == 1 ? nan_value : infinity;
    rig.set_row(row);
    Count count;
    for (SamplingOptions options : {SamplingOptions{.greedy = true}, SamplingOptions{}, SamplingOptions{.top_k = 40},
                                    SamplingOptions{.top_p = 0.9}, SamplingOptions{.min_p = 0.01},
                                    SamplingOptions{.top_k = limit}, SamplingOptions{.repetition_penalty = 1.5}}) {
      options.vocab_limit = limit;
      options.seed = static_cast<std::uint64_t>(limit);
      compare(rig, row, options, {0, limit, n - 1}, 10, count);
    }
    CHECK(count.other_ids == 0);
  }
  const Row row = normal_row(n, 0.5, 14);
  rig.set_row(row);
  Count count;
  for (const std::int64_t limit : {std::int64_t{0}, n, n + 5}) {
    compare(rig, row, {.seed = 3, .vocab_limit = limit}, {}, 10, count);
  }
  CHECK(count.other_ids == 0);
}

TEST_CASE("token sampler: the penalty sees prompt and output, each id once, and start forgets", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Rig rig(ctx, 3);
  rig.set_row({10.0f, 9.0f, 1.0f});
  for (int round = 0; round < 2; ++round) {
    rig.start({.greedy = true, .repetition_penalty = 1.5});
    CHECK(rig.draw().id == 0);  // 10
    CHECK(rig.draw().id == 1);  // 9 beats 10 / 1.5
    CHECK(rig.draw().id == 0);  // 6.7 beats 6
  }
  rig.start({.greedy = true, .repetition_penalty = 1.5}, Ids{0, 0, 0, 0, 7, 1000000000000});
  CHECK(rig.draw().id == 1);
  rig.start({.greedy = true}, Ids{0});  // off: the history does not matter
  CHECK(rig.draw().id == 0);
  CHECK(rig.draw().id == 0);
  rig.start({.greedy = true, .repetition_penalty = 1.5}, Ids{0});
  try {
    rig.sampler().start(ctx, values_of({.repetition_penalty = 1.5}), Ids{2, -1});
    FAIL("a negative id was taken");
  } catch (const tenon::IndexError& error) {
    CHECK(std::string(error.what()) == "sampler history: id -1 is negative");
  }
  CHECK(rig.draw().id == 1);  // as before the call

  // Products beyond the range of float are clamped, and -inf stays.
  const Row extreme{3e38f, -3e38f, -infinity, 1e-44f, -1e-44f, 0.0f, -0.0f, 2.5f};
  Rig other(ctx, 8);
  other.set_row(extreme);
  Count count;
  for (const double penalty : {0.001, 0.7, 1.1, 1000.0}) {
    for (const Ids& history : {Ids{0, 1, 2, 3, 4, 5, 6, 7}, Ids{1, 2, 7}, Ids{0}}) {
      compare(other, extreme, {.greedy = true, .repetition_penalty = penalty}, history, 8, count);
      compare(other, extreme, {.repetition_penalty = penalty, .seed = 9}, history, 8, count);
    }
  }
  CHECK(count.other_ids == 0);
}

TEST_CASE("token sampler: any history of a long output stays equal to the CPU's", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 5003;
  Rig rig(ctx, n);
  const Row row = normal_row(n, 2.0, 15);
  rig.set_row(row);
  Count count;
  compare(rig, row, {.greedy = true, .repetition_penalty = 1.3}, {}, 300, count);
  compare(rig, row, {.temperature = 0.8, .top_k = 20, .repetition_penalty = 1.1, .seed = 6}, {1, 2, 3}, 300, count);
  CHECK(count.draws == 600);
}

TEST_CASE("token sampler: extreme temperatures and logits", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 5000;
  Rig rig(ctx, n);
  Row row = normal_row(n, 1.0, 16);
  const std::int64_t best = std::max_element(row.begin(), row.end()) - row.begin();
  rig.set_row(row);
  for (const double temperature : {1e-6, 1e-30, 1e-300, 5e-324}) {
    rig.start({.temperature = temperature, .seed = 8});
    for (int i = 0; i < 10; ++i) CHECK(rig.draw().id == best);
  }
  Count count;
  for (const double temperature : {1e10, 1e38, 1e300}) {
    compare(rig, row, {.temperature = temperature, .seed = 9}, {}, 30, count);
    compare(rig, row, {.temperature = temperature, .top_p = 0.25, .seed = 10}, {}, 30, count);
  }
  for (float& x : row) x *= 3e37f;  // differences beyond the range of float
  at(row, 17) = -infinity;
  rig.set_row(row);
  for (const double temperature : {1.0, 1e37, 1e38, 1e300}) {
    compare(rig, row, {.temperature = temperature, .seed = 11}, {}, 30, count);
    compare(rig, row, {.temperature = temperature, .top_k = 100, .top_p = 0.9, .seed = 12}, {}, 30, count);
  }
  check_few(count);
}

TEST_CASE("token sampler: top_k of the vocabulary and more, 0 and -1 change nothing", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 6000;
  Rig rig(ctx, n);
  rig.set_row(normal_row(n, 1.0, 17));
  std::vector<TokenSample> plain;
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{-1}, n, n + 1, std::int64_t{1} << 60}) {
    INFO("top_k " << k);
    rig.start({.top_k = k, .seed = 13});
    for (std::size_t i = 0; i < 20; ++i) {
      const TokenSample got = rig.draw();
      if (plain.size() == i) plain.push_back(got);
      REQUIRE(same_bits(got, plain[i]));
    }
  }
}

TEST_CASE("token sampler: top-k keeps ties of the k-th, top-p keeps the lower ids of equal ones, and at least one",
          "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const auto drawn = [](Rig& rig, const SamplingOptions& options, int draws) {
    rig.start(options);
    std::set<std::int64_t> ids;
    for (int i = 0; i < draws; ++i) ids.insert(rig.draw().id);
    return ids;
  };
  const std::set<std::int64_t> first_four{0, 1, 2, 3};
  Rig six(ctx, 6);
  six.set_row({1, 3, 2, 2, 2, 0});
  CHECK(drawn(six, {.top_k = 2}, 300) == std::set<std::int64_t>{1, 2, 3, 4});
  CHECK(drawn(six, {.top_p = 0}, 50) == std::set<std::int64_t>{1});
  CHECK(drawn(six, {.min_p = 1}, 50) == std::set<std::int64_t>{1});
  // 0.475, and 0.175 for each of the three: two of them reach 0.8.
  CHECK(drawn(six, {.top_k = 2, .top_p = 0.8}, 300) == std::set<std::int64_t>{1, 2, 3});

  Rig eight(ctx, 8);
  eight.set_row(Row(8, 0.5f));
  CHECK(drawn(eight, {.top_p = 0.5}, 300) == first_four);
  CHECK(drawn(eight, {.top_p = 0.500001}, 300) == std::set<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(drawn(eight, {.top_k = 3, .top_p = 0.5, .min_p = 1}, 300) == first_four);
  CHECK(drawn(eight, {.top_p = 0}, 50) == std::set<std::int64_t>{0});

  // Ties across many slices: 4 of the 8 largest, far apart.
  const std::int64_t n = 100000;
  Rig large(ctx, n);
  Row row(static_cast<std::size_t>(n), -2.0f);
  for (std::int64_t i = 0; i < 8; ++i) at(row, 11 + i * 12345) = 30.0f;
  large.set_row(row);
  CHECK(drawn(large, {.top_p = 0.5}, 200) == std::set<std::int64_t>{11, 12356, 24701, 37046});
  CHECK(drawn(large, {.top_k = 1, .top_p = 0.3}, 200) == std::set<std::int64_t>{11, 12356, 24701});
  std::fill(row.begin(), row.end(), 1.5f);
  large.set_row(row);
  const auto half = drawn(large, {.top_k = 5, .top_p = 0.5, .seed = 2}, 300);
  CHECK(*half.rbegin() < n / 2);
  CHECK(*half.rbegin() > n / 3);
  CHECK(half.size() > 290);
}

TEST_CASE("token sampler: drawn frequencies follow the distribution", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 60;
  Rig rig(ctx, n);
  const Row row = normal_row(n, 1.5, 18);
  rig.set_row(row);
  const int draws = 6000;
  for (const SamplingOptions& options :
       {SamplingOptions{.seed = 1}, SamplingOptions{.temperature = 1.7, .top_k = 12, .seed = 3},
        SamplingOptions{.temperature = 1.2, .top_k = 30, .top_p = 0.9, .min_p = 0.05, .seed = 6}}) {
    INFO(text_of(options));
    rig.start(options);
    std::vector<int> counts(static_cast<std::size_t>(n));
    for (int i = 0; i < draws; ++i) ++counts[static_cast<std::size_t>(rig.draw().id)];
    double chi = 0;
    double rest = 0;  // of those expected less than 5 times
    int bins = 0;
    int seen = 0;
    Sampler cpu(options);
    for (const auto& token : cpu.distribution(row)) {
      const double expected = token.probability * draws;
      const int count = counts[static_cast<std::size_t>(token.id)];
      seen += count;
      if (expected < 5) {
        rest += expected;
        continue;
      }
      chi += (count - expected) * (count - expected) / expected;
      ++bins;
    }
    CHECK(seen == draws);
    REQUIRE(bins > 5);
    INFO("chi-square " << chi << " over " << bins << " ids, " << rest << " draws left out");
    CHECK(chi < bins + 4 * std::sqrt(2.0 * bins));
  }
}

TEST_CASE("token sampler: a graph captured once gives the bits of separate launches, for every set of options",
          "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 32003;
  Rig direct(ctx, n);
  Rig replayed(ctx, n);
  const Row row = normal_row(n, 2.0, 19);
  direct.set_row(row);
  replayed.set_row(row);
  tenon::detail::CudaGraph graph(ctx, [&] { replayed.enqueue(); });
  std::int64_t position = 0;
  for (const SamplingOptions& options :
       {SamplingOptions{.greedy = true}, SamplingOptions{.seed = 2},
        SamplingOptions{.top_k = 20, .top_p = 0.8, .seed = 3},
        SamplingOptions{.temperature = 2, .top_p = 0.5, .min_p = 0.001, .repetition_penalty = 1.2, .seed = 4},
        SamplingOptions{.seed = 2, .log_probabilities = false}}) {
    INFO(text_of(options));
    direct.start(options, Ids{1, 2, 3});
    replayed.start(options, Ids{1, 2, 3});
    for (int round = 0; round < 6; ++round) {
      // As many draws in the stream as the ring holds.
      for (int i = 0; i < 4; ++i) {
        direct.enqueue();
        graph.launch(ctx);
      }
      std::int64_t last = 0;
      for (int i = 0; i < 4; ++i) {
        const TokenSample expected = direct.next();
        const TokenSample got = replayed.next();
        INFO("draw " << expected.step << ": id " << expected.id << ", replayed " << got.id);
        REQUIRE(same_bits(got, expected));
        last = got.id;
      }
      position += 4;
      CHECK(replayed.read_numbers() == Ids{guard, last, position, guard});
      CHECK(direct.read_numbers() == Ids{guard, last, position, guard});
    }
  }
}

TEST_CASE("token sampler: results, next id and position", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Rig rig(ctx, 50);
  rig.set_row(normal_row(50, 1.0, 20));
  const auto none_left = [&] {
    ctx.synchronize();
    return std::all_of(&rig.sampler().result(0), &rig.sampler().result(0) + tenon::detail::token_sampler_results,
                       [](const TokenSample& s) { return s.step == -1; });
  };
  CHECK(none_left());
  rig.write_numbers({guard, 3, 41, guard});
  rig.start({.seed = 1});
  CHECK(none_left());
  CHECK(rig.read_numbers() == Ids{guard, 3, 41, guard});
  const TokenSample first = rig.draw();
  CHECK(rig.read_numbers() == Ids{guard, first.id, 42, guard});
  rig.sampler().enqueue(ctx, rig.logits(), rig.numbers() + 1, nullptr);
  const TokenSample second = rig.next();
  CHECK(rig.read_numbers() == Ids{guard, second.id, 42, guard});
  rig.start({.seed = 1});
  CHECK(none_left());
  CHECK(same_bits(rig.draw(), first));
  CHECK(same_bits(rig.draw(), second));

  CHECK_THROWS_AS(TokenSampler(ctx, 0), tenon::ShapeError);
  CHECK_THROWS_AS(TokenSampler(ctx, std::int64_t{1} << 31), tenon::ShapeError);
}

TEST_CASE("token sampler: equal input gives equal bits, also at an odd address", "[cuda][sampler]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 151936;
  Rig a(ctx, n);
  Rig b(ctx, n);
  const Row row = normal_row(n, 1.0, 21);
  a.set_row(row);
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    b.set_row(row, shift);
    for (const SamplingOptions& options :
         {SamplingOptions{.greedy = true}, SamplingOptions{.seed = 5}, SamplingOptions{.top_p = 0.9, .seed = 6},
          SamplingOptions{.top_k = 5000, .top_p = 0.9, .min_p = 0.001, .repetition_penalty = 1.1, .seed = 7}}) {
      INFO(text_of(options) << ", shift " << shift);
      a.start(options, Ids{5, 6, 7});
      b.start(options, Ids{7, 6, 5, 5});
      for (int i = 0; i < 10; ++i) REQUIRE(same_bits(a.draw(), b.draw()));
    }
  }
}
