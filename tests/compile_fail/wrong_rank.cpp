// A matrix where the weight of rms_norm is a vector.
// expect: no matching function for call to .*rms_norm
// expect: View<(const )?float, ?1(, tenon::[a-z0-9_:]*Cpu)?>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

void call(tenon::Context<tenon::Cpu>& ctx) {
  const auto out = tenon::zeros<float>(ctx, {2, 3});
  const auto in = tenon::zeros<float>(ctx, {2, 3});
#ifdef TENON_EXPECT_ERROR
  const auto weight = tenon::zeros<float>(ctx, {1, 3});
#else
  const auto weight = tenon::zeros<float>(ctx, {3});
#endif
  tenon::rms_norm(ctx, out, in, weight, 1e-6);
}
