// Ctrl-C in a conversation: it stops what is going on, and not the program.
#pragma once

#include <csignal>

namespace chat {

/// While it exists, SIGINT is remembered instead of ending the program, and interrupts a blocking read. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  ~InterruptGuard();

  /// Whether Ctrl-C came since the last `clear`.
  static bool pending() noexcept;
  static void clear() noexcept;

 private:
  struct sigaction old_interrupt_ {};
  struct sigaction old_continue_ {};
};

}  // namespace chat
