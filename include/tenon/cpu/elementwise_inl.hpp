// Kernels on contiguous stretches: sums, gated activations, conversions. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

template <class T>
TENON_SIMD_TARGET void add_row(Level, T* out, const T* a, const T* b, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(out + i, add(load(a + i), load(b + i)));
  if (i < n) store(out + i, add(load(a + i, n - i), load(b + i, n - i)), n - i);
}

template <class T>
TENON_SIMD_TARGET void swiglu_row(Level, T* out, const T* gate, const T* up, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(out + i, mul(rounded_to<T>(silu(load(gate + i))), load(up + i)));
  if (i < n) {
    const std::int64_t rest = n - i;
    store(out + i, mul(rounded_to<T>(silu(load(gate + i, rest))), load(up + i, rest)), rest);
  }
}

template <class To, class From>
TENON_SIMD_TARGET void convert_row(Level, To* out, const From* in, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(out + i, load(in + i));
  if (i < n) store(out + i, load(in + i, n - i), n - i);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
