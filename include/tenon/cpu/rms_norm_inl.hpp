// One row of rms_norm. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// Sum of the squares of a row. Four sums hide the latency of fma; their order depends on the length alone.
template <class T>
TENON_SIMD_TARGET float sum_of_squares(const T* in, std::int64_t n) {
  Float sums[4] = {zero(), zero(), zero(), zero()};
  std::int64_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    for (int k = 0; k < 4; ++k) {
      const Float x = load(in + i + k * width);
      sums[k] = fma(x, x, sums[k]);
    }
  }
  for (; i + width <= n; i += width) {
    const Float x = load(in + i);
    sums[0] = fma(x, x, sums[0]);
  }
  if (i < n) {
    const Float x = load(in + i, n - i);
    sums[1] = fma(x, x, sums[1]);
  }
  return sum(add(add(sums[0], sums[1]), add(sums[2], sums[3])));
}

template <class T>
TENON_SIMD_TARGET void rms_norm_row(Level, T* out, const T* in, const T* weight, std::int64_t n, float eps) {
  const float scale = 1.0f / std::sqrt(sum_of_squares(in, n) / static_cast<float>(n) + eps);
  const Float factor = broadcast(scale);
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    store(out + i, mul(rounded_to<T>(mul(load(in + i), factor)), load(weight + i)));
  }
  if (i < n) {
    const std::int64_t rest = n - i;
    store(out + i, mul(rounded_to<T>(mul(load(in + i, rest), factor)), load(weight + i, rest)), rest);
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
