// Which instruction set the CPU kernels use. All of them are compiled in; the choice is made at run time.
#pragma once

#include <cstdint>
#include <string_view>

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

/// Levels in ascending order; each includes the ones below it.
enum class SimdLevel : std::uint8_t {
  portable,  ///< what the compiler makes of plain C++ for its default target
  avx2,      ///< AVX2, FMA and F16C
  avx512     ///< AVX-512 F, BW, DQ and VL
};

constexpr std::string_view simd_level_name(SimdLevel level) noexcept {
  switch (level) {
    case SimdLevel::avx512: return "avx512";
    case SimdLevel::avx2: return "avx2";
    default: return "portable";
  }
}

namespace detail {
/// F16C, which __builtin_cpu_supports of g++ 12 does not know: CPUID leaf 1, ECX bit 29.
inline bool cpu_has_f16c() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & (1u << 29)) != 0;
#else
  return false;
#endif
}
}  // namespace detail

/// The highest level that this processor and its operating system support.
inline SimdLevel detect_simd_level() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  // __builtin_cpu_supports looks at CPUID and at what the operating system saves (XGETBV).
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && detail::cpu_has_f16c();
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    return SimdLevel::avx512;
  }
  if (avx2) return SimdLevel::avx2;
#endif
  return SimdLevel::portable;
}

TENON_NAMESPACE_END
