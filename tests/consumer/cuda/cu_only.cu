// A kernel of the program's own, which takes views, before an operator of tenon in the same stream.
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>

#include "sum.hpp"

namespace {

__global__ void number(tenon::View<float, 2, tenon::Cuda> x) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = threadIdx.x;
  *x.ptr(row, column) = static_cast<float>(row * x.size(1) + column);
}

bool numbers_are_right() {
  tenon::Context<tenon::Cuda> ctx;
  const auto x = tenon::empty<float>(ctx, {5, 7});
  number<<<5, 7, 0, ctx.stream()>>>(x);
  const auto sum = tenon::empty<float>(ctx, {5, 7});
  tenon::add(ctx, sum, x, x);
  const auto result = sum.cpu(ctx);
  bool right = true;
  for (std::int64_t i = 0; i < 35; ++i) right = right && result.data()[i] == static_cast<float>(2 * i);
  return right;
}

}  // namespace

int main() {
  return run([] { return numbers_are_right() && sum_is_right(); });
}
