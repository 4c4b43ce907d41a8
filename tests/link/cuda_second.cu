// The other translation unit that includes every kernel. It launches one that the first unit launches too, and one of
// its own.
#include <tenon/cuda.cuh>

#include "link/cuda_sum.hpp"

bool second_sum_is_right(tenon::Context<tenon::Cuda>& ctx) {
  return sum_is_right<float>(ctx) && sum_is_right<tenon::bfloat16>(ctx);
}
