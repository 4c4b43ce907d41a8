// Launching kernels: device selection, shared memory beyond 48 KiB, dependent launch, and errors that name the operator.
#pragma once

#ifndef __CUDACC__
#error \
    "tenon/cuda/*.cuh needs nvcc: include it from a .cu file, or include <tenon/cuda.hpp> and link tenon::cuda_kernels"
#endif

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Grid, block and dynamic shared memory of a launch.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  /// The kernel calls wait_for_previous() before it touches what the kernel before it writes or reads, so it may be
  /// started early.
  bool dependent = false;
};

/// Attributes of a kernel as the current device runs it.
template <class Kernel>
cudaFuncAttributes kernel_attributes(Kernel* kernel) {
  cudaFuncAttributes attributes{};
  check_cuda(cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(kernel)),
             "reading a kernel's attributes");
  return attributes;
}

/// Whether both the PTX and the machine code of a kernel are of this architecture (80, 90) or a later one. Code that the
/// driver compiled from older PTX lacks what is guarded by the newer one: dependent launch has its wait compiled out
/// (NVIDIA/cccl issue 9134).
template <class Kernel>
bool built_for(Kernel* kernel, int architecture) {
  const cudaFuncAttributes attributes = kernel_attributes(kernel);
  return attributes.ptxVersion >= architecture && attributes.binaryVersion >= architecture;
}

/// Puts a kernel into the context's stream. Throws DeviceError that names `op`.
template <class... Parameters, class... Arguments>
void launch(Context<Cuda>& ctx, std::string_view op, const LaunchShape& shape, void (*kernel)(Parameters...),
            Arguments&&... arguments) {
  if (shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
  const auto device = ctx.activate();
  // Beyond 48 KiB a kernel has to ask, and what it has of its own counts too. The limit belongs to the kernel, not to the
  // launch: always the same, so that threads which launch it with different sizes do not lower each other's.
  if (shape.shared_bytes > 32u * 1024u) {
    const std::size_t most = ctx.properties().shared_bytes_per_block - kernel_attributes(kernel).sharedSizeBytes;
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(most)),
               op);
  }
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = ctx.stream();
  cudaLaunchAttribute attribute{};
  if (shape.dependent && ctx.dependent_launch() && built_for(kernel, 90)) {
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...), op);
}

/// Blocks for `count` items of which each block takes `per_block`, at most `most`: kernels loop over the rest.
inline unsigned grid_blocks(std::int64_t count, std::int64_t per_block, std::int64_t most = 65535) {
  const std::int64_t blocks = (count + per_block - 1) / per_block;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
