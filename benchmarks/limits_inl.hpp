// The two loops of limits.hpp, compiled once for each instruction set; see tenon/cpu/simd/foreach_level.hpp.
#ifdef TENON_SIMD_NAMESPACE

namespace limits::TENON_SIMD_NAMESPACE {

namespace simd = tenon::detail::TENON_SIMD_NAMESPACE;

/// Reads `count` floats, a multiple of 8 vectors, from four places at once, as that is faster than from one; returns
/// something that depends on all of them.
TENON_SIMD_TARGET inline float read_all(simd::Level, const float* data, std::int64_t count) {
  simd::Float a0 = simd::zero(), a1 = a0, a2 = a0, a3 = a0, a4 = a0, a5 = a0, a6 = a0, a7 = a0;
  const std::int64_t quarter = count / 4;
  for (std::int64_t i = 0; i < quarter; i += 2 * simd::width) {
    const float* p = data + i;
    a0 = simd::max(a0, simd::load(p));
    a1 = simd::max(a1, simd::load(p + simd::width));
    a2 = simd::max(a2, simd::load(p + quarter));
    a3 = simd::max(a3, simd::load(p + quarter + simd::width));
    a4 = simd::max(a4, simd::load(p + 2 * quarter));
    a5 = simd::max(a5, simd::load(p + 2 * quarter + simd::width));
    a6 = simd::max(a6, simd::load(p + 3 * quarter));
    a7 = simd::max(a7, simd::load(p + 3 * quarter + simd::width));
  }
  return simd::sum(
      simd::max(simd::max(simd::max(a0, a1), simd::max(a2, a3)), simd::max(simd::max(a4, a5), simd::max(a6, a7))));
}

/// `rounds` times 12 independent multiply-adds of a vector, all in registers: enough to fill two units of latency 5.
TENON_SIMD_TARGET inline float multiply_add(simd::Level, std::int64_t rounds, float factor, float summand) {
  const simd::Float f = simd::broadcast(factor);
  const simd::Float s = simd::broadcast(summand);
  // Twelve different starts: equal ones would be one computation to the compiler.
  simd::Float a0 = simd::broadcast(summand + 1), a1 = simd::broadcast(summand + 2), a2 = simd::broadcast(summand + 3);
  simd::Float a3 = simd::broadcast(summand + 4), a4 = simd::broadcast(summand + 5), a5 = simd::broadcast(summand + 6);
  simd::Float a6 = simd::broadcast(summand + 7), a7 = simd::broadcast(summand + 8), a8 = simd::broadcast(summand + 9);
  simd::Float a9 = simd::broadcast(summand + 10), a10 = simd::broadcast(summand + 11),
              a11 = simd::broadcast(summand + 12);
  for (std::int64_t i = 0; i < rounds; ++i) {
    a0 = simd::fma(a0, f, s);
    a1 = simd::fma(a1, f, s);
    a2 = simd::fma(a2, f, s);
    a3 = simd::fma(a3, f, s);
    a4 = simd::fma(a4, f, s);
    a5 = simd::fma(a5, f, s);
    a6 = simd::fma(a6, f, s);
    a7 = simd::fma(a7, f, s);
    a8 = simd::fma(a8, f, s);
    a9 = simd::fma(a9, f, s);
    a10 = simd::fma(a10, f, s);
    a11 = simd::fma(a11, f, s);
  }
  const simd::Float low = simd::add(simd::add(simd::add(a0, a1), simd::add(a2, a3)), simd::add(a4, a5));
  const simd::Float high = simd::add(simd::add(simd::add(a6, a7), simd::add(a8, a9)), simd::add(a10, a11));
  return simd::sum(simd::add(low, high));
}

}  // namespace limits::TENON_SIMD_NAMESPACE

#endif
