// G7: a program that holds PTX for compute capability 8.0 alone. On a later device the driver compiles it, without what is
// guarded by 9.0: a kernel that is launched before its predecessor has ended would not wait for it. Such kernels are not
// launched so, and a chain of them gives the sums that it should. Ends with 4, skipped, where there is no device.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>
#include <tenon/cuda/rms_norm.cuh>
#include <utility>

int main() {
  using tenon::Cuda;
  if (tenon::Runtime<Cuda>::device_count() == 0) {
    std::puts("there is no CUDA device");
    return 4;
  }
  try {
    tenon::Context<Cuda> ctx;
    if (tenon::detail::built_for(tenon::detail::norm_packs_kernel<float, 2, false>, 90)) {
      std::puts("a kernel from PTX for 8.0 is taken for one of 9.0");
      return 1;
    }
    if (!ctx.dependent_launch()) {
      std::puts("dependent launch is off, so that this checks nothing");
      return 1;
    }
    constexpr std::int64_t size = std::int64_t{1} << 22;  // of which several waves of blocks are made
    auto x = tenon::full<float>(ctx, {size}, 0.0f);
    auto y = tenon::full<float>(ctx, {size}, -1.0f);
    const auto one = tenon::full<float>(ctx, {size}, 1.0f);
    for (int round = 0; round < 200; ++round) {
      tenon::add(ctx, y, x, one);
      std::swap(x, y);
    }
    const auto sums = x.cpu(ctx);
    for (std::int64_t i = 0; i < size; ++i) {
      if (sums(i) != 200.0f) {
        std::printf("element %lld is %g instead of 200\n", static_cast<long long>(i), static_cast<double>(sums(i)));
        return 1;
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::puts(error.what());
  }
  return 1;
}
