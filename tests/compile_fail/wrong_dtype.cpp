// Adding a bfloat16 tensor to a float tensor: operators never convert silently.
// expect: no matching function for call to .*add
// expect: bfloat16
#include <tenon/ops/add.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

void call(tenon::Context<tenon::Cpu>& ctx) {
  const auto out = tenon::zeros<float>(ctx, {4});
  const auto a = tenon::zeros<float>(ctx, {4});
#ifdef TENON_EXPECT_ERROR
  const auto b = tenon::zeros<tenon::bfloat16>(ctx, {4});
#else
  const auto b = tenon::zeros<float>(ctx, {4});
#endif
  tenon::add(ctx, out, a, b);
}
