#include <tenon/ops/self_attention.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

namespace {

// Shape of a call: tokens, kv tokens, heads, kv heads, d, dv.
struct Case {
  std::int64_t tokens, kv_tokens, heads, kv_heads, d, dv;
};

template <class T>
struct Problem {
  explicit Problem(const Case& c, Form form = Form::contiguous, double size = 1.0, unsigned seed = 1)
      : q({c.tokens, c.heads, c.d}, form),
        k({c.kv_tokens, c.kv_heads, c.d}, form),
        v({c.kv_tokens, c.kv_heads, c.dv}, form),
        shape(c),
        scale(1.0 / std::sqrt(static_cast<double>(c.d + (c.d == 0)))) {
    std::mt19937 random(seed);
    q.fill(random, -size, size);
    k.fill(random, -size, size);
    v.fill(random, -2, 2);
  }
  [[nodiscard]] Operand<T, 3> result(Form form = Form::contiguous) const {
    return Operand<T, 3>({shape.tokens, shape.heads, shape.dv}, form);
  }
  [[nodiscard]] std::vector<double> expected() const {
    return tenon::reference::self_attention(q.view(), k.view(), v.view(), scale);
  }
  template <class Ctx>
  void run(Ctx& ctx, const Operand<T, 3>& out) const {
    tenon::self_attention(ctx, out.view(), q.view(), k.view(), v.view(), scale);
  }

  Operand<T, 3> q, k, v;
  Case shape;
  double scale;
};

// An error in a score moves its weight by as much in relative terms: scores are sums of d products of size 1.
template <class T>
support::Tolerance bound(const Case& c, double score = 4.0) {
  return support::tolerance<T>(c.d + c.kv_tokens, 2.0 * (1.0 + score), 1.0);
}

}  // namespace

TEMPLATE_TEST_CASE("self_attention equals its definition for every shape, layout and instruction set",
                   "[ops][self_attention]", float, double, tenon::float16, tenon::bfloat16) {
  const std::vector<Case> cases{{1, 1, 1, 1, 1, 1},   {3, 3, 2, 1, 5, 7},    {5, 5, 4, 4, 16, 16},
                                {2, 7, 6, 2, 64, 64}, {9, 20, 7, 1, 33, 17}, {4, 4, 2, 2, 8, 0},
                                {0, 5, 2, 2, 8, 8},   {3, 3, 2, 1, 0, 4},    {13, 40, 6, 3, 24, 80}};
  for (const Case& c : cases) {
    for (const Form form : support::all_forms) {
      const Problem<TestType> problem(c, form);
      const auto expected = problem.expected();
      support::for_each_level([&](auto& ctx) {
        const auto out = problem.result(form == Form::broadcast ? Form::padded : form);
        problem.run(ctx, out);
        INFO(support::describe(ctx) << ", " << support::form_name(form) << ", tokens " << c.tokens << " of "
                                    << c.kv_tokens << ", d " << c.d);
        CHECK(support::mismatch(out.view(), expected, bound<TestType>(c)) == "");
        CHECK(out.intact());
      });
    }
  }
}

TEMPLATE_TEST_CASE("self_attention over several segments of keys and blocks of rows", "[ops][self_attention]", float,
                   tenon::float16, tenon::bfloat16) {
  // 256 keys make a segment and 120 rows a block: sizes on, before and after those borders.
  const std::vector<Case> cases{{1, 256, 2, 2, 16, 16},   {1, 257, 14, 2, 64, 64}, {1, 1000, 7, 1, 32, 64},
                                {130, 130, 1, 1, 16, 16}, {121, 300, 2, 1, 8, 64}, {40, 513, 6, 2, 20, 24}};
  for (const Case& c : cases) {
    const Problem<TestType> problem(c);
    const auto expected = problem.expected();
    for (const int threads : {1, 3}) {
      support::for_each_level(
          [&](auto& ctx) {
            const auto out = problem.result();
            problem.run(ctx, out);
            INFO(support::describe(ctx) << ", tokens " << c.tokens << " of " << c.kv_tokens);
            CHECK(support::mismatch(out.view(), expected, bound<TestType>(c)) == "");
          },
          threads);
    }
  }
}

TEST_CASE("N13: the causal mask is aligned to the bottom right", "[ops][self_attention]") {
  for (const std::int64_t tokens : {1, 2, 5}) {
    const std::int64_t keys = 5;
    // All scores are 0, so a query gets the mean of the values that it sees; value s is 10 to the power s.
    Operand<float, 3> q({tokens, 1, 4});
    Operand<float, 3> k({keys, 1, 4});
    Operand<float, 3> v({keys, 1, 1});
    q.fill([] { return 0.0; });
    k.fill([] { return 1.0; });
    double power = 0.1;
    v.fill([&] { return power *= 10.0; });
    support::for_each_level([&](auto& ctx) {
      Operand<float, 3> out({tokens, 1, 1});
      tenon::self_attention(ctx, out.view(), q.view(), k.view(), v.view(), 1.0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::int64_t seen = keys - tokens + t + 1;
        double sum = 0.0;
        for (std::int64_t s = 0; s < seen; ++s) sum += std::pow(10.0, static_cast<double>(s));
        CHECK(std::abs(out.view()(t, 0, 0) / (sum / static_cast<double>(seen)) - 1.0) < 1e-6);
      }
    });
  }
}

TEMPLATE_TEST_CASE("N12: a query that sees no key gives zeros", "[ops][self_attention]", float, double, tenon::float16,
                   tenon::bfloat16) {
  for (const std::int64_t keys : {0, 1, 3}) {
    const Case c{6, keys, 4, 2, 8, 24};
    const Problem<TestType> problem(c);
    support::for_each_level([&](auto& ctx) {
      const auto out = problem.result(Form::padded);
      problem.run(ctx, out);
      CHECK(support::mismatch(out.view(), problem.expected(), bound<TestType>(c)) == "");
      for (std::int64_t t = 0; t < 6 - keys; ++t) {
        for (std::int64_t h = 0; h < 4; ++h) {
          for (std::int64_t i = 0; i < 24; ++i) CHECK(static_cast<double>(out.view()(t, h, i)) == 0.0);
        }
      }
    });
  }
}

TEMPLATE_TEST_CASE("N7: scores beyond the range of float16 stay finite", "[ops][self_attention]", tenon::float16,
                   tenon::bfloat16) {
  // q·k is about 64 * 200 * 200 = 2.56 million before scaling; float16 ends at 65504.
  const Case c{3, 40, 7, 1, 64, 64};
  Problem<TestType> problem(c, Form::contiguous, 1.0, 5);
  std::mt19937 random(6);
  problem.q.fill(random, 199, 201);
  problem.k.fill(random, 199, 201);
  const auto expected = problem.expected();
  support::for_each_level([&](auto& ctx) {
    const auto out = problem.result();
    problem.run(ctx, out);
    // A score of 3.2e5 is good to about 0.03 in float, so weights are good to a few per cent.
    CHECK(support::mismatch(out.view(), expected, support::Tolerance{0.25, 0.1}) == "");
  });
  // Without noise: the value whose key is largest wins, exactly.
  problem.q.fill([] { return 200.0; });
  std::int64_t i = 0;
  problem.k.fill([&] { return i++ / 64 == 17 ? 250.0 : 200.0; });
  support::for_each_level([&](auto& ctx) {
    const auto out = problem.result();
    problem.run(ctx, out);
    for (std::int64_t h = 0; h < 7; ++h) {
      for (std::int64_t e = 0; e < 64; ++e) {
        CHECK(static_cast<float>(out.view()(2, h, e)) == static_cast<float>(problem.v.view()(17, 0, e)));
      }
    }
  });
}

TEMPLATE_TEST_CASE("N7: scores near the end of float share their weight among the largest ones",
                   "[ops][self_attention]", float, tenon::float16, tenon::bfloat16) {
  // A score is about ten times the product of two of these, and rounded by far more than exp can take.
  const double large = std::is_same_v<TestType, tenon::float16> ? 60000.0 : 1e15;
  for (const std::int64_t tokens : {1, 4, 80}) {
    for (const double scale : {0.3, -0.3}) {
      Problem<TestType> problem({tokens, 600, 2, 1, 32, 32});
      problem.scale = scale;
      problem.q.fill([&] { return large; });
      std::int64_t i = 0;
      problem.k.fill([&] {
        const std::int64_t key = i++ / 32;
        return (scale < 0 ? -1.0 : 1.0) * (key == 17 || key == 290 ? large : 0.5 * large);  // in two segments
      });
      const auto expected = problem.expected();
      INFO("tokens " << tokens << ", scale " << scale);
      support::for_each_level([&](auto& ctx) {
        const auto out = problem.result();
        problem.run(ctx, out);
        CHECK(support::mismatch(out.view(), expected, support::tolerance<TestType>(32, 4.0, 1.0)) == "");
      });
    }
  }
}

TEST_CASE("N11: logits far below zero, and segments that hold nothing for a row", "[ops][self_attention]") {
  // 88 queries on 448 keys in groups of 7, with every score near -1000: a running maximum that starts at 0, or is reset
  // to it, would underflow every weight.
  const Case c{88, 448, 7, 1, 16, 16};
  Problem<float> problem(c);
  std::mt19937 random(7);
  problem.q.fill(random, 15.8, 15.9);
  problem.k.fill(random, -15.9, -15.8);
  const auto expected = problem.expected();
  support::for_each_level(
      [&](auto& ctx) {
        const auto out = problem.result();
        problem.run(ctx, out);
        CHECK(support::mismatch(out.view(), expected, support::Tolerance{2e-3, 0.0}) == "");
      },
      2);

  // One key of the first segment outweighs the second segment completely, and the other way round.
  for (const std::int64_t winner : {3, 300}) {
    Operand<float, 3> q({1, 1, 2});
    Operand<float, 3> k({400, 1, 2});
    Operand<float, 3> v({400, 1, 1});
    q.fill([] { return 1.0; });
    std::int64_t i = 0;
    k.fill([&] { return i++ / 2 == winner ? 500.0 : -500.0; });
    i = 0;
    v.fill([&] { return static_cast<double>(i++); });
    support::for_each_level([&](auto& ctx) {
      Operand<float, 3> out({1, 1, 1});
      tenon::self_attention(ctx, out.view(), q.view(), k.view(), v.view(), 1.0);
      CHECK(out.view()(0, 0, 0) == static_cast<float>(winner));
    });
  }
}

TEST_CASE("self_attention keeps NaN and infinity to the queries that see them", "[ops][self_attention]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Case c{20, 300, 2, 1, 8, 64};
  for (const float poison : {nan, std::numeric_limits<float>::infinity()}) {
    for (const bool in_key : {false, true}) {
      Problem<float> problem(c);
      const std::int64_t from = 290;  // seen by query 10 and later: 300 - 20 + 10 + 1 > 290
      if (in_key) {
        problem.k.view()(from, 0, 3) = nan;
      } else {
        problem.v.view()(from, 0, 3) = poison;
      }
      support::for_each_level([&](auto& ctx) {
        const auto out = problem.result();
        problem.run(ctx, out);
        INFO(support::describe(ctx));
        for (std::int64_t t = 0; t < 20; ++t) {
          for (std::int64_t h = 0; h < 2; ++h) CHECK(std::isfinite(out.view()(t, h, 3)) == (t < 10));
          CHECK(std::isfinite(out.view()(t, 0, 4)) == (t < 10 || !in_key));
        }
      });
    }
  }
}

TEMPLATE_TEST_CASE("K5, K6: a query gives the same bits alone, in a block, and with any number of threads",
                   "[ops][self_attention]", float, tenon::bfloat16) {
  const Case c{150, 700, 6, 2, 40, 72};
  const Problem<TestType> problem(c);
  support::for_each_level([&](auto& ctx) {
    const auto all = problem.result();
    problem.run(ctx, all);
    const auto threaded = problem.result();
    ctx.set_threads(4);
    problem.run(ctx, threaded);
    CHECK(support::bits(threaded.view()) == support::bits(all.view()));
    const auto single = problem.result();
    for (std::int64_t t = 0; t < c.tokens; ++t) {
      ctx.set_threads(1 + static_cast<int>(t % 3));
      const std::int64_t keys = c.kv_tokens - c.tokens + t + 1;
      tenon::self_attention(ctx, single.view().slice(0, t, t + 1), problem.q.view().slice(0, t, t + 1),
                            problem.k.view().slice(0, 0, keys), problem.v.view().slice(0, 0, keys), problem.scale);
    }
    CHECK(support::bits(single.view()) == support::bits(all.view()));
  });
}

TEST_CASE("self_attention reads keys and values out of a cache with room for more", "[ops][self_attention]") {
  // A cache (capacity, 2, kv heads, d) that interleaves keys and values of a token.
  std::mt19937 random(8);
  Operand<tenon::bfloat16, 4> cache({64, 2, 3, 32});
  cache.fill(random);
  Operand<tenon::bfloat16, 3> q({4, 6, 32});
  q.fill(random);
  const auto k = cache.view().slice(0, 0, 37).select(1, 0);
  const auto v = cache.view().slice(0, 0, 37).select(1, 1);
  const auto expected = tenon::reference::self_attention(q.view(), k, v, 0.25);
  support::for_each_level([&](auto& ctx) {
    Operand<tenon::bfloat16, 3> out({4, 6, 32});
    tenon::self_attention(ctx, out.view(), q.view(), k, v, 0.25);
    CHECK(support::mismatch(out.view(), expected, bound<tenon::bfloat16>({4, 37, 6, 3, 32, 32})) == "");
  });
}

TEMPLATE_TEST_CASE("self_attention with a window sees the last keys alone", "[ops][self_attention]", float, double,
                   tenon::float16, tenon::bfloat16) {
  const std::vector<Case> cases{{1, 9, 2, 1, 8, 8}, {7, 7, 4, 2, 16, 24}, {5, 300, 6, 2, 32, 32}, {9, 4, 2, 2, 8, 8}};
  for (const Case& c : cases) {
    for (const Form form : {Form::contiguous, Form::transposed, Form::reversed}) {
      const Problem<TestType> problem(c, form);
      for (const std::int64_t window : {1, 3, 7, 256, 1000}) {
        const auto expected = tenon::reference::self_attention(problem.q.view(), problem.k.view(), problem.v.view(),
                                                               problem.scale, window);
        support::for_each_level([&](auto& ctx) {
          const auto out = problem.result(form);
          tenon::self_attention(ctx, out.view(), problem.q.view(), problem.k.view(), problem.v.view(), problem.scale,
                                window);
          INFO(support::describe(ctx) << ", " << support::form_name(form) << ", tokens " << c.tokens << " of "
                                      << c.kv_tokens << ", window " << window);
          CHECK(support::mismatch(out.view(), expected, bound<TestType>(c)) == "");
          CHECK(out.intact());
        });
      }
    }
  }
}

TEST_CASE("self_attention with a window keeps NaN to the queries that see it", "[ops][self_attention]") {
  const Case c{12, 40, 2, 1, 8, 8};
  Problem<float> problem(c);
  problem.v.view()(31, 0, 3) =
      std::numeric_limits<float>::quiet_NaN();  // seen by queries 3 to 7: t + 24 <= 31 < t + 29
  support::for_each_level([&](auto& ctx) {
    const auto out = problem.result();
    tenon::self_attention(ctx, out.view(), problem.q.view(), problem.k.view(), problem.v.view(), problem.scale, 5);
    for (std::int64_t t = 0; t < 12; ++t) CHECK(std::isfinite(out.view()(t, 1, 3)) == (t < 3 || t > 7));
  });
  tenon::Context<tenon::Cpu> ctx(1);
  const auto out = problem.result();
  CHECK_THROWS_MATCHES(
      tenon::self_attention(ctx, out.view(), problem.q.view(), problem.k.view(), problem.v.view(), 1.0, -1),
      tenon::ValueError, Catch::Matchers::Message("self_attention: window is -1, not 0 (none) or more"));
}

TEST_CASE("self_attention takes zero and negative scales, and refuses those that are not finite",
          "[ops][self_attention]") {
  const Case c{5, 9, 2, 2, 6, 6};
  Problem<float> problem(c);
  for (const double scale : {0.0, -0.7}) {
    problem.scale = scale;
    support::for_each_level([&](auto& ctx) {
      const auto out = problem.result();
      problem.run(ctx, out);
      CHECK(support::mismatch(out.view(), problem.expected(), bound<float>(c)) == "");
    });
  }
  tenon::Context<tenon::Cpu> ctx(1);
  const auto out = problem.result();
  problem.scale = std::nan("");
  CHECK_THROWS_AS(problem.run(ctx, out), tenon::ValueError);
  problem.scale = std::numeric_limits<double>::infinity();
  CHECK_THROWS_AS(problem.run(ctx, out), tenon::ValueError);
}

TEST_CASE("self_attention names shapes that do not fit", "[ops][self_attention]") {
  tenon::Context<tenon::Cpu> ctx(1);
  const auto run = [&](Sizes<3> out, Sizes<3> q, Sizes<3> k, Sizes<3> v) {
    tenon::self_attention(ctx, Operand<float, 3>(out).view(), Operand<float, 3>(q).view(), Operand<float, 3>(k).view(),
                          Operand<float, 3>(v).view(), 1.0);
  };
  CHECK_THROWS_MATCHES(
      run({2, 4, 8}, {2, 4, 8}, {5, 2, 7}, {5, 2, 8}), tenon::ShapeError,
      Catch::Matchers::Message(
          "self_attention: k has shape (5, 2, 7), expected (5, 2, 8) (kv tokens, kv heads, last size of q)"));
  CHECK_THROWS_MATCHES(
      run({2, 4, 8}, {2, 4, 8}, {5, 2, 8}, {4, 2, 8}), tenon::ShapeError,
      Catch::Matchers::Message(
          "self_attention: v has shape (4, 2, 8), expected (5, 2, 8) (kv tokens and kv heads of k, dv)"));
  CHECK_THROWS_MATCHES(
      run({2, 4, 9}, {2, 4, 8}, {5, 2, 8}, {5, 2, 8}), tenon::ShapeError,
      Catch::Matchers::Message(
          "self_attention: out has shape (2, 4, 9), expected (2, 4, 8) (tokens and heads of q, last size of v)"));
  CHECK_THROWS_MATCHES(run({2, 4, 8}, {2, 4, 8}, {5, 3, 8}, {5, 3, 8}), tenon::ShapeError,
                       Catch::Matchers::Message("self_attention: q has shape (2, 4, 8) and k (5, 3, 8): the heads of q "
                                                "are not a multiple of the heads of k"));
  CHECK_THROWS_AS(run({2, 4, 8}, {2, 4, 8}, {5, 0, 8}, {5, 0, 8}), tenon::ShapeError);
}
