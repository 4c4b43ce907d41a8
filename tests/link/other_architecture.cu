// A program with machine code for compute capability 8.x alone, on another device: an exception of one sentence that says
// what to do, and a context that can still copy. Ends with 4, skipped, where there is no other device.
#include <cstdio>
#include <cstring>
#include <exception>
#include <tenon/cuda/add.cuh>
#include <tenon/cuda/copy.cuh>

int main() {
  using tenon::Cuda;
  if (tenon::Runtime<Cuda>::device_count() == 0) {
    std::puts("there is no CUDA device");
    return 4;
  }
  if (tenon::Runtime<Cuda>::properties(0).compute_capability / 10 == 8) {
    std::puts("the device runs machine code for compute capability 8.0");
    return 4;
  }
  tenon::Context<Cuda> ctx;
  const auto x = tenon::from_list<float>(ctx, {3}, {1, 2, 3});
  bool good = true;
  for (int round = 0; round < 2; ++round) {
    try {
      tenon::add(ctx, x, x, x);
      std::puts("add ran, though the program holds no kernel for the device");
      good = false;
    } catch (const tenon::DeviceError& error) {
      std::puts(error.what());
      good = good && std::strstr(error.what(), "cuda: this program holds no kernels for this device") == error.what();
    }
    good = good && cudaPeekAtLastError() == cudaSuccess;
  }
  return good && x.cpu(ctx)(2) == 3.0f ? 0 : 1;
}
