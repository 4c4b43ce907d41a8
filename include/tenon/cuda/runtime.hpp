// Runtime<Cuda>, Stream<Cuda>, Event<Cuda>: devices, streams, events, raw memory and copies on NVIDIA GPUs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/runtime/device.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN

/// What a device is. Plain values, read once.
struct DeviceProperties {
  std::string name;
  int ordinal = 0;
  int compute_capability = 0;  ///< 90 for 9.0
  int multiprocessors = 0;
  std::size_t memory_bytes = 0;
  std::size_t l2_bytes = 0;
  std::size_t shared_bytes_per_block = 0;  ///< most that a kernel may ask for
};

namespace detail {

/// Makes a device current for the calling thread, and what was current before again when it ends.
class CurrentDevice {
 public:
  explicit CurrentDevice(int ordinal) {
    check_cuda(cudaGetDevice(&before_), "selecting a device");
    if (before_ != ordinal) {
      check_cuda(cudaSetDevice(ordinal), "selecting device " + std::to_string(ordinal));
      changed_ = true;
    }
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() {
    if (changed_) static_cast<void>(cudaSetDevice(before_));
  }

 private:
  int before_ = 0;
  bool changed_ = false;
};

/// Throws DeviceError that names the ordinal and how many devices there are.
inline void check_ordinal(int ordinal) {
  int count = 0;
  check_cuda(cudaGetDeviceCount(&count), "counting devices");
  if (ordinal >= 0 && ordinal < count) return;
  throw DeviceError("cuda: there is no device " + std::to_string(ordinal) + ", only " +
                    (count == 1 ? "device 0" : "devices 0 to " + std::to_string(count - 1)));
}

constexpr cudaMemcpyKind copy_direction(CopyKind kind) noexcept {
  switch (kind) {
    case CopyKind::host_to_host: return cudaMemcpyHostToHost;
    case CopyKind::host_to_device: return cudaMemcpyHostToDevice;
    case CopyKind::device_to_host: return cudaMemcpyDeviceToHost;
    default: return cudaMemcpyDeviceToDevice;
  }
}

}  // namespace detail

/// A stream of the device that is current when it is made. One thread at a time; destroying it waits for its work.
template <>
class Stream<Cuda> {
 public:
  Stream() { detail::check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~Stream() {
    if (stream_ == nullptr) return;
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  [[nodiscard]] cudaStream_t handle() const noexcept { return stream_; }
  void synchronize() const { detail::check_cuda(cudaStreamSynchronize(stream_), "waiting for a stream"); }
  [[nodiscard]] bool idle() const {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    detail::check_cuda(status, "asking a stream");
    return true;
  }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A point in a stream of the device that is current when it is made. One thread at a time.
template <>
class Event<Cuda> {
 public:
  Event() { detail::check_cuda(cudaEventCreate(&event_), "making an event"); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) static_cast<void>(cudaEventDestroy(event_));
  }

  [[nodiscard]] cudaEvent_t handle() const noexcept { return event_; }
  void record(Stream<Cuda>& stream) { record(stream.handle()); }
  void record(cudaStream_t stream) { detail::check_cuda(cudaEventRecord(event_, stream), "recording an event"); }
  void synchronize() const { detail::check_cuda(cudaEventSynchronize(event_), "waiting for an event"); }
  [[nodiscard]] bool reached() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    detail::check_cuda(status, "asking an event");
    return true;
  }
  /// Milliseconds from `start` to this point; both must have been reached.
  [[nodiscard]] double milliseconds_since(const Event& start) const {
    float result = 0;
    detail::check_cuda(cudaEventElapsedTime(&result, start.event_, event_), "measuring between events");
    return static_cast<double>(result);
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// NVIDIA GPUs. Thread-safe; the current device is one per thread.
template <>
struct Runtime<Cuda> {
  /// 0 where there is no device or no driver.
  [[nodiscard]] static int device_count() noexcept {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());
      return 0;
    }
    return count;
  }

  /// Makes a device current for the calling thread. Throws DeviceError for an ordinal that is not there.
  static void select_device(int ordinal) {
    detail::check_ordinal(ordinal);
    detail::check_cuda(cudaSetDevice(ordinal), "selecting device " + std::to_string(ordinal));
  }
  [[nodiscard]] static int current_device() {
    int ordinal = 0;
    detail::check_cuda(cudaGetDevice(&ordinal), "asking for the current device");
    return ordinal;
  }

  [[nodiscard]] static DeviceProperties properties(int ordinal) {
    detail::check_ordinal(ordinal);
    cudaDeviceProp from{};
    detail::check_cuda(cudaGetDeviceProperties(&from, ordinal), "asking for the properties of a device");
    DeviceProperties result;
    result.name = from.name;
    result.ordinal = ordinal;
    result.compute_capability = from.major * 10 + from.minor;
    result.multiprocessors = from.multiProcessorCount;
    result.memory_bytes = from.totalGlobalMem;
    result.l2_bytes = static_cast<std::size_t>(std::max(from.l2CacheSize, 0));
    result.shared_bytes_per_block = from.sharedMemPerBlockOptin;
    return result;
  }

  /// Bytes that the current device has left.
  [[nodiscard]] static std::size_t free_memory() {
    std::size_t free = 0;
    std::size_t total = 0;
    detail::check_cuda(cudaMemGetInfo(&free, &total), "asking for free memory");
    return free;
  }

  /// Waits for everything on the current device.
  static void synchronize() { detail::check_cuda(cudaDeviceSynchronize(), "waiting for a device"); }

  /// Uninitialised memory on the current device; freed with the last copy of the Storage, which waits for the device.
  /// Throws Error if short. Contexts have a faster way of their own: allocate_storage.
  [[nodiscard]] static Storage<Cuda> allocate_device(std::size_t bytes) {
    void* data = nullptr;
    if (bytes != 0) {
      detail::check_cuda(cudaMalloc(&data, bytes), "allocating " + std::to_string(bytes) + " bytes of device memory");
    }
    auto* block = static_cast<std::byte*>(data);
    return {block, bytes, std::shared_ptr<void>(data, [](void* p) { static_cast<void>(cudaFree(p)); }), false};
  }
  /// Host memory that copies to and from a device use without staging. Throws Error if short.
  [[nodiscard]] static Storage<Cpu> allocate_pinned(std::size_t bytes) {
    void* data = nullptr;
    if (bytes != 0) {
      const cudaError_t status = cudaHostAlloc(&data, bytes, cudaHostAllocPortable);
      if (status == cudaErrorMemoryAllocation) {
        static_cast<void>(cudaGetLastError());
        throw Error("cannot allocate " + std::to_string(bytes) + " bytes of pinned memory");
      }
      detail::check_cuda(status, "allocating pinned memory");
    }
    auto* block = static_cast<std::byte*>(data);
    return {block, bytes, std::shared_ptr<void>(data, [](void* p) { static_cast<void>(cudaFreeHost(p)); }), false};
  }

  /// Copies `bytes` and returns when they are there. The ranges must not overlap.
  static void copy(void* to, const void* from, std::size_t bytes, CopyKind kind) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemcpy(to, from, bytes, detail::copy_direction(kind)), "a copy");
    // To the device, and on it, the call may return before the bytes are there.
    if (kind != CopyKind::device_to_host) detail::check_cuda(cudaStreamSynchronize(nullptr), "a copy");
  }
  /// Puts a copy into a stream; both ranges must live until the stream has reached it. Copies to and from host memory
  /// that is not pinned may wait.
  static void copy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream<Cuda>& stream) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemcpyAsync(to, from, bytes, detail::copy_direction(kind), stream.handle()), "a copy");
  }
};

TENON_NAMESPACE_END
