// E8, E15: files compiled with other flags, and two builds of the library, in one program.
#include <cstdio>
#include <optional>
#include <tenon/ops/linear.hpp>
#include <tenon/tensor/create.hpp>

#include "link/mixed.hpp"

int main() {
  tenon::Context<tenon::Cpu> ctx;
  bool good = multiply_without_openmp() == 12.0f && threads_without_openmp() == 1;
  const auto y = tenon::zeros<float>(ctx, {1, 1});
  tenon::linear(ctx, y, tenon::full<float>(ctx, {1, 1}, 5.0f), tenon::full<float>(ctx, {1, 1}, 4.0f), std::nullopt);
  good = good && y(0, 0) == 20.0f;
  if (tenon::detect_simd_level() >= tenon::SimdLevel::avx2) {
    for (std::int64_t count = 1; count < 3'000'000; count = 3 * count + 1) {
      good = good && make_elsewhere(ctx, count)(count - 1) == 1.0f;  // made there, freed here
      good = good && sum_elsewhere(tenon::full<float>(ctx, {count}, 0.0f)) == 0.0f;
    }
  }
  if (!good) std::puts("files compiled with other flags disagree");
  return good ? 0 : 1;
}
