// Kernels of simd_test.cpp, compiled for every instruction set.
#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

// dst = src, converted, by whole vectors and a masked rest.
template <class To, class From>
TENON_SIMD_TARGET void test_convert(Level, const From* src, To* dst, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + width <= n; i += width) store(dst + i, load(src + i));
  if (i < n) store(dst + i, load(src + i, n - i), n - i);
}

template <class T>
TENON_SIMD_TARGET void test_rounded_to(Level, const float* src, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i + width <= n; i += width) store(dst + i, rounded_to<T>(load(src + i)));
}

TENON_SIMD_TARGET inline void test_exp(Level, const float* src, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t count = n - i < width ? n - i : width;
    store(dst + i, exp(load(src + i, count)), count);
  }
}

TENON_SIMD_TARGET inline void test_silu(Level, const float* src, float* dst, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += width) {
    const std::int64_t count = n - i < width ? n - i : width;
    store(dst + i, silu(load(src + i, count)), count);
  }
}

// One result per operation: dst[operation * width + lane]; returns the number of operations.
TENON_SIMD_TARGET inline std::int64_t test_arithmetic(Level, const float* a, const float* b, const float* c,
                                                      float* dst) {
  const Float x = load(a);
  const Float y = load(b);
  const Float z = load(c);
  store(dst, add(x, y));
  store(dst + width, sub(x, y));
  store(dst + 2 * width, mul(x, y));
  store(dst + 3 * width, div(x, y));
  store(dst + 4 * width, fma(x, y, z));
  store(dst + 5 * width, min(x, y));
  store(dst + 6 * width, max(x, y));
  store(dst + 7 * width, neg(x));
  store(dst + 8 * width, sqrt(x));
  return width;
}

TENON_SIMD_TARGET inline float test_sum(Level, const float* a) { return sum(load(a)); }
TENON_SIMD_TARGET inline float test_max_element(Level, const float* a) { return max_element(load(a)); }
TENON_SIMD_TARGET inline bool test_any_nan(Level, const float* a) { return any_nan(load(a)); }

TENON_SIMD_TARGET inline void test_transpose(Level, const float* src, float* dst) {
  Float rows[width];
  for (std::int64_t i = 0; i < width; ++i) rows[i] = load(src + i * width);
  transpose(rows);
  for (std::int64_t i = 0; i < width; ++i) store(dst + i * width, rows[i]);
}

constexpr std::int64_t test_width(Level) { return width; }

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
