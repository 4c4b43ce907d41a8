// The definitions of the operators for the CPU. <tenon/tenon.hpp> includes this except under nvcc, because it brings
// Eigen; a .cu file that calls operators on the CPU includes it itself.
#pragma once

#include <tenon/cpu/add.hpp>
#include <tenon/cpu/add_rms_norm.hpp>
#include <tenon/cpu/argmax.hpp>
#include <tenon/cpu/eigen_gemm.hpp>
#include <tenon/cpu/elementwise.hpp>
#include <tenon/cpu/embedding.hpp>
#include <tenon/cpu/gemm.hpp>
#include <tenon/cpu/gemv.hpp>
#include <tenon/cpu/linear.hpp>
#include <tenon/cpu/matmul.hpp>
#include <tenon/cpu/packed.hpp>
#include <tenon/cpu/pointwise.hpp>
#include <tenon/cpu/pointwise_chain.hpp>
#include <tenon/cpu/pointwise_tile.hpp>
#include <tenon/cpu/rearrange.hpp>
#include <tenon/cpu/replace_slice.hpp>
#include <tenon/cpu/rms_norm.hpp>
#include <tenon/cpu/rope.hpp>
#include <tenon/cpu/rope_append.hpp>
#include <tenon/cpu/row_loop.hpp>
#include <tenon/cpu/self_attention.hpp>
#include <tenon/cpu/sliced_softmax.hpp>
#include <tenon/cpu/swiglu.hpp>
