#include "chat/interactive.hpp"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <tenon/core/error.hpp>

#include "chat/interrupt.hpp"
#include "chat/line_editor.hpp"
#include "chat/terminal.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"

namespace chat {
namespace {

class Chat {
 public:
  explicit Chat(Session& session) : session_(session), conversation_(session.options().system) {}
  void run();

 private:
  struct Command {
    std::string_view name;
    std::string_view argument;
    std::string_view help;
    void (Chat::*run)(const std::string& argument);
  };
  static std::span<const Command> commands();

  void greet() const;
  ReadStatus read_question(std::string& text);
  void obey(const std::string& line);
  void answer();

  void help(const std::string&);
  void reset(const std::string&);
  void undo(const std::string&);
  void regenerate(const std::string&);
  void system(const std::string& text);
  void save(const std::string& file);
  void exit(const std::string&) { leaving_ = true; }

  Session& session_;
  Conversation conversation_;
  InterruptGuard interrupts_;
  program::TerminalKeeper terminal_keeper_;  // before the editor, which changes the settings
  LineEditor editor_;
  Screen screen_{STDOUT_FILENO};
  bool leaving_ = false;
};

std::span<const Chat::Command> Chat::commands() {
  static constexpr Command list[] = {
      {"/help", "", "list the commands", &Chat::help},
      {"/reset", "", "forget the conversation, keep the system prompt", &Chat::reset},
      {"/undo", "", "take back the last question and its answer", &Chat::undo},
      {"/regenerate", "", "answer the last question again", &Chat::regenerate},
      {"/system", "TEXT", "set the system prompt; without TEXT, show it", &Chat::system},
      {"/save", "FILE", "save the conversation, as JSON where FILE ends in .json", &Chat::save},
      {"/exit", "", "leave, as Ctrl-D does", &Chat::exit}};
  return list;
}

void Chat::run() {
  greet();
  bool hinted = false;
  std::string text;
  while (!leaving_) {
    switch (read_question(text)) {
      case ReadStatus::end: screen_.write("\n"); return;
      case ReadStatus::interrupted:
        InterruptGuard::clear();
        screen_.write("\n");
        if (!hinted) screen_.note("Ctrl-D or /exit leaves.");
        hinted = true;
        break;
      case ReadStatus::line:
        if (text.find_first_not_of(" \t\n") == std::string::npos) break;
        if (text.starts_with('/')) {
          obey(text);
        } else {
          conversation_.ask(text);
          answer();
        }
    }
  }
}

void Chat::greet() const {
  const auto parameters = static_cast<double>(session_.folder().config.parameter_count());
  const bool billions = parameters >= 0.95e9;
  char size[64];
  char time[64];
  std::snprintf(size, sizeof size, billions ? "%.1f billion" : "%.1f million", parameters / (billions ? 1e9 : 1e6));
  std::snprintf(time, sizeof time, session_.load_seconds() < 1 ? "%.0f ms" : "%.1f s",
                session_.load_seconds() * (session_.load_seconds() < 1 ? 1000 : 1));
  screen_.note(program::printable(session_.folder().name) + ": " + size + " parameters, " +
               std::string(tenon::dtype_name(session_.model().dtype())) + ", " + session_.model().processor() +
               ", context " + std::to_string(session_.model().context()) + ", loaded in " + time +
               "; /help lists the commands");
}

/// A line, or several where all but the last end in a backslash.
ReadStatus Chat::read_question(std::string& text) {
  text.clear();
  std::string line;
  while (true) {
    const ReadStatus status = editor_.read(text.empty() ? "> " : "| ", line);
    if (status == ReadStatus::interrupted || (status == ReadStatus::end && text.empty())) return status;
    if (status == ReadStatus::line && line.ends_with('\\')) {
      line.back() = '\n';
      text += line;
      continue;
    }
    if (status == ReadStatus::line) text += line;
    return ReadStatus::line;
  }
}

void Chat::obey(const std::string& line) {
  const std::size_t space = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = std::string_view(line).substr(0, space);
  const std::size_t start = std::min(line.find_first_not_of(" \t\n", space), line.size());
  std::string argument = line.substr(start);
  argument.erase(argument.find_last_not_of(" \t\n") + 1);
  for (const Command& command : commands()) {
    if (command.name != name) continue;
    if (command.argument.empty() && !argument.empty()) {
      screen_.note(std::string(name) + " takes nothing after it.");
      return;
    }
    (this->*command.run)(argument);
    return;
  }
  screen_.note("There is no command '" + program::printable(name) + "'; /help lists them.");
}

void Chat::answer() {
  AnswerWriter writer(screen_, session_.starts_thinking());
  bool begun = false;
  int pieces_read = 0;
  const auto take_back = [&](const std::string& reason) {
    conversation_.undo();
    screen_.note((begun ? "\n[" : "[") + program::printable(reason) + "; the question is taken back]");
  };
  try {
    const auto result = session_.answer(
        session_.prompt_ids(conversation_),
        [&](std::string_view piece) {
          begun = begun || !piece.empty();
          writer.write(piece);
          return !InterruptGuard::pending();
        },
        [&] {
          if (++pieces_read == 2) screen_.note("[reading]");
          return !InterruptGuard::pending();
        });
    const bool stopped = result.finish_reason == tenon::FinishReason::cancelled;
    if (stopped && !begun) {
      take_back("stopped");
    } else {
      std::string text = result.text;
      // Thoughts that were never finished must not pass for an answer: closed, the template leaves them out.
      if (session_.starts_thinking() && text.find("</think>") == std::string::npos) text += "\n</think>\n\n";
      conversation_.answer(text);
      screen_.write("\n");
      if (stopped) screen_.note("[stopped]");
      const std::string reason = session_.cut_off_reason(result);
      if (!reason.empty()) screen_.note("[" + reason + "]");
    }
    if (session_.options().stats) Screen(STDERR_FILENO).dim(session_.stats(result));
  } catch (const tenon::ValueError& error) {  // the prompt is too long
    take_back(std::string(error.what()) + ", /reset starts over");
  } catch (const tenon::Error& error) {
    take_back(error.what());
  } catch (const std::bad_alloc&) {
    take_back("out of memory");
  }
  InterruptGuard::clear();
}

void Chat::help(const std::string&) {
  std::string text;
  for (const Command& command : commands()) {
    std::string usage = std::string(command.name) + " " + std::string(command.argument);
    usage.resize(16, ' ');
    text += "  " + usage + std::string(command.help) + "\n";
  }
  text +=
      "A backslash at the end of a line continues it on the next one. A line that starts with a space is no command.\n"
      "Ctrl-C stops an answer, and what there is of it counts as said.\n";
  screen_.dim(text);
}

void Chat::reset(const std::string&) {
  conversation_.reset();
  screen_.note("The conversation is forgotten.");
}

void Chat::undo(const std::string&) {
  const auto question = conversation_.undo();
  screen_.note(question ? "Taken back: " + *question : "There is nothing to take back.");
}

void Chat::regenerate(const std::string&) {
  const auto question = conversation_.undo();
  if (!question) return screen_.note("There is no question yet.");
  conversation_.ask(*question);
  answer();
}

void Chat::system(const std::string& text) {
  if (session_.options().raw) return screen_.note("With --raw there is no system prompt.");
  if (!text.empty()) {
    conversation_.set_system(text);
    return screen_.note("The system prompt is set; /reset would forget what was said before it.");
  }
  const auto given = conversation_.system();
  const auto& fallback = session_.folder().chat_template->default_system();
  screen_.note(given ? *given : fallback ? *fallback : "There is no system prompt.");
}

void Chat::save(const std::string& file) {
  if (file.empty()) return screen_.note("/save needs the name of a file.");
  const char* home = std::getenv("HOME");
  const std::string path = file.starts_with("~/") && home != nullptr ? home + file.substr(1) : file;
  try {
    conversation_.save(path);
    screen_.note("Saved to '" + program::printable(path) + "'.");
  } catch (const tenon::Error& error) {
    screen_.note(program::printable(error.what()) + ".");
  }
}

}  // namespace

void converse(Session& session) { Chat(session).run(); }

}  // namespace chat
