// Ring 2: what ring 1 offers, on NVIDIA GPUs too. Needs the CUDA toolkit's headers, but not nvcc: link
// tenon::cuda_kernels, or tenon::cuda in a project that has .cu files with <tenon/cuda.cuh>.
#pragma once

#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/strided.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/tenon.hpp>
