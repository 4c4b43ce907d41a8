// Contexts for operator tests: every instruction set that the processor has, one thread and several.
#pragma once

#include <array>
#include <string>

#include <tenon/runtime/context.hpp>

namespace support {

inline constexpr std::array<tenon::SimdLevel, 3> simd_levels{tenon::SimdLevel::portable, tenon::SimdLevel::avx2,
                                                             tenon::SimdLevel::avx512};

/// Calls `body(ctx)` with a context of every level that this processor has.
template <class Body>
void for_each_level(Body&& body, int threads = 1) {
  for (const tenon::SimdLevel level : simd_levels) {
    if (level > tenon::detect_simd_level()) continue;
    tenon::Context<tenon::Cpu> ctx(threads);
    ctx.set_simd_level(level);
    body(ctx);
  }
}

inline std::string describe(const tenon::Context<tenon::Cpu>& ctx) {
  return std::string(tenon::simd_level_name(ctx.simd_level())) + ", " + std::to_string(ctx.threads()) + " threads";
}

}  // namespace support
