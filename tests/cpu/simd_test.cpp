// The vector vocabulary, at every instruction set that this processor has, against scalar code.
#include <tenon/cpu/simd/simd.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#define TENON_SIMD_BODY <cpu/simd_test_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

namespace {

using tenon::bfloat16;
using tenon::float16;
using tenon::SimdLevel;
using tenon::detail::visit_simd_level;

constexpr float infinity = std::numeric_limits<float>::infinity();
constexpr float quiet_nan = std::numeric_limits<float>::quiet_NaN();

std::uint32_t bits(float x) { return std::bit_cast<std::uint32_t>(x); }

template <class Visitor>
void for_each_level(Visitor&& visitor) {
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512}) {
    if (level > tenon::detect_simd_level()) continue;
    INFO(tenon::simd_level_name(level));
    visit_simd_level(level, visitor);
  }
}

// Floats around everything that rounding to 16 bits distinguishes: each upper half with lower halves at and next to ties.
std::vector<float> floats_around_ties() {
  std::vector<float> result;
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0x0000u, 0x0001u, 0x0fffu, 0x1000u, 0x1001u, 0x3000u, 0x7fffu, 0x8000u, 0x8001u}) {
      result.push_back(std::bit_cast<float>((high << 16) | low));
    }
  }
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("vectors widen every 16-bit value exactly", "[simd]", float16, bfloat16) {
  std::vector<TestType> narrow(0x10000);
  for (std::uint32_t i = 0; i < 0x10000; ++i) narrow[i] = TestType::from_bits(static_cast<std::uint16_t>(i));
  for_each_level([&](auto level) {
    std::vector<float> wide(narrow.size());
    test_convert(level, narrow.data(), wide.data(), 0x10000);
    int wrong = 0;
    for (std::size_t i = 0; i < narrow.size(); ++i) {
      const float expected = narrow[i];
      if (std::isnan(expected) ? !std::isnan(wide[i]) : bits(wide[i]) != bits(expected)) ++wrong;
    }
    CHECK(wrong == 0);
  });
}

TEMPLATE_TEST_CASE("vectors narrow to nearest even and keep NaN, like core/float16.hpp", "[simd]", float16, bfloat16) {
  const std::vector<float> wide = floats_around_ties();
  const auto n = static_cast<std::int64_t>(wide.size());
  for_each_level([&](auto level) {
    std::vector<TestType> narrow(wide.size());
    std::vector<float> rounded(wide.size());
    test_convert(level, wide.data(), narrow.data(), n);
    test_rounded_to<TestType>(level, wide.data(), rounded.data(), n);
    int wrong = 0;
    for (std::size_t i = 0; i < wide.size(); ++i) {
      const TestType expected(wide[i]);
      if (std::isnan(wide[i])) {
        if (!std::isnan(float(narrow[i])) || !std::isnan(rounded[i])) ++wrong;
      } else if (narrow[i].bits() != expected.bits() || bits(rounded[i]) != bits(float(expected))) {
        ++wrong;
      }
    }
    CHECK(wrong == 0);
  });
}

TEMPLATE_TEST_CASE("masked loads and stores leave everything else alone", "[simd]", float, float16, bfloat16) {
  for_each_level([&](auto level) {
    for (std::int64_t n = 0; n <= 2 * test_width(level); ++n) {
      // Exactly n elements, so that a sanitizer sees reads beyond them.
      std::vector<TestType> src;
      for (std::int64_t i = 0; i < n; ++i) src.push_back(TestType(static_cast<float>(i + 1)));
      std::vector<TestType> dst(static_cast<std::size_t>(n), TestType(-7.0f));
      test_convert(level, src.data(), dst.data(), n);
      std::vector<TestType> guarded(static_cast<std::size_t>(n) + 20, TestType(-7.0f));
      test_convert(level, src.data(), guarded.data(), n);
      for (std::size_t i = 0; i < guarded.size(); ++i) {
        const bool inside = i < dst.size();
        CHECK(float(guarded[i]) == (inside ? static_cast<float>(i + 1) : -7.0f));
        if (inside) CHECK(float(dst[i]) == static_cast<float>(i + 1));
      }
    }
  });
}

TEST_CASE("vectors compute like scalars, NaN and infinity included", "[simd]") {
  const std::vector<float> values{0.0f, -0.0f, 1.0f,     -1.5f,     3.25f,     1e-3f, 1e20f, -1e20f,
                                  2.5f, 1e38f, infinity, -infinity, quiet_nan, 7.0f,  0.1f,  9.0f};
  for_each_level([&](auto level) {
    for (std::size_t shift = 0; shift < values.size(); ++shift) {
      float a[16];
      float b[16];
      float c[16];
      for (std::size_t i = 0; i < 16; ++i) {
        a[i] = values[i];
        b[i] = values[(i + shift) % 16];
        c[i] = values[(i + 5) % 16];
      }
      std::vector<float> results(9 * 16);
      const auto width = static_cast<std::size_t>(test_arithmetic(level, a, b, c, results.data()));
      for (std::size_t i = 0; i < width; ++i) {
        const auto same = [&](std::size_t operation, float expected) {
          const float value = results[operation * width + i];
          return std::isnan(expected) ? std::isnan(value) : bits(value) == bits(expected);
        };
        CAPTURE(a[i], b[i], c[i]);
        CHECK(same(0, a[i] + b[i]));
        CHECK(same(1, a[i] - b[i]));
        CHECK(same(2, a[i] * b[i]));
        CHECK(same(3, a[i] / b[i]));
        CHECK((same(4, std::fma(a[i], b[i], c[i])) || same(4, a[i] * b[i] + c[i])));
        CHECK(same(5, a[i] < b[i] ? a[i] : b[i]));
        CHECK(same(6, a[i] > b[i] ? a[i] : b[i]));
        CHECK(same(7, -a[i]));
        CHECK(same(8, std::sqrt(a[i])));
      }
    }
  });
}

TEST_CASE("vectors reduce all of their lanes", "[simd]") {
  for_each_level([&](auto level) {
    const auto width = static_cast<std::size_t>(test_width(level));
    for (std::size_t lane = 0; lane < width; ++lane) {
      std::vector<float> a(width, 1.0f);
      a[lane] = 5.0f;
      CHECK(test_sum(level, a.data()) == static_cast<float>(width) + 4.0f);
      CHECK(test_max_element(level, a.data()) == 5.0f);
      const std::vector<float> ones(width, 1.0f);
      CHECK_FALSE(test_any_nan(level, a.data()));
      a[lane] = quiet_nan;
      CHECK(test_any_nan(level, a.data()));
      CHECK(std::isnan(test_sum(level, a.data())));
    }
  });
}

TEST_CASE("transpose swaps rows and lanes", "[simd]") {
  for_each_level([&](auto level) {
    const auto width = static_cast<std::size_t>(test_width(level));
    std::vector<float> src(width * width);
    for (std::size_t i = 0; i < src.size(); ++i) src[i] = static_cast<float>(i);
    std::vector<float> dst(src.size());
    test_transpose(level, src.data(), dst.data());
    int wrong = 0;
    for (std::size_t i = 0; i < width; ++i) {
      for (std::size_t j = 0; j < width; ++j) wrong += dst[i * width + j] != src[j * width + i] ? 1 : 0;
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("exp is within 2 ulp, and exact where it leaves the range", "[simd]") {
  std::vector<float> x;
  for (float v = -104.0f; v < 89.0f; v += 0.0021f) x.push_back(v);
  for (const float v : {0.0f, -0.0f, 88.72283f, -87.33654f, -103.97f, 1e-30f, -1e-30f}) x.push_back(v);
  for_each_level([&](auto level) {
    std::vector<float> y(x.size());
    test_exp(level, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      if (expected > 3.4028235e38) {
        CHECK(y[i] == infinity);
        continue;
      }
      const double ulp = std::max(std::ldexp(1.0, std::ilogb(expected) - 23), 0x1p-149);
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / ulp);
    }
    CHECK(worst <= 2.0);
    const std::vector<float> special{infinity, -infinity, quiet_nan, 1000.0f, -1000.0f, 3.4e38f, -3.4e38f};
    std::vector<float> result(special.size());
    test_exp(level, special.data(), result.data(), static_cast<std::int64_t>(special.size()));
    CHECK(result[0] == infinity);
    CHECK(bits(result[1]) == 0);
    CHECK(std::isnan(result[2]));
    CHECK(result[3] == infinity);
    CHECK(bits(result[4]) == 0);
    CHECK(result[5] == infinity);
    CHECK(bits(result[6]) == 0);
  });
}

TEST_CASE("silu follows its formula", "[simd]") {
  std::vector<float> x;
  for (float v = -80.0f; v < 80.0f; v += 0.0173f) x.push_back(v);
  for_each_level([&](auto level) {
    std::vector<float> y(x.size());
    test_silu(level, x.data(), y.data(), static_cast<std::int64_t>(x.size()));
    double worst = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const auto v = static_cast<double>(x[i]);
      const double expected = v / (1.0 + std::exp(-v));
      worst = std::max(worst, std::abs(static_cast<double>(y[i]) - expected) / std::abs(expected));
    }
    CHECK(worst <= 3 * 0x1p-23);
    const std::vector<float> special{infinity, -100.0f, quiet_nan, 0.0f};
    std::vector<float> result(special.size());
    test_silu(level, special.data(), result.data(), 4);
    CHECK(result[0] == infinity);
    CHECK(result[1] == 0.0f);
    CHECK(std::isnan(result[2]));
    CHECK(result[3] == 0.0f);
  });
}
