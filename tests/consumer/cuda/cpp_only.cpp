// Tensors and operators on a GPU from C++ alone.
#include "sum.hpp"

int main() { return run(sum_is_right); }
