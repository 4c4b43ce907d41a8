// The inline namespace that carries the ABI tag, and the macros of the library (cpu/simd/ has a few that end there).
//
// Rule: a macro may add names, never change a definition. What changed a body would have to be part of the inline
// namespace, so that two translation units that differ in it link to two sets of functions instead of silently sharing
// one. Nothing does today: the tag is the version, which keeps two versions in one program apart.
#pragma once

#include <tenon/core/version.hpp>

#define TENON_DETAIL_CONCAT_(a, b, c) v##a##_##b##_##c
#define TENON_DETAIL_CONCAT(a, b, c) TENON_DETAIL_CONCAT_(a, b, c)
#define TENON_ABI_NAMESPACE TENON_DETAIL_CONCAT(TENON_VERSION_MAJOR, TENON_VERSION_MINOR, TENON_VERSION_PATCH)

#define TENON_NAMESPACE_BEGIN \
  namespace tenon {           \
  inline namespace TENON_ABI_NAMESPACE {
#define TENON_NAMESPACE_END \
  }                         \
  }

// Marks functions that kernels call too. It adds an attribute, never a different body.
#ifdef __CUDACC__
#define TENON_HD __host__ __device__
#else
#define TENON_HD
#endif

// Kernels and what launches them are seen inside one shared library only: two libraries of a process may hold the same
// kernel for different architectures, and neither must launch the other's.
#define TENON_HIDDEN_BEGIN _Pragma("GCC visibility push(hidden)")
#define TENON_HIDDEN_END _Pragma("GCC visibility pop")
