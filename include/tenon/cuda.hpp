// Ring 2: what ring 1 offers, on NVIDIA GPUs too. Needs the CUDA toolkit's headers, but not nvcc: link
// tenon::cuda_kernels, or tenon::cuda in a project that has .cu files with <tenon/cuda.cuh>.
#pragma once

#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>
#include <tenon/cuda/decode_attention.hpp>
#include <tenon/cuda/decode_embedding.hpp>
#include <tenon/cuda/decode_linear.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/graph.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/strided.hpp>
#include <tenon/cuda/token_sampler.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/cuda/uploader.hpp>
#include <tenon/generate/token_loop_cuda.hpp>
#include <tenon/graph/execution_cuda.hpp>
#include <tenon/models/decode_step_cuda.hpp>
#include <tenon/tenon.hpp>
