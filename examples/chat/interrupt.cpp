#include "chat/interrupt.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace chat {
namespace {

std::atomic<bool> interrupted{false};
std::atomic<bool> continued{false};
// The handler writes a byte into this pipe, and whoever waits for keys waits for the byte too. Otherwise a signal between
// a look at `interrupted` and the wait would go unnoticed, as would one that is handled by a thread of the model.
std::atomic<int> wake_read{-1};
std::atomic<int> wake_write{-1};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "a signal handler may only touch lock-free atomics");

void handle(int signal) {
  const int old_errno = errno;
  (signal == SIGINT ? interrupted : continued).store(true);
  // A pipe that is full wakes as well.
  [[maybe_unused]] const ssize_t written = ::write(wake_write.load(), "", 1);
  errno = old_errno;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  clear();
  int ends[2];
  if (::pipe(ends) == 0) {
    for (const int end : ends) {
      ::fcntl(end, F_SETFD, FD_CLOEXEC);
      ::fcntl(end, F_SETFL, O_NONBLOCK);
    }
    wake_read = ends[0];
    wake_write = ends[1];
  }
  struct sigaction action {};
  action.sa_handler = handle;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, &old_interrupt_);
  sigaction(SIGCONT, &action, &old_continue_);
}

InterruptGuard::~InterruptGuard() {
  sigaction(SIGINT, &old_interrupt_, nullptr);
  sigaction(SIGCONT, &old_continue_, nullptr);
  if (const int end = wake_write.exchange(-1); end >= 0) ::close(end);
  if (const int end = wake_read.exchange(-1); end >= 0) ::close(end);
}

bool InterruptGuard::pending() noexcept { return interrupted.load(); }
void InterruptGuard::clear() noexcept { interrupted.store(false); }

Wake InterruptGuard::wait(int file) noexcept {
  pollfd files[] = {{file, POLLIN, 0}, {wake_read.load(), POLLIN, 0}};  // poll passes over a file below 0
  while (true) {
    if (pending()) return Wake::interrupted;
    if (continued.exchange(false)) return Wake::continued;
    const int ready = ::poll(files, 2, -1);
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return Wake::readable;  // reading will tell what is wrong
    if (ready <= 0) continue;
    char bytes[64];
    while (files[1].revents != 0 && ::read(files[1].fd, bytes, sizeof bytes) > 0) {
    }
    if (files[1].revents == 0) return Wake::readable;
  }
}

}  // namespace chat
