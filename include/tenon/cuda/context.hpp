// Context<Cuda>: device, stream, library handle and scratch memory of the calls that it is passed to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/cublas.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/runtime/workspace.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// What memory needs to be freed in order: the stream and the pool that it came from. Blocks keep it alive, so they may
/// outlive their context.
class DeviceMemory {
 public:
  explicit DeviceMemory(int ordinal) : ordinal_(ordinal) {
    const CurrentDevice device(ordinal);
    stream_ = std::make_unique<Stream<Cuda>>();
    int supported = 0;
    check_cuda(cudaDeviceGetAttribute(&supported, cudaDevAttrMemoryPoolsSupported, ordinal), "asking for memory pools");
    if (supported == 0) {
      throw DeviceError("cuda: device " + std::to_string(ordinal) + " has no stream-ordered memory pools");
    }
    cudaMemPoolProps properties{};
    properties.allocType = cudaMemAllocationTypePinned;
    properties.location.type = cudaMemLocationTypeDevice;
    properties.location.id = ordinal;
    check_cuda(cudaMemPoolCreate(&pool_, &properties), "making a memory pool");
    std::uint64_t kept = kept_bytes;
    static_cast<void>(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &kept));
  }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory() {
    if (pool_ == nullptr) return;
    static_cast<void>(cudaStreamSynchronize(stream_->handle()));
    static_cast<void>(cudaMemPoolDestroy(pool_));
  }

  [[nodiscard]] int ordinal() const noexcept { return ordinal_; }
  [[nodiscard]] Stream<Cuda>& stream() const noexcept { return *stream_; }

  /// nullptr where memory is short, also after everything unused has been given back.
  [[nodiscard]] void* allocate(std::size_t bytes) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    check_cuda(cudaStreamIsCapturing(stream_->handle(), &capture), "allocating memory");
    if (capture != cudaStreamCaptureStatusNone) {
      // It would be memory of the graph, which comes and goes with every launch.
      throw DeviceError(
          "cuda: a call allocates memory while the stream of its context is being captured; calls that ran "
          "once before, with the same sizes, need none");
    }
    void* data = nullptr;
    cudaError_t status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_->handle());
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      static_cast<void>(cudaStreamSynchronize(stream_->handle()));
      static_cast<void>(cudaMemPoolTrimTo(pool_, 0));
      status = cudaMallocFromPoolAsync(&data, bytes, pool_, stream_->handle());
    }
    if (status == cudaErrorMemoryAllocation) {
      static_cast<void>(cudaGetLastError());
      return nullptr;
    }
    check_cuda(status, "allocating memory");
    return data;
  }
  void free(void* data) noexcept {
    if (cudaFreeAsync(data, stream_->handle()) != cudaSuccess) static_cast<void>(cudaGetLastError());
  }

 private:
  /// What the pool keeps for reuse when its stream is waited for; the rest goes back to the system.
  static constexpr std::uint64_t kept_bytes = std::uint64_t{256} << 20;

  int ordinal_;
  std::unique_ptr<Stream<Cuda>> stream_;
  cudaMemPool_t pool_ = nullptr;
};

inline Storage<Cuda> allocate_device_block(const std::shared_ptr<DeviceMemory>& memory, std::size_t bytes) {
  if (bytes == 0) return {};
  void* data = bytes > std::numeric_limits<std::size_t>::max() / 2 ? nullptr : memory->allocate(bytes);
  if (data == nullptr) {
    const CurrentDevice device(memory->ordinal());
    throw Error("cannot allocate " + std::to_string(bytes) + " bytes of memory on CUDA device " +
                std::to_string(memory->ordinal()) + ", which has " + std::to_string(Runtime<Cuda>::free_memory()) +
                " bytes left");
  }
  std::shared_ptr<void> owner(data, [memory](void* block) { memory->free(block); });
  return {static_cast<std::byte*>(data), bytes, std::move(owner), false};
}

}  // namespace detail

/// What a call on an NVIDIA GPU needs: a device, a stream, cuBLASLt and scratch memory.
///
/// Calls put work into the stream and return before it is done; they follow each other in order, so results may be used
/// in further calls at once. `synchronize` waits. Copies to the CPU wait by themselves. One context serves one thread at a
/// time; any number may exist, on one device or several. Tensors made with one context may be read in another of the same
/// device once the first has been waited for, and must not be freed before the other has been waited for. While the stream is being captured, no
/// tensor of the context may go. The device that is current in the calling thread is left as it was.
template <>
class Context<Cuda> {
 public:
  using device_type = Cuda;

  /// Throws DeviceError where there is no driver, no device, or none of this number.
  explicit Context(int ordinal = 0)
      : properties_(Runtime<Cuda>::properties(ordinal)),
        memory_(std::make_shared<detail::DeviceMemory>(ordinal)),
        workspace_([this](std::size_t bytes) { return detail::allocate_device_block(memory_, bytes); }),
        cublas_(std::size_t{properties_.compute_capability >= 90 ? 64u : 32u} << 20,
                [this](std::size_t bytes) { return detail::allocate_device_block(memory_, bytes); }) {}

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { static_cast<void>(cudaStreamSynchronize(stream())); }

  [[nodiscard]] int ordinal() const noexcept { return properties_.ordinal; }
  [[nodiscard]] const DeviceProperties& properties() const noexcept { return properties_; }
  /// Whether the process sees other GPUs too.
  [[nodiscard]] bool has_neighbours() const noexcept { return has_neighbours_; }
  [[nodiscard]] cudaStream_t stream() const noexcept { return memory_->stream().handle(); }
  [[nodiscard]] Stream<Cuda>& stream_object() const noexcept { return memory_->stream(); }

  /// Waits for everything passed to this context. Throws DeviceError if some of it failed.
  void synchronize() const { detail::check_cuda(cudaStreamSynchronize(stream()), "waiting for the device"); }

  /// Scratch memory, valid for work that is in the stream before its scope ends and before the next scope's.
  [[nodiscard]] BasicWorkspace<Cuda>& workspace() noexcept { return workspace_; }

  /// Makes the context's device current while the result lives. Operators do this by themselves.
  [[nodiscard]] detail::CurrentDevice activate() const { return detail::CurrentDevice(ordinal()); }

  /// cuBLASLt, with what it keeps from call to call.
  [[nodiscard]] detail::CublasLt& cublas() noexcept { return cublas_; }

  /// Whether generation captures its step in a CUDA graph and replays it. On by default; the results are the same.
  [[nodiscard]] bool graphs() const noexcept { return graphs_; }
  void set_graphs(bool on) noexcept { graphs_ = on; }

  /// Whether kernels of a step may be started before the one before them ends (programmatic dependent launch; compute
  /// capability 9.0 and later). On by default; the results are the same.
  [[nodiscard]] bool dependent_launch() const noexcept {
    return dependent_launch_ && properties_.compute_capability >= 90;
  }
  void set_dependent_launch(bool on) noexcept { dependent_launch_ = on; }

  [[nodiscard]] const std::shared_ptr<detail::DeviceMemory>& memory() const noexcept { return memory_; }

 private:
  DeviceProperties properties_;
  std::shared_ptr<detail::DeviceMemory> memory_;
  BasicWorkspace<Cuda> workspace_;
  detail::CublasLt cublas_;
  bool has_neighbours_ = Runtime<Cuda>::device_count() > 1;
  bool graphs_ = true;
  bool dependent_launch_ = true;
};

namespace detail {

/// Throws DeviceError where one of these pointers is not memory of the context's device: operators check what the types
/// cannot say. With one GPU there is nothing to mistake, and nothing is asked.
template <class... T>
void check_devices(const Context<Cuda>& ctx, std::string_view op, const T*... data) {
  if (!ctx.has_neighbours()) return;
  const auto check = [&](const void* pointer) {
    cudaPointerAttributes attributes{};
    if (pointer == nullptr || cudaPointerGetAttributes(&attributes, pointer) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return;
    }
    if (attributes.type == cudaMemoryTypeDevice && attributes.device != ctx.ordinal()) {
      throw DeviceError(std::string(op) + ": a tensor is on CUDA device " + std::to_string(attributes.device) +
                        ", but the context is on device " + std::to_string(ctx.ordinal()));
    }
  };
  (check(data), ...);
}

}  // namespace detail

/// Memory for a tensor on the device of the context, from its pool. Freed in the order of the context's stream, also
/// after the context is gone. Throws Error where memory is short; the context stays usable.
inline Storage<Cuda> allocate_storage(Context<Cuda>& ctx, std::size_t bytes) {
  return detail::allocate_device_block(ctx.memory(), bytes);
}

TENON_NAMESPACE_END
