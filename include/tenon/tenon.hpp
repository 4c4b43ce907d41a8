// Ring 1: tensors, operators and models; everything that needs only a C++20 compiler and Eigen.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/float16.hpp>
#include <tenon/core/math.hpp>
#include <tenon/core/random.hpp>
#include <tenon/core/version.hpp>
#include <tenon/generate/sampler.hpp>
#include <tenon/generate/stop.hpp>
#include <tenon/models/config.hpp>
#include <tenon/models/decoder.hpp>
#include <tenon/models/kv_cache.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/ops/add.hpp>
#include <tenon/ops/add_rms_norm.hpp>
#include <tenon/ops/argmax.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/ops/embedding.hpp>
#include <tenon/ops/linear.hpp>
#include <tenon/ops/rearrange.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/rope_append.hpp>
#include <tenon/ops/self_attention.hpp>
#include <tenon/ops/swiglu.hpp>
#include <tenon/ops/weight.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/device.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/runtime/simd_level.hpp>
#include <tenon/runtime/thread_pool.hpp>
#include <tenon/runtime/topology.hpp>
#include <tenon/runtime/uploader.hpp>
#include <tenon/runtime/workspace.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/copy.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/layout.hpp>
#include <tenon/tensor/print.hpp>
#include <tenon/tensor/shape.hpp>
#include <tenon/tensor/storage.hpp>
#include <tenon/tensor/tensor.hpp>
#include <tenon/tensor/view.hpp>

// Under nvcc the definitions for the CPU, and with them Eigen, stay out; a .cu file that wants them includes this.
#ifndef __CUDACC__
#include <tenon/cpu.hpp>
#include <tenon/tensor/eigen.hpp>
#endif
