// The loop beside the large point-wise programs, compiled once for each level; see tenon/cpu/simd/foreach_level.hpp.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

/// out[i] = a[i] + b[i] + c[i] for begin <= i < end, multiples of 64; `out` is aligned to 64 bytes.
TENON_SIMD_TARGET inline void add_streams(Level, float* out, const float* a, const float* b, const float* c,
                                          std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += 4 * width) {
#pragma GCC unroll 4
    for (std::int64_t v = i; v < i + 4 * width; v += width) {
      stream(out + v, add(add(load(a + v), load(b + v)), load(c + v)));
    }
  }
}

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
