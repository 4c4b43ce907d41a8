// A view of GPU memory given to an operator on the CPU.
// expect: no matching function for call to .*add
// expect: Cuda
#include <tenon/ops/add.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

#ifdef TENON_EXPECT_ERROR
using Device = tenon::Cuda;
#else
using Device = tenon::Cpu;
#endif

void call(tenon::Context<tenon::Cpu>& ctx, tenon::View<float, 1, Device> b) {
  const auto out = tenon::zeros<float>(ctx, {4});
  tenon::add(ctx, out, out, b);
}
