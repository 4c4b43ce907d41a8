#include "chat/interrupt.hpp"

#include <atomic>

namespace chat {
namespace {

std::atomic<bool> interrupted{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may only touch lock-free atomics");

void handle(int signal) {
  if (signal == SIGINT) interrupted.store(true, std::memory_order_relaxed);
}

}  // namespace

InterruptGuard::InterruptGuard() {
  clear();
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  // No SA_RESTART: the read of the line editor must return. SIGCONT too, so that it sets up the terminal again.
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGCONT, &action, &old_continue_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGCONT, &old_continue_, nullptr);
}

bool InterruptGuard::pending() noexcept { return interrupted.load(std::memory_order_relaxed); }
void InterruptGuard::clear() noexcept { interrupted.store(false, std::memory_order_relaxed); }

}  // namespace chat
