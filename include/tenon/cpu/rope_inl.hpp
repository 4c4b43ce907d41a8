// Rotation of one head. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// Pairs (in[i], in[i + half]) for i < half; `out` may be `in`.
template <class T>
TENON_SIMD_TARGET void rope_row(Level, T* out, const T* in, const float* cos, const float* sin, std::int64_t half) {
  for (std::int64_t i = 0; i < half; i += width) {
    const std::int64_t count = half - i < width ? half - i : width;
    const bool whole = count == width;
    const Float c = rounded_to<T>(whole ? load(cos + i) : load(cos + i, count));
    const Float s = rounded_to<T>(whole ? load(sin + i) : load(sin + i, count));
    const Float x = whole ? load(in + i) : load(in + i, count);
    const Float y = whole ? load(in + half + i) : load(in + half + i, count);
    const Float first = sub(rounded_to<T>(mul(x, c)), rounded_to<T>(mul(y, s)));
    const Float second = add(rounded_to<T>(mul(y, c)), rounded_to<T>(mul(x, s)));
    if (whole) {
      store(out + i, first);
      store(out + half + i, second);
    } else {
      store(out + i, first, count);
      store(out + half + i, second, count);
    }
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
