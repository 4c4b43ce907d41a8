// One of two translation units with the same kernels; two_units_other.cu is the other.
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>

#include "sum.hpp"

bool sum_is_right_elsewhere();

int main() {
  return run([] { return sum_is_right() && sum_is_right_elsewhere(); });
}
