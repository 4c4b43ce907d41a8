// Signals that would end a program in the middle of something.
#pragma once

#include <fcntl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace program {
namespace detail {

/// What a signal handler needs: written before the handlers are there, and only read from then on.
struct SignalState {
  char message[160] = {};
  termios terminal{};
  bool has_terminal = false;
};
inline SignalState signal_state;

/// Gives the terminal the settings that it had, unless another program has it now.
inline void restore_terminal() noexcept {
  if (!signal_state.has_terminal || ::tcgetpgrp(STDIN_FILENO) != ::getpgrp()) return;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &signal_state.terminal);
}

inline void handle_lost_file(int) {
  restore_terminal();
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, signal_state.message, std::strlen(signal_state.message));
  ::_exit(1);
}

/// Installed with SA_RESETHAND: the signal raised here ends the program as if it had never been caught.
inline void handle_end(int signal) {
  restore_terminal();
  ::raise(signal);
}

}  // namespace detail

/// To be called first of all. A limit on the size of files becomes an error of the write that meets it, and a mapped
/// file that was cut short ends the program with one sentence. A standard stream that is closed gets a place holder on
/// which reading and writing fail, since the next file opened would else take its number.
inline void prepare_process(const char* name) {
  for (const int file : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(file, F_GETFD) < 0 && errno == EBADF) {
      [[maybe_unused]] const int place = ::open("/dev/null", file == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    }
  }
  std::signal(SIGXFSZ, SIG_IGN);
  char* end = detail::signal_state.message;
  for (const char* part : {name, ": a model file was cut short, or could not be read, while it was in use\n"}) {
    end = std::copy_n(part, std::strlen(part), end);
  }
  struct sigaction action {};
  action.sa_handler = detail::handle_lost_file;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, SIGTTOU);
  sigaction(SIGBUS, &action, nullptr);
}

/// While it exists, signals that end the program leave the terminal as it is now. One at a time.
class TerminalKeeper {
 public:
  TerminalKeeper() {
    detail::signal_state.has_terminal = ::tcgetattr(STDIN_FILENO, &detail::signal_state.terminal) == 0;
    struct sigaction action {};
    action.sa_handler = detail::handle_end;
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGTTOU);  // setting the terminal must not stop the program
    for (int i = 0; i < count; ++i) {
      sigaction(signals[i], nullptr, &old_[i]);
      if (old_[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);  // nohup stays nohup
    }
  }
  TerminalKeeper(const TerminalKeeper&) = delete;
  TerminalKeeper& operator=(const TerminalKeeper&) = delete;
  ~TerminalKeeper() {
    for (int i = 0; i < count; ++i) sigaction(signals[i], &old_[i], nullptr);
    detail::signal_state.has_terminal = false;
  }

 private:
  static constexpr int signals[] = {SIGTERM, SIGHUP, SIGQUIT};
  static constexpr int count = 3;
  struct sigaction old_[count] {};
};

}  // namespace program
