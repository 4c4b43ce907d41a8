// The loops that set the limits. Compiled for every level; see <tenon/cpu/simd/foreach_level.hpp>.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// Reads `n` floats, a multiple of 8 * width, and returns something that depends on all of them.
TENON_SIMD_TARGET inline float read_all(Level, const float* p, std::int64_t n) {
  Float sums[8];
  for (auto& s : sums) s = zero();
  for (std::int64_t i = 0; i < n; i += 8 * width) {
    for (int k = 0; k < 8; ++k) sums[k] = add(sums[k], load(p + i + k * width));
  }
  Float total = zero();
  for (const auto& s : sums) total = add(total, s);
  return sum(total);
}

/// `rounds` rounds of 16 independent fma: 2 * 16 * width operations each.
TENON_SIMD_TARGET inline float multiply_add(Level, std::int64_t rounds, float x) {
  const Float a = broadcast(x);
  Float b = broadcast(0.25f);
  Float sums[16];
  for (auto& s : sums) s = broadcast(x);
  for (std::int64_t i = 0; i < rounds; ++i) {
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) sums[k] = fma(sums[k], a, b);
  }
  Float total = zero();
  for (const auto& s : sums) total = add(total, s);
  return sum(total);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
