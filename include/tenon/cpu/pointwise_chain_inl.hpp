// Runs a PointwiseChain. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// Vectors that one round of a chain works on: enough for the processor to overlap their operations.
inline constexpr int chain_vectors = 4;
inline constexpr std::int64_t chain_block = chain_vectors * width;

template <bool Tail, class T>
TENON_SIMD_INLINE Float chain_load(const T* x, std::int64_t count) {
  if constexpr (Tail) {
    return load(x, count);
  } else {
    return load(x);
  }
}

// NV vectors, or the first `count` elements of one with Tail. Operand k has its elements at x[k].
template <int NV, bool Tail, bool Stream, class T>
TENON_SIMD_INLINE void run_chain_block(const PointwiseChain& chain, T* out, const T* const* x, std::int64_t count) {
  Float a[NV];
  Float b[NV];
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) a[v] = b[v] = zero();
  for (int s = 0; s < chain.size(); ++s) {
    const T* p = x[chain[s].operand];
    switch (chain[s].code) {
      case ChainCode::load_a:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = chain_load<Tail>(p + v * width, count);
        break;
      case ChainCode::load_b:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = chain_load<Tail>(p + v * width, count);
        break;
      case ChainCode::sum_ax:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(add(a[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::sum_bx:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = rounded_to<T>(add(b[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::sum_ab:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(add(a[v], b[v]));
        break;
      case ChainCode::product_ax:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(mul(a[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::product_bx:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = rounded_to<T>(mul(b[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::product_ab:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(mul(a[v], b[v]));
        break;
      case ChainCode::complex_ax:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(mul_complex(a[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::complex_bx:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = rounded_to<T>(mul_complex(b[v], chain_load<Tail>(p + v * width, count)));
        break;
      case ChainCode::complex_ab:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(mul_complex(a[v], b[v]));
        break;
      case ChainCode::relu_a:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = max(zero(), a[v]);
        break;
      case ChainCode::relu_b:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = max(zero(), b[v]);
        break;
      case ChainCode::silu_a:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) a[v] = rounded_to<T>(silu(a[v]));
        break;
      case ChainCode::silu_b:
#pragma GCC unroll 4
        for (int v = 0; v < NV; ++v) b[v] = rounded_to<T>(silu(b[v]));
        break;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < NV; ++v) {
    if constexpr (Tail) {
      store(out, a[v], count);
    } else if constexpr (Stream) {
      stream(out + v * width, a[v]);
    } else {
      store(out + v * width, a[v]);
    }
  }
}

/// Runs a chain on n elements. Operand k of `operands` has them at x[k], contiguous, or, where repeats[k], a block of equal
/// elements there. x moves on. With Stream, which wants `out` aligned to a vector, results go past the caches.
template <bool Stream, class T>
TENON_SIMD_TARGET void run_chain(Level, const PointwiseChain& chain, T* out, const T** x, const bool* repeats,
                                 int operands, std::int64_t n) {
  for (; n >= chain_block; n -= chain_block, out += chain_block) {
    run_chain_block<chain_vectors, false, Stream>(chain, out, x, width);
    for (int k = 0; k < operands; ++k) x[k] += repeats[k] ? 0 : chain_block;
  }
  while (n > 0) {
    const std::int64_t count = n < width ? n : width;
    run_chain_block<1, true, false>(chain, out, x, count);
    for (int k = 0; k < operands; ++k) x[k] += repeats[k] ? 0 : count;
    out += count;
    n -= count;
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
