// The largest element of a contiguous row. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// Largest of `n` elements, a multiple of 4 * width; NaN where one of them is.
template <class T>
TENON_SIMD_TARGET float block_max(const T* in, std::int64_t n) {
  Float largest[4];
  for (int k = 0; k < 4; ++k) largest[k] = load(in + k * width);
  bool nan = any_nan(largest[0]) || any_nan(largest[1]) || any_nan(largest[2]) || any_nan(largest[3]);
  for (std::int64_t i = 4 * width; i < n; i += 4 * width) {
    for (int k = 0; k < 4; ++k) {
      const Float x = load(in + i + k * width);
      nan |= any_nan(x);
      largest[k] = max(x, largest[k]);
    }
  }
  if (nan) return std::numeric_limits<float>::quiet_NaN();
  return max_element(max(max(largest[0], largest[1]), max(largest[2], largest[3])));
}

/// Index of the first NaN, or else of the first of the largest; n > 0. Finds the block first, then looks inside it.
template <class T>
TENON_SIMD_TARGET std::int64_t argmax_row(Level, const T* in, std::int64_t n) {
  constexpr std::int64_t block = 64 * width;
  float largest = in[0];
  std::int64_t from = 0;
  std::int64_t i = 0;
  for (; i + block <= n && largest == largest; i += block) {
    const float found = block_max(in + i, block);
    if (found > largest || found != found) {
      largest = found;
      from = i;
    }
  }
  if (i < n && largest == largest) {
    const std::int64_t best = argmax_strided(in, 1, i, n);
    const float found = in[best];
    if (found > largest || found != found) return best;
  }
  return argmax_strided(in, 1, from, from + block < n ? from + block : n);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
