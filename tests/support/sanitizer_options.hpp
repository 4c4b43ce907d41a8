// Sanitizers end the process when an allocation is too large, unless told that it may fail as it does without them.
#pragma once

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TENON_TEST_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(TENON_TEST_SANITIZER)
// Weak: several files of one program include this.
extern "C" __attribute__((weak, visibility("default"), used)) const char* __asan_default_options();
extern "C" __attribute__((weak, visibility("default"), used)) const char* __asan_default_options() {
  return "allocator_may_return_null=1";
}
extern "C" __attribute__((weak, visibility("default"), used)) const char* __tsan_default_options();
extern "C" __attribute__((weak, visibility("default"), used)) const char* __tsan_default_options() {
  return "allocator_may_return_null=1";
}
#endif
