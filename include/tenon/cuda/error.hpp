// Status codes of the CUDA toolkit as exceptions of one sentence each. No code stays behind: what the runtime remembers
// as its last error is cleared here.
#pragma once

#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/toolkit.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// "cuda: no device (what the driver says)" and the like. `what` says what was being done: "rms_norm", "a copy".
[[noreturn]] inline void throw_cuda(cudaError_t status, std::string_view what) {
  static_cast<void>(cudaGetLastError());
  const std::string during = " (" + std::string(what) + ")";
  switch (status) {
    case cudaErrorInsufficientDriver:
      throw DeviceError("cuda: the NVIDIA driver is missing, or older than this program needs" + during);
    case cudaErrorNoDevice: throw DeviceError("cuda: this machine has no CUDA device" + during);
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorUnsupportedPtxVersion:
      throw DeviceError(
          "cuda: this program holds no kernels for this device: build it with CMAKE_CUDA_ARCHITECTURES set to the "
          "device's compute capability" +
          during);
    case cudaErrorMemoryAllocation: throw Error("cuda: the device has not enough free memory" + during);
    default: break;
  }
  throw DeviceError("cuda: " + std::string(what) + ": " + cudaGetErrorString(status) + " (" + cudaGetErrorName(status) +
                    ")");
}

inline void check_cuda(cudaError_t status, std::string_view what) {
  if (status != cudaSuccess) throw_cuda(status, what);
}

inline void check_cublas(cublasStatus_t status, std::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  if (status == CUBLAS_STATUS_ARCH_MISMATCH) throw_cuda(cudaErrorNoKernelImageForDevice, what);
  if (status == CUBLAS_STATUS_ALLOC_FAILED) throw_cuda(cudaErrorMemoryAllocation, what);
  static_cast<void>(cudaGetLastError());
  throw DeviceError("cuda: " + std::string(what) + ": " + cublasLtGetStatusString(status));
}

}  // namespace detail
TENON_NAMESPACE_END
