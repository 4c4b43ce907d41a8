// Any processor: 4 floats in a vector of GCC's and Clang's language extension, which becomes SSE2, NEON or scalar code.
// Included by vector_inl.hpp; simd.hpp explains the names.
#include <tenon/core/config.hpp>

#if defined(TENON_SIMD_WIDTH) && TENON_SIMD_WIDTH == 4

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

struct Level {
  static constexpr SimdLevel value = SimdLevel::portable;
};
using Float = float __attribute__((vector_size(16)));
using Bits = std::uint32_t __attribute__((vector_size(16)));
inline constexpr std::int64_t width = TENON_SIMD_WIDTH;

TENON_SIMD_INLINE Float zero() { return Float{0.0f, 0.0f, 0.0f, 0.0f}; }
TENON_SIMD_INLINE Float broadcast(float x) { return Float{x, x, x, x}; }

TENON_SIMD_INLINE Float add(Float a, Float b) { return a + b; }
TENON_SIMD_INLINE Float sub(Float a, Float b) { return a - b; }
TENON_SIMD_INLINE Float mul(Float a, Float b) { return a * b; }
TENON_SIMD_INLINE Float div(Float a, Float b) { return a / b; }
TENON_SIMD_INLINE Float sqrt(Float a) {
  return Float{std::sqrt(a[0]), std::sqrt(a[1]), std::sqrt(a[2]), std::sqrt(a[3])};
}
TENON_SIMD_INLINE Float fma(Float a, Float b, Float c) { return a * b + c; }
TENON_SIMD_INLINE Float min(Float a, Float b) { return a < b ? a : b; }
TENON_SIMD_INLINE Float max(Float a, Float b) { return a > b ? a : b; }
TENON_SIMD_INLINE Float neg(Float a) { return -a; }

TENON_SIMD_INLINE bool any_nan(Float a) {
  return std::isnan(a[0]) || std::isnan(a[1]) || std::isnan(a[2]) || std::isnan(a[3]);
}

TENON_SIMD_INLINE Float round_to_bfloat16(Float v) {
  return Float{bfloat16(v[0]), bfloat16(v[1]), bfloat16(v[2]), bfloat16(v[3])};
}
TENON_SIMD_INLINE Float round_to_float16(Float v) {
  return Float{float16(v[0]), float16(v[1]), float16(v[2]), float16(v[3])};
}

TENON_SIMD_INLINE Float load(const float* p) {
  Float v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
TENON_SIMD_INLINE Float load(const bfloat16* p) {
  const Bits bits{p[0].bits(), p[1].bits(), p[2].bits(), p[3].bits()};
  return std::bit_cast<Float>(bits << 16);
}
TENON_SIMD_INLINE Float load(const float16* p) { return Float{p[0], p[1], p[2], p[3]}; }
template <class T>
TENON_SIMD_INLINE Float load(const T* p, std::int64_t count) {
  Float v = zero();
  for (std::int64_t i = 0; i < count; ++i) v[i] = p[i];
  return v;
}

TENON_SIMD_INLINE void store(float* p, Float v) { std::memcpy(p, &v, sizeof v); }
template <class T>
TENON_SIMD_INLINE void store(T* p, Float v) {
  for (std::int64_t i = 0; i < width; ++i) p[i] = T(v[i]);
}
template <class T>
TENON_SIMD_INLINE void store(T* p, Float v, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) p[i] = T(v[i]);
}

TENON_SIMD_INLINE void stream(float* p, Float v) { store(p, v); }
TENON_SIMD_INLINE void stream_fence() {}

TENON_SIMD_INLINE float sum(Float v) { return (v[0] + v[2]) + (v[1] + v[3]); }
TENON_SIMD_INLINE float max_element(Float v) {
  const float a = v[0] > v[2] ? v[0] : v[2];
  const float b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}

// Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low bits; for |v| below 2^22.
TENON_SIMD_INLINE Float round_to_integer(Float v) {
  const Float shift = broadcast(0x1.8p23f);
  return (v + shift) - shift;
}
// In two steps, since 2^n may lie outside the normal numbers where the result does not.
TENON_SIMD_INLINE Float scale_by_power_of_2(Float v, Float n) {
  const Bits biased = std::bit_cast<Bits>(n + broadcast(0x1.8p23f)) - 0x4b400000u + 254u;  // n + 2 * 127
  const Bits half = biased >> 1;
  return v * std::bit_cast<Float>(half << 23) * std::bit_cast<Float>((biased - half) << 23);
}

TENON_SIMD_INLINE void transpose(Float (&rows)[4]) {
  const Float a = rows[0];
  const Float b = rows[1];
  const Float c = rows[2];
  const Float d = rows[3];
  for (int i = 0; i < 4; ++i) rows[i] = Float{a[i], b[i], c[i], d[i]};
}

TENON_SIMD_INLINE Float sum_each(Float (&rows)[4]) {
  return Float{sum(rows[0]), sum(rows[1]), sum(rows[2]), sum(rows[3])};
}

TENON_SIMD_INLINE Float mul_complex(Float a, Float b) {
  return Float{a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0], a[2] * b[2] - a[3] * b[3],
               a[2] * b[3] + a[3] * b[2]};
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
