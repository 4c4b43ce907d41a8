// G4: one of two translation units that include every kernel; cuda_second.cu is the other.
#include <cstdio>
#include <exception>
#include <tenon/cuda.cuh>

#include "link/cuda_sum.hpp"

int main() {
  if (tenon::Runtime<tenon::Cuda>::device_count() == 0) {
    std::puts("there is no CUDA device");
    return 0;
  }
  try {
    tenon::Context<tenon::Cuda> ctx;
    if (sum_is_right<float>(ctx) && second_sum_is_right(ctx)) return 0;
    std::puts("a sum is wrong");
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
  return 1;
}
