#include "chat/one_shot.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <system_error>
#include <tenon/core/error.hpp>

#include "chat/errors.hpp"
#include "chat/terminal.hpp"

namespace chat {

std::string read_standard_input() {
  constexpr std::size_t largest_prompt = std::size_t{64} << 20;  // input that never ends must not fill the memory
  std::string text;
  char buffer[1 << 16];
  while (true) {
    const ssize_t count = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (count == 0) break;
    if (count > 0) {
      text.append(buffer, static_cast<std::size_t>(count));
      if (text.size() > largest_prompt) {
        throw tenon::ValueError("standard input has more than " + std::to_string(largest_prompt >> 20) +
                                " MiB, which is no prompt");
      }
    } else if (errno != EINTR) {
      throw std::system_error(errno, std::generic_category(), "cannot read standard input");
    }
  }
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  if (text.empty()) throw UsageError("there is no prompt: standard input is empty, and --prompt is not given");
  return text;
}

void answer_once(Session& session, const std::string& prompt) {
  Conversation conversation(session.options().system);
  conversation.ask(prompt);
  const auto ids = session.prompt_ids(conversation);
  if (ids.empty()) throw UsageError("--raw: the prompt is empty, and there is nothing to continue");
  const auto result = session.answer(ids, [](std::string_view piece) {
    write_all(STDOUT_FILENO, piece);
    return true;
  });
  write_all(STDOUT_FILENO, "\n");
  if (session.options().stats) write_all(STDERR_FILENO, session.stats(result));
}

}  // namespace chat
