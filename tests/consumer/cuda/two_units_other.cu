// The other translation unit: its sum is of other elements too, so that not all of its kernels are the first unit's.
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>

#include "sum.hpp"

bool sum_is_right_elsewhere();
bool sum_is_right_elsewhere() {
  tenon::Context<tenon::Cuda> ctx;
  const auto a = tenon::full<tenon::bfloat16>(ctx, {33}, 1.5);
  const auto sum = tenon::empty<tenon::bfloat16>(ctx, {33});
  tenon::add(ctx, sum, a, a);
  return static_cast<float>(sum.cpu(ctx)(32)) == 3.0f && sum_is_right();
}
