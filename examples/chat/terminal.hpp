// Writing to standard output and to terminals.
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace chat {

/// Writes everything, whatever signals come in between. Throws std::system_error where that fails.
void write_all(int file, std::string_view text);

/// Whether the file is a terminal that understands escape sequences (TERM is set, and not "dumb").
bool is_capable_terminal(int file);

/// The two weights of text in a conversation: what is said, and dim remarks about it. Without a capable terminal, and
/// where NO_COLOR is set, both look the same.
class Screen {
 public:
  explicit Screen(int file);

  void write(std::string_view text) const { write_all(file_, text); }
  /// Writes dim text.
  void dim(std::string_view text) const;
  /// Writes one line of dim text.
  void note(std::string_view text) const { dim(std::string(text) + "\n"); }

 private:
  int file_;
  bool styled_;
};

/// Writes an answer as it comes, with the thoughts of a reasoning model dim. Thoughts end with `</think>`; they start
/// with `<think>` or, where the template has written that already, at once.
class AnswerWriter {
 public:
  AnswerWriter(const Screen& screen, bool starts_thinking) : screen_(screen), thinking_(starts_thinking) {}
  void write(std::string_view piece);

 private:
  const Screen& screen_;
  bool thinking_;
  bool started_ = false;
  std::string recent_;  // the end of the thoughts so far, where `</think>` may have begun
};

/// A bar on standard error while a large model loads; invisible where that is no terminal, and for the first half second.
/// The environment variable TENON_CHAT_PROGRESS_AFTER gives another number of milliseconds.
class ProgressBar {
 public:
  ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;
  ~ProgressBar() { clear(); }

  [[nodiscard]] bool enabled() const noexcept { return enabled_; }
  void update(std::int64_t done, std::int64_t total);
  void clear() noexcept;

 private:
  std::chrono::steady_clock::time_point visible_from_;
  bool enabled_;
  int shown_percent_ = -1;
};

}  // namespace chat
