// Runtime<Device>: devices, streams and raw memory. Tensors and operators need none of it; programs that manage memory
// or overlap copies themselves do. The CPU has the whole interface that a GPU has, so that code can be written once.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN

/// Direction of a copy, seen from the host.
enum class CopyKind : std::uint8_t { host_to_host, host_to_device, device_to_host, device_to_device };

/// Work in order: what is put into one stream runs in that order.
template <DeviceTag D>
class Stream;

/// On the CPU every call has finished when it returns, so a stream is always idle. One thread at a time.
template <>
class Stream<Cpu> {
 public:
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  Stream(Stream&&) = default;
  Stream& operator=(Stream&&) = default;

  void synchronize() const noexcept {}
  [[nodiscard]] bool idle() const noexcept { return true; }
};

/// A point in a stream's work, to wait for or to measure between.
template <DeviceTag D>
class Event;

/// On the CPU a point is reached when it is recorded. One thread at a time.
template <>
class Event<Cpu> {
 public:
  void record(Stream<Cpu>&) noexcept { time_ = std::chrono::steady_clock::now(); }
  void synchronize() const noexcept {}
  [[nodiscard]] bool reached() const noexcept { return true; }
  /// Milliseconds from `start` to this point; both must have been recorded.
  [[nodiscard]] double milliseconds_since(const Event& start) const noexcept {
    return std::chrono::duration<double, std::milli>(time_ - start.time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

/// Static functions per device; see the specialisations.
template <DeviceTag D>
struct Runtime;

/// The CPU as a device: one of it, whose device memory and pinned host memory are ordinary memory. Thread-safe.
template <>
struct Runtime<Cpu> {
  [[nodiscard]] static int device_count() noexcept { return 1; }

  /// Makes a device current for the calling thread. Throws DeviceError for an ordinal other than 0.
  static void select_device(int ordinal) {
    if (ordinal != 0) {
      throw DeviceError("cpu: there is no device " + std::to_string(ordinal) + ", only device 0");
    }
  }
  [[nodiscard]] static int current_device() noexcept { return 0; }

  /// Waits for everything on the current device.
  static void synchronize() noexcept {}

  /// Uninitialised memory on the current device; freed with the last copy of the Storage. Throws Error if short.
  [[nodiscard]] static Storage<Cpu> allocate_device(std::size_t bytes) { return detail::allocate_host_block(bytes); }
  /// Host memory that copies to and from a device can use without staging.
  [[nodiscard]] static Storage<Cpu> allocate_pinned(std::size_t bytes) { return detail::allocate_host_block(bytes); }

  /// Copies `bytes` and returns when they are there. The ranges must not overlap.
  static void copy(void* to, const void* from, std::size_t bytes, CopyKind) noexcept {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  /// Puts a copy into a stream; both ranges must live until the stream has reached it.
  static void copy_async(void* to, const void* from, std::size_t bytes, CopyKind kind, Stream<Cpu>&) noexcept {
    copy(to, from, bytes, kind);
  }
};

TENON_NAMESPACE_END
