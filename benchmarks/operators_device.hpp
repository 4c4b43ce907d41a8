// The benchmarks of GPUs, as the main program sees them.
#pragma once

#include <memory>

namespace bench {

/// Registers the benchmarks of a GPU; what it returns has to live while they run. Throws tenon::DeviceError where there is
/// no such GPU. Only in builds with CUDA.
std::shared_ptr<void> register_on_cuda(int ordinal);

}  // namespace bench
