// A tensor of constant elements, such as a mapped weight, as the output of an operator.
// expect: no matching function for call to .*add
// expect: const float|const T|FloatElement
#include <tenon/ops/add.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/create.hpp>

#ifdef TENON_EXPECT_ERROR
using T = const float;
#else
using T = float;
#endif

void call(tenon::Context<tenon::Cpu>& ctx) {
  const auto a = tenon::zeros<float>(ctx, {4});
  const tenon::View<T, 1> out = a;
  tenon::add(ctx, out, a, a);
}
