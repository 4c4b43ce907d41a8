#include "chat/terminal.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace chat {
namespace {

std::chrono::milliseconds progress_delay() {
  int milliseconds = 500;
  if (const char* given = std::getenv("TENON_CHAT_PROGRESS_AFTER")) {
    const std::string_view text = given;
    std::from_chars(text.data(), text.data() + text.size(), milliseconds);
  }
  return std::chrono::milliseconds(milliseconds);
}

}  // namespace

void write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      const char* name = file == STDOUT_FILENO ? "cannot write to standard output" : "cannot write to standard error";
      throw std::system_error(errno, std::generic_category(), name);
    }
  }
}

bool is_capable_terminal(int file) {
  const char* term = std::getenv("TERM");
  return ::isatty(file) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

Screen::Screen(int file) : file_(file) {
  const char* no_color = std::getenv("NO_COLOR");
  styled_ = is_capable_terminal(file) && (no_color == nullptr || *no_color == '\0');
}

void Screen::dim(std::string_view text) const {
  if (text.empty()) return;
  write(styled_ ? "\x1b[2m" + std::string(text) + "\x1b[0m" : std::string(text));
}

void AnswerWriter::write(std::string_view piece) {
  constexpr std::string_view open = "<think>";
  constexpr std::string_view close = "</think>";
  if (piece.empty()) return;
  if (!started_ && piece.starts_with(open)) thinking_ = true;
  started_ = true;
  if (thinking_) {
    const std::size_t before = recent_.size();
    recent_ += piece;
    const std::size_t mark = recent_.find(close);
    const std::size_t thoughts = mark == std::string::npos ? piece.size() : mark + close.size() - before;
    screen_.dim(piece.substr(0, thoughts));
    piece.remove_prefix(thoughts);
    thinking_ = mark == std::string::npos;
    recent_.erase(0, recent_.size() - std::min(recent_.size(), close.size() - 1));
  }
  screen_.write(piece);
}

ProgressBar::ProgressBar()
    : visible_from_(std::chrono::steady_clock::now() + progress_delay()),
      enabled_(is_capable_terminal(STDERR_FILENO)) {}

void ProgressBar::update(std::int64_t done, std::int64_t total) {
  if (!enabled_ || total <= 0 || std::chrono::steady_clock::now() < visible_from_) return;
  const int percent = static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  constexpr std::size_t width = 40;
  std::string bar(width, ' ');
  std::fill_n(bar.begin(), std::min(width, static_cast<std::size_t>(percent) * width / 100), '=');
  char line[128];
  const bool large = total >= 1'000'000'000;
  const int length = std::snprintf(line, sizeof line, "\rloading [%s] %3d %% of %.1f %s", bar.c_str(), percent,
                                   static_cast<double>(total) / (large ? 1e9 : 1e6), large ? "GB" : "MB");
  write_all(STDERR_FILENO, std::string_view(line, static_cast<std::size_t>(length)));
}

void ProgressBar::clear() noexcept {
  if (shown_percent_ < 0) return;
  shown_percent_ = -1;
  try {
    write_all(STDERR_FILENO, "\r\x1b[K");
  } catch (const std::system_error&) {
    // The terminal is gone; so is the bar.
  }
}

}  // namespace chat
