#include <string>
#include <type_traits>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <tenon/runtime/context.hpp>

using tenon::Context;
using tenon::Cpu;
using tenon::SimdLevel;

TEST_CASE("context: threads", "[context]") {
  CHECK(Context<Cpu>().threads() >= 1);
  CHECK(Context<Cpu>(0).threads() == Context<Cpu>().threads());
  CHECK(Context<Cpu>(3).threads() == 3);
  CHECK(Context<Cpu>(Context<Cpu>::max_threads).threads() == Context<Cpu>::max_threads);
  CHECK_THROWS_WITH(Context<Cpu>(-1), "threads: -1 is not between 0 and 1024");
  CHECK_THROWS_AS(Context<Cpu>(1025), tenon::ValueError);
  Context<Cpu> ctx(2);
  const int before = ctx.threads();
  CHECK_THROWS_AS(ctx.set_threads(-7), tenon::ValueError);
  CHECK(ctx.threads() == before);
}

TEST_CASE("E9: the instruction set may be lowered, never raised above the processor's", "[context]") {
  Context<Cpu> ctx(1);
  const SimdLevel best = tenon::detect_simd_level();
  CHECK(ctx.simd_level() == best);
  for (const SimdLevel level : {SimdLevel::portable, SimdLevel::avx2, SimdLevel::avx512}) {
    CAPTURE(tenon::simd_level_name(level));
    if (level <= best) {
      CHECK_NOTHROW(ctx.set_simd_level(level));
      CHECK(ctx.simd_level() == level);
    } else {
      const SimdLevel before = ctx.simd_level();
      CHECK_THROWS_WITH(ctx.set_simd_level(level),
                        "this processor does not support " + std::string(tenon::simd_level_name(level)));
      CHECK(ctx.simd_level() == before);
    }
  }
  // No processor has this one.
  CHECK_THROWS_AS(ctx.set_simd_level(static_cast<SimdLevel>(99)), tenon::DeviceError);
}

TEST_CASE("context: neither copied nor shared by accident", "[context]") {
  static_assert(!std::is_copy_constructible_v<Context<Cpu>> && !std::is_move_constructible_v<Context<Cpu>>);
  static_assert(!std::is_convertible_v<int, Context<Cpu>>);
  Context<Cpu> a(1);
  Context<Cpu> b(1);
  CHECK(&a.workspace() != &b.workspace());
  CHECK_FALSE(a.batch_invariant());
  a.set_batch_invariant(true);
  CHECK(a.batch_invariant());
  CHECK_FALSE(b.batch_invariant());
  a.synchronize();
}

TEST_CASE("E11: an object whose constructor throws leaves nothing half-built behind", "[context]") {
  // Many times, so that a leak or a wrong free shows under a sanitizer; and the next one is sound.
  for (int i = 0; i < 100; ++i) CHECK_THROWS_AS(Context<Cpu>(-1 - i), tenon::ValueError);
  Context<Cpu> ctx(1);
  auto scope = ctx.workspace().scope();
  CHECK(scope.allocate<float>(std::size_t{16}) != nullptr);
}
