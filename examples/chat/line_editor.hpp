// Lines that a user types on a terminal.
#pragma once

#include <memory>
#include <string>

namespace chat {

enum class ReadStatus {
  line,         ///< a line was typed
  interrupted,  ///< Ctrl-C
  end           ///< Ctrl-D, or the terminal is gone
};

/// Reads lines from standard input. On a capable terminal, and where the program was built with libedit, they can be
/// edited, and the arrow keys bring earlier ones back. These are kept in $XDG_STATE_HOME/tenon/chat_history, or under
/// ~/.local/state; where that cannot be written, they end with the program. Needs an InterruptGuard.
class LineEditor {
 public:
  LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;
  ~LineEditor();

  /// Reads one line, without its newline, after printing `prompt`.
  ReadStatus read(const std::string& prompt, std::string& line);

 private:
  class Impl;
  class LibeditImpl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace chat
