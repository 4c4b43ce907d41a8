// A CUDA context in a build without CUDA.
// expect: incomplete type|undefined template
// expect: Cuda
#include <tenon/core/device.hpp>
#include <tenon/runtime/context.hpp>

#ifdef TENON_EXPECT_ERROR
using Device = tenon::Cuda;
#else
using Device = tenon::Cpu;
#endif

int main() {
  tenon::Context<Device> ctx;
  static_cast<void>(ctx);
}
