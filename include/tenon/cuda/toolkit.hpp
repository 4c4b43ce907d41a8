// The CUDA toolkit, as far as host code uses it. Every toolkit name that tenon uses comes through this header or, in
// kernels, through primitives.cuh: a port to a CUDA-like toolkit maps names here and there.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <tenon/core/config.hpp>

static_assert(CUDART_VERSION >= 12000, "tenon needs CUDA 12.0 or later");
