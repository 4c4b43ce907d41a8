// Functions of files that are compiled with other flags than mixed_main.cpp.
#pragma once

#include <cstdint>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/tensor.hpp>

/// In a file compiled for AVX2: a tensor that the caller frees.
tenon::Tensor<float, 1> make_elsewhere(tenon::Context<tenon::Cpu>& ctx, std::int64_t count);
/// Likewise: the sum of a tensor that the caller made.
float sum_elsewhere(const tenon::Tensor<float, 1>& x);
