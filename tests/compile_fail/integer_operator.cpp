// rms_norm of integers: the constraint names the concept that failed.
// expect: no matching function for call to .*rms_norm
// expect: FloatElement
#include <cstdint>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

#ifdef TENON_EXPECT_ERROR
using T = std::int32_t;
#else
using T = float;
#endif

void call(tenon::Context<tenon::Cpu>& ctx) {
  const auto out = tenon::zeros<T>(ctx, {2, 3});
  const auto weight = tenon::zeros<T>(ctx, {3});
  tenon::rms_norm(ctx, out, out, weight, 1e-6);
}
