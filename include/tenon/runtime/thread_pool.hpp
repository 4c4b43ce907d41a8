// ThreadPool: the worker threads of a context.
//
// Work is split into numbered pieces, which whoever is free claims: the caller never waits for a worker that has not begun,
// so that on a busy machine a loop costs what its pieces cost, and not until the last worker has been scheduled. Between
// loops workers look for new ones for about 50 microseconds, then they sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Tells the processor that this is a waiting loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

/// Runs one loop at a time, for the one thread that owns it. Calls from inside a loop run on the calling thread.
class ThreadPool {
 public:
  /// Loops with more pieces than this run on the calling thread.
  static constexpr int max_pieces = (1 << 16) - 1;

  /// `threads` in all, the caller included. Where the system has no more threads to give, fewer work.
  explicit ThreadPool(int threads) {
    workers_.reserve(static_cast<std::size_t>(threads > 1 ? threads - 1 : 0));
    try {
      for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
    }
  }
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() {
    stop_.store(true, std::memory_order_relaxed);
    epoch_.fetch_add(1, std::memory_order_release);
    epoch_.notify_all();
    for (std::thread& worker : workers_) worker.join();
  }

  /// Calls body(piece) once for each piece in [0, pieces) and returns when all calls have. The first exception that one
  /// throws is thrown again here.
  template <class Body>
  void run(int pieces, Body& body) {
    if (pieces <= 1 || pieces > max_pieces || running_) {
      for (int piece = 0; piece < pieces; ++piece) body(piece);
      return;
    }
    running_ = true;
    call_ = [](void* argument, int piece) { (*static_cast<Body*>(argument))(piece); };
    argument_ = &body;
    unfinished_.store(pieces, std::memory_order_relaxed);
    const std::uint32_t epoch = epoch_.load(std::memory_order_relaxed) + 1;
    state_.store(pack(epoch, static_cast<std::uint32_t>(pieces)), std::memory_order_release);
    epoch_.store(epoch, std::memory_order_release);
    epoch_.notify_all();
    run_pieces(epoch);
    for (int spin = 0; spin < spins && unfinished_.load(std::memory_order_acquire) != 0; ++spin) spin_pause();
    for (int left = unfinished_.load(std::memory_order_acquire); left != 0;
         left = unfinished_.load(std::memory_order_acquire)) {
      unfinished_.wait(left, std::memory_order_acquire);
    }
    running_ = false;
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  static constexpr int spins = 1000;  // of a pause that takes about 50 ns on current processors

  /// epoch (32 bits) | pieces in all (16) | next piece (16).
  static std::uint64_t pack(std::uint32_t epoch, std::uint32_t pieces) noexcept {
    return (std::uint64_t{epoch} << 32) | (std::uint64_t{pieces} << 16);
  }

  /// Claims and runs pieces of the loop `epoch` until none is left. Only a claim makes it safe to read call_ and
  /// argument_: the loop cannot end, and the next one not begin, before the piece is finished.
  void run_pieces(std::uint32_t epoch) {
    std::uint64_t state = state_.load(std::memory_order_acquire);
    while (static_cast<std::uint32_t>(state >> 32) == epoch) {
      const auto next = static_cast<int>(state & 0xffffu);
      if (next >= static_cast<int>((state >> 16) & 0xffffu)) return;
      if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      ++state;
      try {
        call_(argument_, next);
      } catch (...) {
        const std::lock_guard lock(error_mutex_);
        if (!error_) error_ = std::current_exception();
      }
      if (unfinished_.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished_.notify_one();
    }
  }

  void work() {
    std::uint32_t seen = 0;
    while (true) {
      for (int spin = 0; spin < spins && epoch_.load(std::memory_order_acquire) == seen; ++spin) spin_pause();
      epoch_.wait(seen, std::memory_order_acquire);
      seen = epoch_.load(std::memory_order_acquire);
      if (stop_.load(std::memory_order_relaxed)) return;
      run_pieces(seen);
    }
  }

  // What workers watch, and what they write, lie on cache lines of their own.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint64_t> state_{0};
  alignas(64) std::atomic<int> unfinished_{0};
  alignas(64) void (*call_)(void*, int) = nullptr;
  void* argument_ = nullptr;
  bool running_ = false;
  std::atomic<bool> stop_{false};
  std::mutex error_mutex_;
  std::exception_ptr error_;
  std::vector<std::thread> workers_;
};

}  // namespace detail
TENON_NAMESPACE_END
