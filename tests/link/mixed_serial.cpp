// Compiled without OpenMP. It must not name a tenon type in common with the other files: the ABI tags differ.
#include <optional>
#include <tenon/ops/linear.hpp>
#include <tenon/tensor/create.hpp>

float multiply_without_openmp();
int threads_without_openmp();

float multiply_without_openmp() {
  tenon::Context<tenon::Cpu> ctx;
  const auto y = tenon::zeros<float>(ctx, {1, 1});
  tenon::linear(ctx, y, tenon::full<float>(ctx, {1, 1}, 3.0f), tenon::full<float>(ctx, {1, 1}, 4.0f), std::nullopt);
  return y(0, 0);
}

int threads_without_openmp() { return tenon::Context<tenon::Cpu>(8).threads(); }
