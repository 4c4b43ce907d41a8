// AVX-512 F, BW, DQ, VL: 16 floats. Included by vector_inl.hpp; simd.hpp explains the names.
#include <tenon/core/config.hpp>

#if defined(TENON_SIMD_WIDTH) && TENON_SIMD_WIDTH == 16

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

struct Level {
  static constexpr SimdLevel value = SimdLevel::avx512;
};
using Float = __m512;
inline constexpr std::int64_t width = TENON_SIMD_WIDTH;

// The first `count` lanes.
TENON_SIMD_INLINE __mmask16 lanes(std::int64_t count) { return static_cast<__mmask16>((1u << count) - 1u); }

// Several intrinsics below are the zero-masking forms with a full mask: the plain forms start from an undefined
// register, which GCC 12 reports as an uninitialised variable of the caller. The instructions are the same.
inline constexpr __mmask16 all_lanes = 0xffff;

TENON_SIMD_INLINE Float zero() { return _mm512_setzero_ps(); }
TENON_SIMD_INLINE Float broadcast(float x) { return _mm512_set1_ps(x); }

TENON_SIMD_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
TENON_SIMD_INLINE Float sub(Float a, Float b) { return _mm512_sub_ps(a, b); }
TENON_SIMD_INLINE Float mul(Float a, Float b) { return _mm512_mul_ps(a, b); }
TENON_SIMD_INLINE Float div(Float a, Float b) { return _mm512_div_ps(a, b); }
TENON_SIMD_INLINE Float sqrt(Float a) { return _mm512_maskz_sqrt_ps(all_lanes, a); }
TENON_SIMD_INLINE Float fma(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
TENON_SIMD_INLINE Float min(Float a, Float b) { return _mm512_maskz_min_ps(all_lanes, a, b); }
TENON_SIMD_INLINE Float max(Float a, Float b) { return _mm512_maskz_max_ps(all_lanes, a, b); }
TENON_SIMD_INLINE Float neg(Float a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0f)); }

TENON_SIMD_INLINE bool any_nan(Float a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0; }

TENON_SIMD_INLINE Float widen_bfloat16(__m256i bits) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(all_lanes, _mm512_maskz_cvtepu16_epi32(all_lanes, bits), 16));
}
TENON_SIMD_INLINE Float widen_float16(__m256i bits) { return _mm512_maskz_cvtph_ps(all_lanes, bits); }

// Round to nearest even in the upper 16 bits; NaN is made quiet instead, as core/float16.hpp does.
TENON_SIMD_INLINE __m512i bfloat16_bits(Float v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i high = _mm512_maskz_srli_epi32(all_lanes, bits, 16);
  const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(_mm512_maskz_srli_epi32(all_lanes, sum, 16), nan, high, _mm512_set1_epi32(0x40));
}
TENON_SIMD_INLINE __m256i narrow_bfloat16(Float v) { return _mm512_maskz_cvtepi32_epi16(all_lanes, bfloat16_bits(v)); }
TENON_SIMD_INLINE __m256i narrow_float16(Float v) {
  return _mm512_maskz_cvtps_ph(all_lanes, v, _MM_FROUND_TO_NEAREST_INT);
}
TENON_SIMD_INLINE Float round_to_bfloat16(Float v) {
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(all_lanes, bfloat16_bits(v), 16));
}
TENON_SIMD_INLINE Float round_to_float16(Float v) { return widen_float16(narrow_float16(v)); }

TENON_SIMD_INLINE Float load(const float* p) { return _mm512_loadu_ps(p); }
TENON_SIMD_INLINE Float load(const bfloat16* p) {
  return widen_bfloat16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TENON_SIMD_INLINE Float load(const float16* p) {
  return widen_float16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TENON_SIMD_INLINE Float load(const float* p, std::int64_t count) { return _mm512_maskz_loadu_ps(lanes(count), p); }
TENON_SIMD_INLINE Float load(const bfloat16* p, std::int64_t count) {
  return widen_bfloat16(_mm256_maskz_loadu_epi16(lanes(count), p));
}
TENON_SIMD_INLINE Float load(const float16* p, std::int64_t count) {
  return widen_float16(_mm256_maskz_loadu_epi16(lanes(count), p));
}

TENON_SIMD_INLINE void store(float* p, Float v) { _mm512_storeu_ps(p, v); }
TENON_SIMD_INLINE void store(bfloat16* p, Float v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_bfloat16(v));
}
TENON_SIMD_INLINE void store(float16* p, Float v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), narrow_float16(v));
}
TENON_SIMD_INLINE void store(float* p, Float v, std::int64_t count) { _mm512_mask_storeu_ps(p, lanes(count), v); }
TENON_SIMD_INLINE void store(bfloat16* p, Float v, std::int64_t count) {
  _mm256_mask_storeu_epi16(p, lanes(count), narrow_bfloat16(v));
}
TENON_SIMD_INLINE void store(float16* p, Float v, std::int64_t count) {
  _mm256_mask_storeu_epi16(p, lanes(count), narrow_float16(v));
}

TENON_SIMD_INLINE void stream(float* p, Float v) { _mm512_stream_ps(p, v); }
TENON_SIMD_INLINE void stream_fence() { _mm_sfence(); }

TENON_SIMD_INLINE float sum(Float v) {
  const __m256 half = _mm256_add_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1));
  __m128 s = _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  s = _mm_add_ps(s, _mm_movehl_ps(s, s));
  return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}
TENON_SIMD_INLINE float max_element(Float v) {
  const __m256 half = _mm256_max_ps(_mm512_maskz_extractf32x8_ps(0xff, v, 0), _mm512_maskz_extractf32x8_ps(0xff, v, 1));
  __m128 m = _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1));
  m = _mm_max_ps(m, _mm_movehl_ps(m, m));
  return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

TENON_SIMD_INLINE Float round_to_integer(Float v) {
  return _mm512_maskz_roundscale_ps(all_lanes, v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
TENON_SIMD_INLINE Float scale_by_power_of_2(Float v, Float n) { return _mm512_maskz_scalef_ps(all_lanes, v, n); }

// Four butterflies: pairs of rows exchange single floats, then pairs, then blocks of 4, then of 8.
TENON_SIMD_INLINE void transpose(Float (&rows)[16]) {
  Float t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    const __m512 a = _mm512_maskz_unpacklo_ps(all_lanes, rows[i], rows[i + 1]);
    const __m512 b = _mm512_maskz_unpackhi_ps(all_lanes, rows[i], rows[i + 1]);
    const __m512 c = _mm512_maskz_unpacklo_ps(all_lanes, rows[i + 2], rows[i + 3]);
    const __m512 d = _mm512_maskz_unpackhi_ps(all_lanes, rows[i + 2], rows[i + 3]);
    t[i] = _mm512_maskz_shuffle_ps(all_lanes, a, c, 0x44);
    t[i + 1] = _mm512_maskz_shuffle_ps(all_lanes, a, c, 0xee);
    t[i + 2] = _mm512_maskz_shuffle_ps(all_lanes, b, d, 0x44);
    t[i + 3] = _mm512_maskz_shuffle_ps(all_lanes, b, d, 0xee);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    const __m512 a = _mm512_maskz_shuffle_f32x4(all_lanes, t[i], t[i + 4], 0x88);
    const __m512 b = _mm512_maskz_shuffle_f32x4(all_lanes, t[i], t[i + 4], 0xdd);
    const __m512 c = _mm512_maskz_shuffle_f32x4(all_lanes, t[i + 8], t[i + 12], 0x88);
    const __m512 d = _mm512_maskz_shuffle_f32x4(all_lanes, t[i + 8], t[i + 12], 0xdd);
    rows[i] = _mm512_maskz_shuffle_f32x4(all_lanes, a, c, 0x88);
    rows[i + 8] = _mm512_maskz_shuffle_f32x4(all_lanes, a, c, 0xdd);
    rows[i + 4] = _mm512_maskz_shuffle_f32x4(all_lanes, b, d, 0x88);
    rows[i + 12] = _mm512_maskz_shuffle_f32x4(all_lanes, b, d, 0xdd);
  }
}

// The same butterflies, adding as they go: half of the vectors are left after each.
TENON_SIMD_INLINE Float sum_each(Float (&rows)[16]) {
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    rows[i] = _mm512_add_ps(_mm512_maskz_unpacklo_ps(all_lanes, rows[i], rows[i + 1]),
                            _mm512_maskz_unpackhi_ps(all_lanes, rows[i], rows[i + 1]));
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    rows[i] = _mm512_add_ps(_mm512_maskz_shuffle_ps(all_lanes, rows[i], rows[i + 2], 0x44),
                            _mm512_maskz_shuffle_ps(all_lanes, rows[i], rows[i + 2], 0xee));
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 8) {
    rows[i] = _mm512_add_ps(_mm512_maskz_shuffle_f32x4(all_lanes, rows[i], rows[i + 4], 0x88),
                            _mm512_maskz_shuffle_f32x4(all_lanes, rows[i], rows[i + 4], 0xdd));
  }
  return _mm512_add_ps(_mm512_maskz_shuffle_f32x4(all_lanes, rows[0], rows[8], 0x88),
                       _mm512_maskz_shuffle_f32x4(all_lanes, rows[0], rows[8], 0xdd));
}

TENON_SIMD_INLINE Float mul_complex(Float a, Float b) {
  const Float crossed =
      _mm512_mul_ps(_mm512_maskz_movehdup_ps(all_lanes, a), _mm512_maskz_permute_ps(all_lanes, b, 0xb1));
  return _mm512_fmaddsub_ps(_mm512_maskz_moveldup_ps(all_lanes, a), b, crossed);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
