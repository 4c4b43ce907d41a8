// self_attention on CUDA: every kernel that it may choose, against the reference.
#include <tenon/ops/self_attention.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/cuda/context.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::OnDevice;
using support::Operand;
using tenon::Cuda;
using tenon::Sizes;
using Context = tenon::Context<Cuda>;

namespace {

// Shape of a call: tokens, kv tokens, heads, kv heads, d, dv.
struct Case {
  std::int64_t tokens, kv_tokens, heads, kv_heads, d, dv;
};

std::string describe(const Case& c) {
  return "tokens " + std::to_string(c.tokens) + " of " + std::to_string(c.kv_tokens) + ", heads " +
         std::to_string(c.heads) + " on " + std::to_string(c.kv_heads) + ", d " + std::to_string(c.d) + ", dv " +
         std::to_string(c.dv);
}

/// Tensors in the form that models have them, as fast kernels need it: rows at multiples of 16 bytes. Operands start off
/// any alignment, so this takes views that begin a few elements later.
template <class T>
class Aligned {
 public:
  Aligned(const Sizes<3>& sizes) : host_({1, sizes[0] * sizes[1] * sizes[2] + 16}), sizes_(sizes) {}

  tenon::View<T, 3> view() const { return {host_.view().data() + skip, sizes_}; }
  void fill(std::mt19937& random, double low, double high) {
    std::uniform_real_distribution<double> distribution(low, high);
    for (std::int64_t i = 0; i < view().numel(); ++i)
      view().data()[i] = tenon::detail::convert<T>(distribution(random));
  }
  Operand<T, 2>& host() { return host_; }
  const Operand<T, 2>& host() const { return host_; }
  /// The same elements of a copy on the device.
  tenon::View<T, 3, Cuda> on(const OnDevice<T, 2>& device) const { return {device.view().data() + skip, sizes_}; }

 private:
  // Operand leaves 5 elements before the first one.
  static constexpr std::int64_t skip = 11;
  Operand<T, 2> host_;
  Sizes<3> sizes_;
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
    return tenon::reference::self_attention(q.view(), k.view(), v.view(), scale, window);
  }
  void run(Context& ctx, Operand<T, 3>& out) const {
    const OnDevice device_q(ctx, q);
    const OnDevice device_k(ctx, k);
    const OnDevice device_v(ctx, v);
    const OnDevice device_out(ctx, out);
    tenon::self_attention(ctx, device_out.view(), device_q.view(), device_k.view(), device_v.view(), scale, window);
    device_out.read_back(out);
  }

  Operand<T, 3> q, k, v;
  Case shape;
  double scale;
  std::int64_t window = 0;
};

/// The same with aligned rows.
template <class T>
struct AlignedProblem {
  explicit AlignedProblem(const Case& c, double size = 1.0, unsigned seed = 1)
      : q({c.tokens, c.heads, c.d}),
        k({c.kv_tokens, c.kv_heads, c.d}),
        v({c.kv_tokens, c.kv_heads, c.dv}),
        out({c.tokens, c.heads, c.dv}),
        shape(c),
        scale(1.0 / std::sqrt(static_cast<double>(c.d))) {
    std::mt19937 random(seed);
    q.fill(random, -size, size);
    k.fill(random, -size, size);
    v.fill(random, -2, 2);
  }
  [[nodiscard]] std::vector<double> expected() const {
    return tenon::reference::self_attention(q.view(), k.view(), v.view(), scale, window);
  }
  void run(Context& ctx) {
    const OnDevice device_q(ctx, q.host());
    const OnDevice device_k(ctx, k.host());
    const OnDevice device_v(ctx, v.host());
    const OnDevice device_out(ctx, out.host());
    tenon::self_attention<T>(ctx, out.on(device_out), q.on(device_q), k.on(device_k), v.on(device_v), scale, window);
    device_out.read_back(out.host());
  }
  [[nodiscard]] T result(std::int64_t token, std::int64_t head, std::int64_t column) const {
    return out.view()(token, head, column);
  }

  Aligned<T> q, k, v, out;
  Case shape;
  double scale;
  std::int64_t window = 0;
};

// An error in a score moves its weight by as much in relative terms: scores are sums of d products of size 1.
template <class T>
support::Tolerance bound(const Case& c, double score = 4.0) {
  return support::tolerance<T>(c.d + c.kv_tokens, 2.0 * (1.0 + score), 1.0);
}

template <class T>
void check_aligned(Context& ctx, const Case& c, std::int64_t window = 0) {
  AlignedProblem<T> problem(c);
  problem.window = window;
  problem.run(ctx);
  INFO(describe(c) << ", window " << window << ", aligned");
  CHECK(support::mismatch(problem.out.view(), problem.expected(), bound<T>(c)) == "");
  const auto first = support::bits(problem.out.host().view());
  problem.run(ctx);
  CHECK(support::bits(problem.out.host().view()) == first);
}

}  // namespace

TEMPLATE_TEST_CASE("self_attention on CUDA equals its definition for every shape and layout", "[cuda][self_attention]",
                   float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  const std::vector<Case> cases{{1, 1, 1, 1, 1, 1},     {3, 3, 2, 1, 5, 7},    {5, 5, 4, 4, 16, 16},
                                {2, 7, 6, 2, 64, 64},   {9, 20, 7, 1, 33, 17}, {4, 4, 2, 2, 8, 0},
                                {0, 5, 2, 2, 8, 8},     {3, 3, 2, 1, 0, 4},    {13, 40, 6, 3, 24, 80},
                                {33, 70, 4, 2, 36, 72}, {40, 40, 2, 1, 0, 4},  {65, 66, 2, 2, 2, 130}};
  for (const Case& c : cases) {
    for (const Form form : support::all_forms) {
      const Problem<TestType> problem(c, form);
      auto out = problem.result(form == Form::broadcast ? Form::padded : form);
      problem.run(ctx, out);
      INFO(support::form_name(form) << ", " << describe(c));
      CHECK(support::mismatch(out.view(), problem.expected(), bound<TestType>(c)) == "");
      CHECK(out.intact());
    }
  }
}

TEMPLATE_TEST_CASE("self_attention on CUDA at the borders of tiles, groups and sizes of heads",
                   "[cuda][self_attention]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t tokens : {1, 2, 7, 16, 17, 63, 64, 65, 130}) {
    for (const std::int64_t before : {0, 1, 64, 77}) {
      check_aligned<TestType>(ctx, {tokens, tokens + before, 2, 1, 32, 32});
    }
  }
  for (const std::int64_t group : {1, 2, 6, 7, 12}) {
    for (const std::int64_t tokens : {1, 3, 70}) {
      check_aligned<TestType>(ctx, {tokens, 130, 2 * group, 2, 64, 64});
    }
  }
  for (const std::int64_t d : {2, 8, 16, 24, 32, 40, 64, 72, 80, 96, 128, 160, 256}) {
    for (const std::int64_t tokens : {1, 5, 66}) {
      check_aligned<TestType>(ctx, {tokens, 150, 2, 1, d, d});
      check_aligned<TestType>(ctx, {tokens, 150, 2, 1, d, d == 64 ? 128 : 64});
    }
  }
  for (const std::int64_t tokens : {4, 40}) {
    check_aligned<TestType>(ctx, {tokens, 50, 2, 1, 264, 32});
    check_aligned<TestType>(ctx, {tokens, 50, 2, 1, 32, 300});
  }
}

TEMPLATE_TEST_CASE("self_attention on CUDA with many keys and queries", "[cuda][self_attention]", float, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  check_aligned<TestType>(ctx, {300, 300, 6, 1, 128, 128});
  check_aligned<TestType>(ctx, {140, 500, 6, 1, 64, 64});
  // Enough heads for the widest tiles of queries on a large device.
  check_aligned<TestType>(ctx, {130, 130, 198, 1, 40, 40});
  check_aligned<TestType>(ctx, {200, 300, 198, 2, 72, 72}, 70);
  // Keys that are split: one step and several, for one row of queries and several.
  for (const std::int64_t keys : {127, 128, 129, 200, 257, 1000, 2049}) {
    check_aligned<TestType>(ctx, {1, keys, 12, 2, 128, 128});
    check_aligned<TestType>(ctx, {3, keys, 7, 1, 64, 64});
  }
  check_aligned<TestType>(ctx, {1, 9000, 3, 1, 64, 64});
  check_aligned<TestType>(ctx, {2, 1500, 20, 20, 16, 16});
}

TEMPLATE_TEST_CASE("self_attention on CUDA with a window", "[cuda][self_attention]", float, double, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t window : {1, 5, 63, 64, 65, 100, 1000}) {
    check_aligned<TestType>(ctx, {1, 300, 4, 2, 64, 64}, window);
    check_aligned<TestType>(ctx, {7, 300, 4, 2, 64, 64}, window);
    check_aligned<TestType>(ctx, {70, 90, 2, 1, 32, 32}, window);
    check_aligned<TestType>(ctx, {140, 330, 2, 1, 128, 128}, window);
    check_aligned<TestType>(ctx, {20, 15, 2, 1, 20, 12}, window);
    Problem<TestType> problem({50, 80, 2, 1, 12, 20}, Form::transposed);
    problem.window = window;
    auto out = problem.result(Form::stepped);
    problem.run(ctx, out);
    INFO("transposed, window " << window);
    CHECK(support::mismatch(out.view(), problem.expected(), bound<TestType>(problem.shape)) == "");
    CHECK(out.intact());
  }
}

TEMPLATE_TEST_CASE("N12: on CUDA, a query that sees no key gives zeros", "[cuda][self_attention]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const Case& c : {Case{6, 3, 4, 2, 8, 24}, Case{6, 0, 4, 2, 8, 24}, Case{100, 30, 4, 2, 64, 64},
                        Case{100, 0, 2, 1, 128, 128}, Case{70, 2, 2, 1, 6, 6}, Case{30, 1, 1, 1, 300, 8}}) {
    AlignedProblem<TestType> problem(c);
    problem.run(ctx);
    INFO(describe(c));
    CHECK(support::mismatch(problem.out.view(), problem.expected(), bound<TestType>(c)) == "");
    std::int64_t others = 0;
    for (std::int64_t t = 0; t < c.tokens - c.kv_tokens; ++t) {
      for (std::int64_t h = 0; h < c.heads; ++h) {
        for (std::int64_t i = 0; i < c.dv; ++i) others += static_cast<double>(problem.result(t, h, i)) == 0.0 ? 0 : 1;
      }
    }
    CHECK(others == 0);
  }
}

TEMPLATE_TEST_CASE("self_attention on CUDA keeps NaN and infinity to the queries that see them",
                   "[cuda][self_attention]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  for (const Case& c : {Case{20, 300, 2, 1, 8, 64}, Case{12, 300, 7, 1, 64, 64}, Case{100, 300, 2, 1, 128, 128},
                        Case{9, 200, 2, 1, 12, 20}, Case{40, 300, 2, 1, 20, 36}, Case{10, 100, 1, 1, 260, 64}}) {
    for (const std::int64_t window : {0, 6}) {
      for (const double poison : {nan, infinity, -infinity}) {
        for (const bool in_key : {false, true}) {
          AlignedProblem<TestType> problem(c);
          problem.window = window;
          const std::int64_t from = c.kv_tokens - 9;  // seen by the last 9 queries, or the first 6 of these
          auto& poisoned = in_key ? problem.k : problem.v;
          poisoned.view()(from, 0, 3) = tenon::detail::convert<TestType>(in_key ? nan : poison);
          problem.run(ctx);
          INFO(describe(c) << ", window " << window << ", " << poison << (in_key ? " as NaN in a key" : " in a value"));
          std::int64_t wrong = 0;
          for (std::int64_t t = 0; t < c.tokens; ++t) {
            const std::int64_t past = t - (c.tokens - 9);
            const bool sees = past >= 0 && (window == 0 || past < window);
            for (std::int64_t h = 0; h < c.heads; ++h) {
              wrong += std::isfinite(static_cast<double>(problem.result(t, h, 3))) == !sees ? 0 : 1;
              wrong += std::isfinite(static_cast<double>(problem.result(t, h, 4))) == (!sees || !in_key) ? 0 : 1;
            }
          }
          CHECK(wrong == 0);
          CHECK(support::mismatch(problem.out.view(), problem.expected(), bound<TestType>(c)) == "");
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("N7: on CUDA, scores beyond the range of float16 stay finite", "[cuda][self_attention]",
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t tokens : {3, 80}) {
    const Case c{tokens, tokens + 37, 7, 1, 64, 64};
    AlignedProblem<TestType> problem(c, 1.0, 5);
    std::mt19937 random(6);
    problem.q.fill(random, 199, 201);
    problem.k.fill(random, 199, 201);
    problem.run(ctx);
    // A score of 3.2e5 is good to about 0.03 in float, so weights are good to a few per cent.
    CHECK(support::mismatch(problem.out.view(), problem.expected(), support::Tolerance{0.25, 0.1}) == "");
    // Without noise: the value whose key is largest wins, exactly.
    for (std::int64_t i = 0; i < problem.q.view().numel(); ++i) problem.q.view().data()[i] = TestType(200.0f);
    for (std::int64_t i = 0; i < problem.k.view().numel(); ++i) {
      problem.k.view().data()[i] = TestType(i / 64 == 17 ? 250.0f : 200.0f);
    }
    problem.run(ctx);
    for (std::int64_t h = 0; h < 7; ++h) {
      for (std::int64_t e = 0; e < 64; ++e) {
        CHECK(static_cast<float>(problem.result(tokens - 1, h, e)) == static_cast<float>(problem.v.view()(17, 0, e)));
      }
    }
  }
}

TEMPLATE_TEST_CASE("N7: on CUDA, scores near the end of float share their weight among the largest ones",
                   "[cuda][self_attention]", float, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  // A score is about ten times the product of two of these, and rounded by far more than exp can take.
  const float large = std::is_same_v<TestType, tenon::float16> ? 60000.0f : 1e15f;
  for (const std::int64_t tokens : {1, 4, 80}) {
    for (const double scale : {0.3, -0.3}) {
      AlignedProblem<TestType> problem({tokens, 400, 2, 1, 32, 32});
      problem.scale = scale;
      for (std::int64_t i = 0; i < problem.q.view().numel(); ++i) problem.q.view().data()[i] = TestType(large);
      for (std::int64_t i = 0; i < problem.k.view().numel(); ++i) {
        const bool wins = i / 32 == 17 || i / 32 == 290;
        problem.k.view().data()[i] = TestType((scale < 0 ? -1.0f : 1.0f) * (wins ? large : 0.5f * large));
      }
      problem.run(ctx);
      INFO("tokens " << tokens << ", scale " << scale);
      CHECK(support::mismatch(problem.out.view(), problem.expected(), support::tolerance<TestType>(32, 4.0, 1.0)) ==
            "");
    }
  }
}

TEMPLATE_TEST_CASE("N11: on CUDA, logits far below zero, and tiles that hold nothing for a row",
                   "[cuda][self_attention]", float, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t tokens : {88, 2}) {
    const Case c{tokens, 448, 7, 1, 16, 16};
    AlignedProblem<TestType> problem(c);
    std::mt19937 random(7);
    problem.q.fill(random, 15.8, 15.9);
    problem.k.fill(random, -15.9, -15.8);
    problem.run(ctx);
    CHECK(support::mismatch(problem.out.view(), problem.expected(), support::Tolerance{2e-3, 0x1p-8}) == "");
  }
  // One key outweighs all others, in whatever tile or range it is.
  for (const std::int64_t tokens : {1, 100}) {
    for (const std::int64_t winner : {3, 200, 300}) {
      AlignedProblem<TestType> problem({tokens, 400, 1, 1, 8, 8});
      for (std::int64_t i = 0; i < problem.q.view().numel(); ++i) problem.q.view().data()[i] = TestType(1.0f);
      for (std::int64_t i = 0; i < problem.k.view().numel(); ++i) {
        problem.k.view().data()[i] = TestType(i / 8 == winner ? 500.0f : -500.0f);
      }
      problem.scale = 1.0;
      problem.run(ctx);
      CHECK(static_cast<float>(problem.result(tokens - 1, 0, 5)) == static_cast<float>(problem.v.view()(winner, 0, 5)));
    }
  }
}

TEMPLATE_TEST_CASE("self_attention on CUDA takes zero and negative scales", "[cuda][self_attention]", float,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  for (const std::int64_t tokens : {5, 90}) {
    for (const double scale : {0.0, -0.7}) {
      AlignedProblem<TestType> problem({tokens, tokens + 9, 2, 2, 32, 32});
      problem.scale = scale;
      problem.run(ctx);
      INFO("tokens " << tokens << ", scale " << scale);
      CHECK(support::mismatch(problem.out.view(), problem.expected(), bound<TestType>(problem.shape, 24.0)) == "");
    }
  }
}

TEMPLATE_TEST_CASE("self_attention on CUDA reads keys and values out of a cache with room for more",
                   "[cuda][self_attention]", float, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  // A cache (capacity, 2, kv heads, d) that interleaves keys and values of a token, and q out of q, k and v side by side.
  std::mt19937 random(8);
  Operand<TestType, 4> cache({200, 2, 3, 32});
  cache.fill(random);
  for (const std::int64_t tokens : {4, 37, 100}) {
    Operand<TestType, 3> qkv({tokens, 12, 32});
    qkv.fill(random);
    Operand<TestType, 3> out({tokens, 6, 32});
    const auto select = [&](const auto& view, std::int64_t which) {
      return view.slice(0, 0, tokens + 33).select(1, which);
    };
    const auto expected = tenon::reference::self_attention(qkv.view().slice(1, 0, 6), select(cache.view(), 0),
                                                           select(cache.view(), 1), 0.25);
    const OnDevice device_cache(ctx, cache);
    const OnDevice device_qkv(ctx, qkv);
    const OnDevice device_out(ctx, out);
    tenon::self_attention(ctx, device_out.view(), device_qkv.view().slice(1, 0, 6), select(device_cache.view(), 0),
                          select(device_cache.view(), 1), 0.25);
    device_out.read_back(out);
    INFO("tokens " << tokens);
    CHECK(support::mismatch(out.view(), expected, bound<TestType>({tokens, tokens + 33, 6, 3, 32, 32})) == "");
    CHECK(out.intact());
  }
}

TEMPLATE_TEST_CASE("G10: self_attention on CUDA finds rows beyond 2^31 elements", "[cuda][self_attention]",
                   tenon::bfloat16, tenon::float16) {
  TENON_NEEDS_CUDA();
  Context ctx;
  using T = TestType;
  constexpr std::int64_t tokens = 20;
  constexpr std::int64_t apart = (std::int64_t{1} << 27) + 8;
  constexpr std::size_t bytes = (static_cast<std::size_t>(tokens) * apart + 256) * sizeof(T);
  if (tenon::Runtime<Cuda>::free_memory() < 2 * bytes) SKIP("the device has too little memory left");
  const auto memory = tenon::allocate_storage(ctx, bytes);
  auto* base = reinterpret_cast<T*>(memory.data());
  const tenon::Layout<3> layout({tokens, 1, 64}, {apart, 64, 1});
  const tenon::View<T, 3, Cuda> q(base, layout);
  const tenon::View<T, 3, Cuda> k(base + 64, layout);
  const tenon::View<T, 3, Cuda> v(base + 128, layout);
  const tenon::View<T, 3, Cuda> out(base + 192, layout);
  const auto put = [&](const tenon::View<T, 3, Cuda>& to, const tenon::View<T, 3>& from) {
    for (std::int64_t t = 0; t < tokens; ++t) {
      tenon::detail::copy_bytes(ctx, reinterpret_cast<std::byte*>(to.ptr(t, 0, 0)),
                                reinterpret_cast<const std::byte*>(from.ptr(t, 0, 0)), 64 * sizeof(T),
                                tenon::DeviceKind::cuda, tenon::DeviceKind::cpu);
    }
  };
  AlignedProblem<T> problem({tokens, tokens, 1, 1, 64, 64});
  const auto expected = problem.expected();
  put(q, problem.q.view());
  put(k, problem.k.view());
  put(v, problem.v.view());
  for (const std::int64_t first : {0, 18}) {  // all queries, and the last two
    tenon::self_attention<T>(ctx, out.slice(0, first, tokens), q.slice(0, first, tokens), k, v, problem.scale);
    for (std::int64_t t = first; t < tokens; ++t) {
      tenon::detail::copy_bytes(ctx, reinterpret_cast<std::byte*>(problem.out.view().ptr(t, 0, 0)),
                                reinterpret_cast<const std::byte*>(out.ptr(t, 0, 0)), 64 * sizeof(T),
                                tenon::DeviceKind::cpu, tenon::DeviceKind::cuda);
    }
    INFO("queries from " << first);
    CHECK(support::mismatch(problem.out.view(), expected, bound<T>(problem.shape)) == "");
  }
}

TEST_CASE("self_attention on CUDA refuses what the CPU refuses, in the same words", "[cuda][self_attention]") {
  TENON_NEEDS_CUDA();
  Context ctx;
  tenon::Context<tenon::Cpu> host(1);
  const auto message = [](auto&& call) -> std::string {
    try {
      call();
    } catch (const tenon::Error& error) {
      return error.what();
    }
    return "nothing was thrown";
  };
  struct Call {
    Sizes<3> out, q, k, v;
    double scale;
    std::int64_t window;
  };
  const std::vector<Call> calls{{{2, 4, 8}, {2, 4, 8}, {5, 2, 7}, {5, 2, 8}, 1.0, 0},
                                {{2, 4, 8}, {2, 4, 8}, {5, 2, 8}, {4, 2, 8}, 1.0, 0},
                                {{2, 4, 9}, {2, 4, 8}, {5, 2, 8}, {5, 2, 8}, 1.0, 0},
                                {{2, 4, 8}, {2, 4, 8}, {5, 3, 8}, {5, 3, 8}, 1.0, 0},
                                {{2, 4, 8}, {2, 4, 8}, {5, 0, 8}, {5, 0, 8}, 1.0, 0},
                                {{2, 4, 8}, {2, 4, 8}, {5, 2, 8}, {5, 2, 8}, std::nan(""), 0},
                                {{2, 4, 8}, {2, 4, 8}, {5, 2, 8}, {5, 2, 8}, 1.0, -1}};
  for (const Call& call : calls) {
    const Operand<float, 3> out(call.out);
    const Operand<float, 3> q(call.q);
    const Operand<float, 3> k(call.k);
    const Operand<float, 3> v(call.v);
    const std::string expected = message(
        [&] { tenon::self_attention(host, out.view(), q.view(), k.view(), v.view(), call.scale, call.window); });
    const std::string actual = message([&] {
      tenon::self_attention(ctx, OnDevice(ctx, out).view(), OnDevice(ctx, q).view(), OnDevice(ctx, k).view(),
                            OnDevice(ctx, v).view(), call.scale, call.window);
    });
    CHECK(expected.starts_with("self_attention: "));
    CHECK(actual == expected);
  }
  const Operand<float, 3> shared({2, 4, 8}, Form::broadcast);
  const Operand<float, 3> q({2, 4, 8});
  const OnDevice device(ctx, q);
  CHECK_THROWS_AS(
      tenon::self_attention(ctx, OnDevice(ctx, shared).view(), device.view(), device.view(), device.view(), 1.0),
      tenon::ShapeError);
}
