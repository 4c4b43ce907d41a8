// Context<Cpu>: threads, instruction set and scratch memory of the calls that it is passed to.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/runtime/simd_level.hpp>
#include <tenon/runtime/thread_pool.hpp>
#include <tenon/runtime/topology.hpp>
#include <tenon/runtime/workspace.hpp>

TENON_NAMESPACE_BEGIN

/// What a call on the CPU needs. First argument of every operator; there is no global one.
///
/// One context serves one thread at a time; any number of contexts may exist, also on tensors and models in common.
template <>
class Context<Cpu> {
 public:
  using device_type = Cpu;

  /// `threads` that operators may use, the calling one included; 0 means default_thread_count(). They start with the first
  /// call that is worth more than one. Throws ValueError for a negative number.
  explicit Context(int threads = 0) : simd_level_(detect_simd_level()) { set_threads(threads); }

  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }
  void set_threads(int threads) {
    if (threads < 0 || threads > max_threads) {
      throw ValueError("threads: " + std::to_string(threads) + " is not between 0 and " + std::to_string(max_threads));
    }
    threads = threads == 0 ? std::min(default_thread_count(), max_threads) : threads;
    if (threads != threads_) pool_.reset();
    threads_ = threads;
  }

  /// The instruction set that kernels use: the best that the processor has, unless lowered (tests force every level).
  [[nodiscard]] SimdLevel simd_level() const noexcept { return simd_level_; }
  /// Throws DeviceError where the processor does not have it.
  void set_simd_level(SimdLevel level) {
    if (level > detect_simd_level()) {
      throw DeviceError("this processor does not support " + std::string(simd_level_name(level)));
    }
    simd_level_ = level;
  }

  /// Batch-invariant mode: `linear` sums every output in one order whatever the number of rows, so that a prompt gives
  /// bitwise the same logits in one piece, in several, or beside other rows. Prefill is slower. Off by default.
  [[nodiscard]] bool batch_invariant() const noexcept { return batch_invariant_; }
  void set_batch_invariant(bool on) noexcept { batch_invariant_ = on; }

  [[nodiscard]] Workspace& workspace() noexcept { return workspace_; }

  /// The threads themselves; see parallel_for, which is what operators call.
  [[nodiscard]] detail::ThreadPool& thread_pool() {
    if (!pool_) pool_ = std::make_unique<detail::ThreadPool>(threads_);
    return *pool_;
  }

  /// Everything passed to this context has happened when this returns; on the CPU that is always so.
  void synchronize() const noexcept {}

  static constexpr int max_threads = 1024;

 private:
  Workspace workspace_;
  std::unique_ptr<detail::ThreadPool> pool_;
  int threads_ = 1;
  SimdLevel simd_level_;
  bool batch_invariant_ = false;
};

TENON_NAMESPACE_END
