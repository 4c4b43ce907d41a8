// The same with the kernels in the library's own translation unit.
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>

#include "part.cpp"
