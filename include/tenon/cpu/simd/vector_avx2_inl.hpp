// AVX2, FMA, F16C: 8 floats. Included by vector_inl.hpp; simd.hpp explains the names.
#include <tenon/core/config.hpp>

#if defined(TENON_SIMD_WIDTH) && TENON_SIMD_WIDTH == 8

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

struct Level {
  static constexpr SimdLevel value = SimdLevel::avx2;
};
using Float = __m256;
inline constexpr std::int64_t width = TENON_SIMD_WIDTH;

// All bits set in the first `count` lanes.
TENON_SIMD_INLINE __m256i lanes(std::int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

TENON_SIMD_INLINE Float zero() { return _mm256_setzero_ps(); }
TENON_SIMD_INLINE Float broadcast(float x) { return _mm256_set1_ps(x); }

TENON_SIMD_INLINE Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
TENON_SIMD_INLINE Float sub(Float a, Float b) { return _mm256_sub_ps(a, b); }
TENON_SIMD_INLINE Float mul(Float a, Float b) { return _mm256_mul_ps(a, b); }
TENON_SIMD_INLINE Float div(Float a, Float b) { return _mm256_div_ps(a, b); }
TENON_SIMD_INLINE Float sqrt(Float a) { return _mm256_sqrt_ps(a); }
TENON_SIMD_INLINE Float fma(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
TENON_SIMD_INLINE Float min(Float a, Float b) { return _mm256_min_ps(a, b); }
TENON_SIMD_INLINE Float max(Float a, Float b) { return _mm256_max_ps(a, b); }
TENON_SIMD_INLINE Float neg(Float a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0f)); }

TENON_SIMD_INLINE bool any_nan(Float a) { return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) != 0; }

TENON_SIMD_INLINE Float widen_bfloat16(__m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}
TENON_SIMD_INLINE Float widen_float16(__m128i bits) { return _mm256_cvtph_ps(bits); }

// Round to nearest even in the upper 16 bits; NaN is made quiet instead, as core/float16.hpp does.
TENON_SIMD_INLINE __m256i bfloat16_bits(Float v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i high = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), quiet, nan);
}
TENON_SIMD_INLINE __m128i narrow_bfloat16(Float v) {
  const __m256i bits = bfloat16_bits(v);
  return _mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}
TENON_SIMD_INLINE __m128i narrow_float16(Float v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT); }
TENON_SIMD_INLINE Float round_to_bfloat16(Float v) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(bfloat16_bits(v), 16));
}
TENON_SIMD_INLINE Float round_to_float16(Float v) { return widen_float16(narrow_float16(v)); }

// AVX2 cannot mask 16-bit lanes: rows' ends go through a small buffer.
template <class T>
TENON_SIMD_INLINE __m128i load_bits(const T* p, std::int64_t count) {
  std::uint16_t buffer[8] = {};
  for (std::int64_t i = 0; i < count; ++i) buffer[i] = p[i].bits();
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(buffer));
}
template <class T>
TENON_SIMD_INLINE void store_bits(T* p, __m128i bits, std::int64_t count) {
  std::uint16_t buffer[8];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(buffer), bits);
  for (std::int64_t i = 0; i < count; ++i) p[i] = T::from_bits(buffer[i]);
}

TENON_SIMD_INLINE Float load(const float* p) { return _mm256_loadu_ps(p); }
TENON_SIMD_INLINE Float load(const bfloat16* p) {
  return widen_bfloat16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TENON_SIMD_INLINE Float load(const float16* p) {
  return widen_float16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TENON_SIMD_INLINE Float load(const float* p, std::int64_t count) { return _mm256_maskload_ps(p, lanes(count)); }
TENON_SIMD_INLINE Float load(const bfloat16* p, std::int64_t count) { return widen_bfloat16(load_bits(p, count)); }
TENON_SIMD_INLINE Float load(const float16* p, std::int64_t count) { return widen_float16(load_bits(p, count)); }

TENON_SIMD_INLINE void store(float* p, Float v) { _mm256_storeu_ps(p, v); }
TENON_SIMD_INLINE void store(bfloat16* p, Float v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_bfloat16(v));
}
TENON_SIMD_INLINE void store(float16* p, Float v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), narrow_float16(v));
}
TENON_SIMD_INLINE void store(float* p, Float v, std::int64_t count) { _mm256_maskstore_ps(p, lanes(count), v); }
TENON_SIMD_INLINE void store(bfloat16* p, Float v, std::int64_t count) { store_bits(p, narrow_bfloat16(v), count); }
TENON_SIMD_INLINE void store(float16* p, Float v, std::int64_t count) { store_bits(p, narrow_float16(v), count); }

TENON_SIMD_INLINE void stream(float* p, Float v) { _mm256_stream_ps(p, v); }
TENON_SIMD_INLINE void stream_fence() { _mm_sfence(); }

TENON_SIMD_INLINE float sum(Float v) {
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
TENON_SIMD_INLINE float max_element(Float v) {
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

TENON_SIMD_INLINE Float round_to_integer(Float v) {
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
// In two steps, since 2^n may lie outside the normal numbers where the result does not.
TENON_SIMD_INLINE Float scale_by_power_of_2(Float v, Float n) {
  const __m256i whole = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256i a = _mm256_slli_epi32(_mm256_add_epi32(half, bias), 23);
  const __m256i b = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), bias), 23);
  return _mm256_mul_ps(_mm256_mul_ps(v, _mm256_castsi256_ps(a)), _mm256_castsi256_ps(b));
}

// Three butterflies: pairs of rows exchange single floats, then pairs, then blocks of 4.
TENON_SIMD_INLINE void transpose(Float (&rows)[8]) {
  Float t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    const __m256 a = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    const __m256 b = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    const __m256 c = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]);
    const __m256 d = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
    t[i] = _mm256_shuffle_ps(a, c, 0x44);
    t[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    t[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    t[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(t[i], t[i + 4], 0x31);
  }
}

// The same butterflies, adding as they go: half of the vectors are left after each.
TENON_SIMD_INLINE Float sum_each(Float (&rows)[8]) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    rows[i] = _mm256_add_ps(_mm256_unpacklo_ps(rows[i], rows[i + 1]), _mm256_unpackhi_ps(rows[i], rows[i + 1]));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    rows[i] =
        _mm256_add_ps(_mm256_shuffle_ps(rows[i], rows[i + 2], 0x44), _mm256_shuffle_ps(rows[i], rows[i + 2], 0xee));
  }
  return _mm256_add_ps(_mm256_permute2f128_ps(rows[0], rows[4], 0x20), _mm256_permute2f128_ps(rows[0], rows[4], 0x31));
}

TENON_SIMD_INLINE Float mul_complex(Float a, Float b) {
  const Float crossed = _mm256_mul_ps(_mm256_movehdup_ps(a), _mm256_permute_ps(b, 0xb1));
  return _mm256_fmaddsub_ps(_mm256_moveldup_ps(a), b, crossed);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
