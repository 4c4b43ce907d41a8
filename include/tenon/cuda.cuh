// Ring 3: the definitions of all operators on NVIDIA GPUs, with their kernels. For .cu files, compiled by nvcc; a project
// without any links tenon::cuda_kernels and includes <tenon/cuda.hpp>. A single operator is compiled faster from its own
// header, for example <tenon/cuda/add.cuh>.
#pragma once

#include <tenon/cuda.hpp>
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/add_rms_norm.cuh>
#include <tenon/cuda/argmax.cuh>
#include <tenon/cuda/copy.cuh>
#include <tenon/cuda/decode_attention.cuh>
#include <tenon/cuda/decode_embedding.cuh>
#include <tenon/cuda/decode_linear.cuh>
#include <tenon/cuda/embedding.cuh>
#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/linear.cuh>
#include <tenon/cuda/matmul.cuh>
#include <tenon/cuda/pointwise.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/rearrange.cuh>
#include <tenon/cuda/replace_slice.cuh>
#include <tenon/cuda/rms_norm.cuh>
#include <tenon/cuda/rope.cuh>
#include <tenon/cuda/rope_append.cuh>
#include <tenon/cuda/self_attention.cuh>
#include <tenon/cuda/sliced_softmax.cuh>
#include <tenon/cuda/swiglu.cuh>
#include <tenon/cuda/token_sampler.cuh>
