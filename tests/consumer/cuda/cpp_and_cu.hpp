// What cpp_and_cu.cu offers to cpp_and_cu.cpp.
#pragma once

#include <tenon/cuda.hpp>

/// Every element squared, in the context's stream.
void square(tenon::Context<tenon::Cuda>& ctx, const tenon::View<float, 1, tenon::Cuda>& x);
