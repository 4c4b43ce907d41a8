// Denormal numbers cost a hundred cycles each on many processors: kernels treat them as zero, and nobody else sees it.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// While it lives, float instructions of this thread read and write denormal numbers as zero; then the thread's own
/// setting is back, also after an exception. Conversions from and to float16 and bfloat16 stay exact. Does nothing on
/// processors other than x86. One per thread, on the stack: the setting belongs to the thread.
class ScopedFlushDenormals {
 public:
#if defined(__x86_64__)
  ScopedFlushDenormals() noexcept : saved_(_mm_getcsr()) {
    constexpr unsigned flush_to_zero = 0x8000;
    constexpr unsigned denormals_are_zero = 0x0040;
    _mm_setcsr(saved_ | flush_to_zero | denormals_are_zero);
  }
  ~ScopedFlushDenormals() { _mm_setcsr((_mm_getcsr() & sticky_flags) | saved_); }
#else
  ScopedFlushDenormals() noexcept {}
  ~ScopedFlushDenormals() {}
#endif
  ScopedFlushDenormals(const ScopedFlushDenormals&) = delete;
  ScopedFlushDenormals& operator=(const ScopedFlushDenormals&) = delete;

 private:
#if defined(__x86_64__)
  static constexpr unsigned sticky_flags = 0x003f;  // what operations have raised meanwhile stays raised
  unsigned saved_;
#endif
};

}  // namespace detail
TENON_NAMESPACE_END
