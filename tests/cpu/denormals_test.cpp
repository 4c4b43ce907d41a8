// Denormal numbers: flushed inside kernels, and nowhere else.
#include <tenon/cpu/simd/denormals.hpp>

#include <tenon/ops/linear.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/tensor.hpp>

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>
#include <stdexcept>

namespace {

using tenon::Sizes;
using tenon::View;

// What this thread makes of a denormal result: 0 while they are flushed.
float denormal_result() {
  volatile float smallest = 0x1p-126f;
  volatile float half = 0.5f;
  return smallest * half;
}

#if defined(__x86_64__)
constexpr bool can_flush = true;
unsigned control() { return _mm_getcsr() & ~0x3fu; }  // without the sticky flags
#else
constexpr bool can_flush = false;
unsigned control() { return 0; }
#endif

}  // namespace

TEST_CASE("N20: denormals are flushed inside the scope only", "[denormals]") {
  const unsigned before = control();
  REQUIRE(denormal_result() == 0x1p-127f);
  {
    const tenon::detail::ScopedFlushDenormals flush;
    CHECK(denormal_result() == (can_flush ? 0.0f : 0x1p-127f));
    {
      const tenon::detail::ScopedFlushDenormals nested;
      CHECK(denormal_result() == (can_flush ? 0.0f : 0x1p-127f));
    }
    CHECK(denormal_result() == (can_flush ? 0.0f : 0x1p-127f));
  }
  CHECK(denormal_result() == 0x1p-127f);
  CHECK(control() == before);
}

TEST_CASE("N20: an exception restores every thread's setting", "[denormals]") {
  tenon::Context<tenon::Cpu> ctx(3);
  const unsigned before = control();
  CHECK_THROWS_AS(tenon::parallel_run(ctx, 3,
                                      [](int thread) {
                                        const tenon::detail::ScopedFlushDenormals flush;
                                        if (thread != 1) throw std::runtime_error("stop");
                                      }),
                  std::runtime_error);
  CHECK(control() == before);
  std::atomic<int> changed = 0;
  tenon::parallel_run(ctx, 3, [&](int) { changed += control() != before ? 1 : 0; });
  CHECK(changed == 0);
}

TEST_CASE("N20: linear leaves the caller's setting alone, also after an error", "[denormals]") {
  for (const int threads : {1, 3}) {
    tenon::Context<tenon::Cpu> ctx(threads);
    const unsigned before = control();
    for (const std::int64_t m : {1, 64}) {
      auto in = tenon::detail::allocate_tensor<float>(ctx, Sizes<2>{m, 300});
      auto weight = tenon::detail::allocate_tensor<float>(ctx, Sizes<2>{400, 300});
      auto out = tenon::detail::allocate_tensor<float>(ctx, Sizes<2>{m, 400});
      std::fill_n(in.data(), in.numel(), 1e-39f);
      std::fill_n(weight.data(), weight.numel(), 1.0f);
      tenon::linear(ctx, View<float, 2>(out), in, View<float, 2>(weight), std::nullopt);
      CHECK(out(0, 0) <= 300 * 1e-39f);
      CHECK(control() == before);
      CHECK(denormal_result() == 0x1p-127f);
      CHECK_THROWS_AS(tenon::linear(ctx, View<float, 2>(out), in, View<float, 2>(weight.slice(0, 0, 5)), std::nullopt),
                      tenon::ShapeError);
      CHECK(control() == before);
    }
  }
}
