// E8: files compiled with other flags in one program.
#include <cstdio>
#include <tenon/tensor/create.hpp>

#include "link/mixed.hpp"

int main() {
  tenon::Context<tenon::Cpu> ctx;
  bool good = true;
  if (tenon::detect_simd_level() >= tenon::SimdLevel::avx2) {
    for (std::int64_t count = 1; count < 3'000'000; count = 3 * count + 1) {
      good = good && make_elsewhere(ctx, count)(count - 1) == 1.0f;  // made there, freed here
      good = good && sum_elsewhere(tenon::full<float>(ctx, {count}, 0.0f)) == 0.0f;
    }
  }
  if (!good) std::puts("files compiled with other flags disagree");
  return good ? 0 : 1;
}
