// One program of a .cpp and a .cu file, which share tensors and a context.
#include "cpp_and_cu.hpp"

#include "sum.hpp"

int main() {
  return run([] {
    tenon::Context<tenon::Cuda> ctx;
    const auto x = tenon::arange<float>(ctx, 100);
    square(ctx, x);
    const auto result = x.cpu(ctx);
    bool right = sum_is_right();
    for (std::int64_t i = 0; i < 100; ++i) right = right && result(i) == static_cast<float>(i * i);
    return right;
  });
}
