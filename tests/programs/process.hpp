// Runs a program, with pipes or in a pseudo-terminal, and reads what it writes.
#pragma once

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tenon_test {

using Environment = std::map<std::string, std::string>;

/// Far more than any of it takes, also under sanitizers on a busy machine; tests wait for output, never for time.
inline constexpr std::chrono::seconds patience{240};

namespace detail {

[[noreturn]] inline void execute(const std::vector<std::string>& command, const Environment& environment) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  ::execv(arguments[0], arguments.data());
  ::_exit(127);
}

/// Waits until the file has something to read; false at the deadline.
inline bool wait_readable(std::vector<pollfd>& files, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const int ready = ::poll(files.data(), files.size(), static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) throw std::runtime_error("poll failed");
  }
}

/// The exit code; 128 + n for signal n.
inline int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace detail

struct Finished {
  int exit_code = -1;
  std::string output;
  std::string errors;
};

/// Where a program's standard output goes, if not into Finished::output.
struct RunOptions {
  std::string input;        ///< at most what a pipe holds (64 KiB)
  std::string output_file;  ///< a path to write to instead
  Environment environment;
  bool obey_permissions = false;  ///< root, too, may then do only what files allow it; see cannot_obey
};

/// The exit code where RunOptions::obey_permissions asks for what the system refuses.
inline constexpr int cannot_obey = 126;

/// Runs a program to its end. Its standard streams are no terminal.
inline Finished run_program(const std::vector<std::string>& command, const RunOptions& options = {}) {
  int in[2];
  int out[2];
  int err[2];
  if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    throw std::runtime_error("pipe failed");
  }
  const pid_t child = ::fork();
  if (child < 0) throw std::runtime_error("fork failed");
  if (child == 0) {
    int target = out[1];
    if (!options.output_file.empty()) target = ::open(options.output_file.c_str(), O_WRONLY);
    ::dup2(in[0], STDIN_FILENO);
    ::dup2(target, STDOUT_FILENO);
    ::dup2(err[1], STDERR_FILENO);
    if (options.obey_permissions && ::geteuid() == 0) {
      for (const int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH}) {
        if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) ::_exit(cannot_obey);
      }
    }
    detail::execute(command, options.environment);
  }
  ::close(in[0]);
  ::close(out[1]);
  ::close(err[1]);
  const auto old_handler = std::signal(SIGPIPE, SIG_IGN);  // a program may end without reading its input
  std::string_view rest = options.input;
  while (!rest.empty()) {
    const ssize_t written = ::write(in[1], rest.data(), rest.size());
    if (written < 0) break;
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  ::close(in[1]);
  std::signal(SIGPIPE, old_handler);

  Finished result;
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<pollfd> files{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  bool in_time = true;
  while (in_time && (files[0].fd >= 0 || files[1].fd >= 0)) {
    in_time = detail::wait_readable(files, deadline);
    for (std::size_t i = 0; in_time && i < 2; ++i) {
      if (files[i].fd < 0 || files[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = ::read(files[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        (i == 0 ? result.output : result.errors).append(buffer, static_cast<std::size_t>(count));
      } else {
        files[i].fd = -1;
      }
    }
  }
  if (!in_time) ::kill(child, SIGKILL);
  ::close(out[0]);
  ::close(err[0]);
  result.exit_code = detail::wait_for(child);
  if (!in_time) throw std::runtime_error(command[0] + " did not end in time");
  return result;
}

/// A program in a terminal of its own: 200 columns, so that no test line wraps.
class PseudoTerminal {
 public:
  PseudoTerminal(const std::vector<std::string>& command, const Environment& environment) {
    winsize size{};
    size.ws_row = 50;
    size.ws_col = 200;
    child_ = ::forkpty(&file_, nullptr, nullptr, &size);
    if (child_ < 0) throw std::runtime_error("forkpty failed");
    if (child_ == 0) detail::execute(command, environment);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal() {
    if (child_ > 0) {
      ::kill(child_, SIGKILL);
      detail::wait_for(child_);
    }
    ::close(file_);
  }

  /// Types. "\x03" is Ctrl-C, "\x04" Ctrl-D.
  void type(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(file_, text.data(), text.size());
      if (written < 0 && errno != EINTR) throw std::runtime_error("writing to the terminal failed");
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
  }

  /// Reads until `text` has appeared after what was waited for last, and returns everything up to its end, without
  /// escape sequences and carriage returns. Throws with what there was, if it does not come.
  std::string expect(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (true) {
      const std::string seen = plain(raw_);
      if (const std::size_t at = seen.find(text); at != std::string::npos) {
        const std::size_t end = at + text.size();
        raw_ = seen.substr(end);
        return seen.substr(0, end);
      }
      if (!read_more(deadline)) {
        throw std::runtime_error("'" + std::string(text) + "' did not come; there was '" + seen + "'");
      }
    }
  }

  /// The same with escape sequences and carriage returns.
  std::string expect_raw(std::string_view text) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (raw_.find(text) == std::string::npos) {
      if (!read_more(deadline)) throw std::runtime_error("'" + std::string(text) + "' did not come");
    }
    const std::size_t end = raw_.find(text) + text.size();
    const std::string found = raw_.substr(0, end);
    raw_.erase(0, end);
    return found;
  }

  /// Sends a signal to the program.
  void send(int signal) const { ::kill(child_, signal); }
  /// The terminal, as the program has it.
  [[nodiscard]] int file() const { return file_; }

  /// Stops the program as Ctrl-Z does, and lets it go on when `meanwhile` is done.
  void suspend(const std::function<void(int terminal)>& meanwhile) const {
    ::kill(child_, SIGSTOP);
    int status = 0;
    while (::waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {
    }
    meanwhile(file_);
    ::kill(child_, SIGCONT);
  }

  /// Reads to the end and returns the exit code; `rest` gets what was still to read.
  int wait_for_exit(std::string* rest = nullptr) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    while (read_more(deadline)) {
    }
    if (!closed_) throw std::runtime_error("the program did not end; there was '" + plain(raw_) + "'");
    if (rest != nullptr) *rest = plain(raw_);
    const int code = detail::wait_for(child_);
    child_ = -1;
    return code;
  }

 private:
  /// False at the deadline, and where the program has closed the terminal.
  bool read_more(std::chrono::steady_clock::time_point deadline) {
    std::vector<pollfd> files{{file_, POLLIN, 0}};
    if (closed_ || !detail::wait_readable(files, deadline)) return false;
    char buffer[4096];
    const ssize_t count = ::read(file_, buffer, sizeof buffer);
    closed_ = count <= 0;  // Linux reports EIO when the last user of the terminal has gone
    if (count > 0) raw_.append(buffer, static_cast<std::size_t>(count));
    return !closed_;
  }

  /// Without control sequences (ESC [ … letter) and carriage returns. A sequence that is not complete stays.
  static std::string plain(std::string_view text) {
    std::string result;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\r') continue;
      if (text[i] == '\x1b' && i + 1 < text.size() && text[i + 1] == '[') {
        std::size_t end = i + 2;
        while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
        if (end < text.size()) {
          i = end;
          continue;
        }
      }
      result += text[i];
    }
    return result;
  }

  pid_t child_ = -1;
  int file_ = -1;
  bool closed_ = false;
  std::string raw_;
};

}  // namespace tenon_test
