// Ctrl-C in a conversation: it stops what is going on, and not the program.
#pragma once

#include <csignal>

namespace chat {

/// What ended InterruptGuard::wait.
enum class Wake {
  readable,     ///< there is something to read, or the end of the file
  interrupted,  ///< Ctrl-C
  continued     ///< the program was stopped (Ctrl-Z), and others may have used its terminal
};

/// While it exists, SIGINT is remembered instead of ending the program. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  /// Whether Ctrl-C came since the last `clear`.
  static bool pending() noexcept;
  static void clear() noexcept;

  /// Waits until `file` can be read without blocking, or for a signal. One that is pending counts, whenever it came.
  static Wake wait(int file) noexcept;

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_continue_ {};
};

}  // namespace chat
