// One row of sliced_softmax. Compiled for every level; see simd.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

// Largest of n >= 1 elements; where some are NaN, any of the others or NaN.
template <class T>
TENON_SIMD_TARGET float largest_element(const T* in, std::int64_t n) {
  if (n < width) {
    float largest = in[0];
    for (std::int64_t i = 1; i < n; ++i)
      largest = largest < static_cast<float>(in[i]) ? static_cast<float>(in[i]) : largest;
    return largest;
  }
  Float a = load(in);
  Float b = load(in + n - width);  // overlaps what comes before it
  std::int64_t i = width;
  for (; i + 2 * width <= n; i += 2 * width) {
    a = max(a, load(in + i));
    b = max(b, load(in + i + width));
  }
  if (i + width <= n) a = max(a, load(in + i));
  return max_element(max(a, b));
}

// The exponentials of in - largest, and their sum. float keeps them in `out`; for other types they are formed again.
template <class T>
TENON_SIMD_TARGET float sum_of_exponentials(T* out, const T* in, Float largest, std::int64_t n) {
  Float total = zero();
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    const Float e = exp(sub(load(in + i), largest));
    if constexpr (std::is_same_v<T, float>) store(out + i, e);
    total = add(total, e);
  }
  if (i < n) {
    const Float e = exp(sub(load(in + i, n - i), largest));
    if constexpr (std::is_same_v<T, float>) store(out + i, e, n - i);
    float buffer[width];
    store(buffer, e);
    total = add(total, load(buffer, n - i));
  }
  return sum(total);
}

template <class T>
TENON_SIMD_INLINE Float exponential(Float x, Float largest) {
  if constexpr (std::is_same_v<T, float>) return x;
  return exp(sub(x, largest));
}

template <class T>
TENON_SIMD_TARGET void softmax_row(Level, T* out, const T* in, std::int64_t n) {
  if (n == 0) return;
  const Float largest = broadcast(largest_element(in, n));
  const Float total = broadcast(sum_of_exponentials(out, in, largest, n));
  const T* from = std::is_same_v<T, float> ? out : in;
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(out + i, div(exponential<T>(load(from + i), largest), total));
  if (i < n) store(out + i, div(exponential<T>(load(from + i, n - i), largest), total), n - i);
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
