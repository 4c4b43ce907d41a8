// Includes the file TENON_SIMD_BODY once for each instruction set that the compiler can target, lowest first.
//
// A kernel is written once, in a file `*_inl.hpp` without `#pragma once`, and a header next to it says
//
//     #define TENON_SIMD_BODY <tenon/cpu/swiglu_inl.hpp>
//     #include <tenon/cpu/simd/foreach_level.hpp>
//
// outside of any namespace. While the body is read, these macros are defined, and nowhere else:
//   TENON_SIMD_NAMESPACE  simd_portable, simd_avx2 or simd_avx512: the namespace, inside tenon::detail, that holds the
//                         vocabulary of <tenon/cpu/simd/simd.hpp> for this level and takes the body's functions
//   TENON_SIMD_TARGET     attribute of every function of the body that uses the vocabulary (a function template too)
//   TENON_SIMD_INLINE     the same with `inline` and always_inline: for small helpers that take or return vectors
//   TENON_SIMD_WIDTH      floats in a vector: 4, 8 or 16
// A body expands to nothing where TENON_SIMD_NAMESPACE is not defined, so that it compiles when it is included alone.
// It uses no lambda around vectors: GCC compiles a lambda for the default target.
//
// These macros are an exception to "no macros outside core/config.hpp"; none is left defined.

#ifdef TENON_SIMD_BODY

#define TENON_SIMD_NAMESPACE simd_portable
#define TENON_SIMD_TARGET
#define TENON_SIMD_INLINE inline __attribute__((always_inline))
#define TENON_SIMD_WIDTH 4
#include TENON_SIMD_BODY
#undef TENON_SIMD_NAMESPACE
#undef TENON_SIMD_TARGET
#undef TENON_SIMD_INLINE
#undef TENON_SIMD_WIDTH

#if defined(__x86_64__)

#define TENON_SIMD_NAMESPACE simd_avx2
#define TENON_SIMD_TARGET __attribute__((target("avx2,fma,f16c")))
#define TENON_SIMD_INLINE inline __attribute__((always_inline, target("avx2,fma,f16c")))
#define TENON_SIMD_WIDTH 8
#include TENON_SIMD_BODY
#undef TENON_SIMD_NAMESPACE
#undef TENON_SIMD_TARGET
#undef TENON_SIMD_INLINE
#undef TENON_SIMD_WIDTH

#define TENON_SIMD_NAMESPACE simd_avx512
#define TENON_SIMD_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define TENON_SIMD_INLINE \
  inline __attribute__((always_inline, target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")))
#define TENON_SIMD_WIDTH 16
#include TENON_SIMD_BODY
#undef TENON_SIMD_NAMESPACE
#undef TENON_SIMD_TARGET
#undef TENON_SIMD_INLINE
#undef TENON_SIMD_WIDTH

#endif

#undef TENON_SIMD_BODY

#endif
