// What the programs of this build can do on a GPU, asked of the programs themselves.
#pragma once

#include <string>

#include "programs/process.hpp"

namespace tenon_test {

enum class CudaSupport {
  none,       ///< they were built without CUDA
  no_device,  ///< there is no driver, or no device
  device      ///< they run there, or fail where a test will show it
};

/// From what a program said to `--device cuda`.
inline CudaSupport cuda_support(const Finished& finished) {
  const auto says = [&](const char* words) { return finished.errors.find(words) != std::string::npos; };
  if (finished.exit_code == 2 && says("this build has no CUDA")) return CudaSupport::none;
  const bool absent = says("NVIDIA driver is missing") || says("has no CUDA device");
  return finished.exit_code == 1 && absent ? CudaSupport::no_device : CudaSupport::device;
}

/// Values of --device that no build takes, and what the message must have besides "--device".
struct WrongDevice {
  const char* value;
  const char* mentioned;
};
inline constexpr WrongDevice wrong_devices[] = {{"tpu", "'tpu'"},
                                                {"", "''"},
                                                {"CUDA", "'CUDA'"},
                                                {"gpu:0", "'gpu:0'"},
                                                {"cuda0", "'cuda0'"},
                                                {"cpu:0", "'cpu:0'"},
                                                {"cuda:", "'cuda:'"},
                                                {"cuda:x", "'cuda:x'"},
                                                {"cuda:-1", "'cuda:-1'"},
                                                {"cuda:+1", "'cuda:+1'"},
                                                {"cuda: 1", "'cuda: 1'"},
                                                {"cuda:1x", "'cuda:1x'"},
                                                {"cuda:0x1", "'cuda:0x1'"},
                                                {"cuda:1,2", "'cuda:1,2'"},
                                                {"cuda:2147483648", "2147483647"},
                                                {"cuda:99999999999999999999", "2147483647"}};

}  // namespace tenon_test

/// First line of a test that needs a device; `support` is a CudaSupport.
#define TENON_NEEDS_CUDA_PROGRAM(support)                                                       \
  if ((support) == tenon_test::CudaSupport::none) SKIP("the programs were built without CUDA"); \
  if ((support) == tenon_test::CudaSupport::no_device) SKIP("there is no CUDA device")
