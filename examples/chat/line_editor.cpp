#include "chat/line_editor.hpp"

#include <unistd.h>

#include <cerrno>
#include <clocale>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cwchar>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "chat/interrupt.hpp"
#include "chat/terminal.hpp"

#ifdef TENON_HAVE_LIBEDIT
#include <histedit.h>
#include <langinfo.h>
#endif

namespace chat {

/// Without libedit, the kernel's own line editing: backspace, Ctrl-U, Ctrl-W.
class LineEditor::Impl {
 public:
  virtual ~Impl() = default;

  virtual ReadStatus read(const std::string& prompt, std::string& line) {
    write_all(STDOUT_FILENO, prompt);
    while (true) {
      if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
        line = pending_.substr(0, end);
        pending_.erase(0, end + 1);
        return ReadStatus::line;
      }
      switch (InterruptGuard::wait(STDIN_FILENO)) {
        case Wake::interrupted: pending_.clear(); return ReadStatus::interrupted;
        case Wake::continued: continue;
        case Wake::readable: break;
      }
      char buffer[4096];
      const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
      if (count > 0) {
        pending_.append(buffer, static_cast<std::size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        line = std::exchange(pending_, {});
        return line.empty() ? ReadStatus::end : ReadStatus::line;
      }
    }
  }

 private:
  std::string pending_;
};

#ifdef TENON_HAVE_LIBEDIT
namespace {

/// libedit decodes what is typed by the locale: without UTF-8 in it, letters beyond ASCII would be taken apart.
void use_utf8() {
  if (std::setlocale(LC_CTYPE, "") != nullptr && std::string_view(nl_langinfo(CODESET)) == "UTF-8") return;
  std::setlocale(LC_CTYPE, "C.UTF-8");
}

/// Where earlier lines are kept; empty where they cannot be.
std::filesystem::path history_file() {
  std::filesystem::path folder;
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state == '/') {
    folder = state;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home == '/') {
    folder = std::filesystem::path(home) / ".local" / "state";
  } else {
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(folder / "tenon", error);
  if (error) return {};
  // Opening a pipe would wait for its other end, and a device may never end.
  constexpr std::uintmax_t largest = std::uintmax_t{16} << 20;
  std::filesystem::path file = folder / "tenon" / "chat_history";
  const auto status = std::filesystem::status(file, error);
  if (status.type() == std::filesystem::file_type::not_found) return file;
  if (!std::filesystem::is_regular_file(status)) return {};
  const std::uintmax_t size = std::filesystem::file_size(file, error);
  return error || size > largest ? std::filesystem::path() : file;
}

}  // namespace

class LineEditor::LibeditImpl final : public LineEditor::Impl {
 public:
  LibeditImpl() : history_(history_init()), edit_((use_utf8(), el_init("chat", stdin, stdout, stderr))) {
    if (history_ == nullptr || edit_ == nullptr) return;
    HistEvent event;
    history(history_, &event, H_SETSIZE, 1000);
    history(history_, &event, H_SETUNIQUE, 1);
    file_ = history_file();
    if (!file_.empty()) history(history_, &event, H_LOAD, file_.c_str());
    el_set(edit_, EL_CLIENTDATA, this);
    el_set(edit_, EL_PROMPT, &LibeditImpl::give_prompt);
    el_set(edit_, EL_EDITOR, "emacs");
    el_set(edit_, EL_SIGNAL, 0);  // signals are ours
    el_wset(edit_, EL_GETCFN, &LibeditImpl::read_character);
    el_set(edit_, EL_HIST, history, history_);
    el_source(edit_, nullptr);
  }
  LibeditImpl(const LibeditImpl&) = delete;
  LibeditImpl& operator=(const LibeditImpl&) = delete;
  ~LibeditImpl() override {
    if (edit_ != nullptr) el_end(edit_);  // gives the terminal its settings back
    if (history_ == nullptr) return;
    HistEvent event;
    if (!file_.empty()) history(history_, &event, H_SAVE, file_.c_str());
    history_end(history_);
  }

  ReadStatus read(const std::string& prompt, std::string& line) override {
    if (edit_ == nullptr || history_ == nullptr) return Impl::read(prompt, line);
    prompt_ = prompt;
    partial_ = {};
    el_resize(edit_);
    el_set(edit_, EL_PREP_TERM, 1);  // before the prompt shows: the kernel would keep a Ctrl-D for itself
    int count = 0;
    const char* text = el_gets(edit_, &count);
    if (text == nullptr || count <= 0) {
      if (!InterruptGuard::pending()) return ReadStatus::end;
      el_reset(edit_);
      return ReadStatus::interrupted;
    }
    line.assign(text, static_cast<std::size_t>(count));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    HistEvent event;
    if (!line.empty()) history(history_, &event, H_ENTER, line.c_str());
    return ReadStatus::line;
  }

 private:
  static LibeditImpl& owner_of(EditLine* edit) {
    void* self = nullptr;
    el_get(edit, EL_CLIENTDATA, &self);
    return *static_cast<LibeditImpl*>(self);
  }

  static char* give_prompt(EditLine* edit) { return owner_of(edit).prompt_.data(); }

  /// Stands for libedit's own function, which tries again where a signal came: 1 for a character, 0 at the end, -1 for
  /// Ctrl-C.
  static int read_character(EditLine* edit, wchar_t* character) {
    while (true) {
      switch (InterruptGuard::wait(STDIN_FILENO)) {
        case Wake::interrupted: errno = EINTR; return -1;
        case Wake::continued:  // the shell has set up the terminal for itself
          el_set(edit, EL_PREP_TERM, 0);
          el_set(edit, EL_PREP_TERM, 1);
          el_set(edit, EL_REFRESH);
          continue;
        case Wake::readable: break;
      }
      char byte = 0;
      const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return static_cast<int>(count);
      std::mbstate_t& partial = owner_of(edit).partial_;
      const std::size_t used = std::mbrtowc(character, &byte, 1, &partial);
      if (used <= 1) return 1;
      if (used == static_cast<std::size_t>(-1)) partial = {};  // no character: such bytes are dropped
    }
  }

  History* history_;
  EditLine* edit_;
  std::filesystem::path file_;
  std::string prompt_;
  std::mbstate_t partial_{};  // the bytes so far of a character that has several
};
#endif

LineEditor::LineEditor() {
#ifdef TENON_HAVE_LIBEDIT
  if (is_capable_terminal(STDIN_FILENO) && is_capable_terminal(STDOUT_FILENO)) {
    impl_ = std::make_unique<LibeditImpl>();
    return;
  }
#endif
  impl_ = std::make_unique<Impl>();
}

LineEditor::~LineEditor() = default;

ReadStatus LineEditor::read(const std::string& prompt, std::string& line) { return impl_->read(prompt, line); }

}  // namespace chat
