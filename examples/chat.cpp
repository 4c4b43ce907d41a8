// chat: talks with a Qwen2 model, or answers one prompt. The parts are in the folder chat/; a good order to read them is
// options, model, session, one_shot, interactive.
#include <unistd.h>

#include "chat/errors.hpp"
#include "chat/interactive.hpp"
#include "chat/one_shot.hpp"
#include "chat/options.hpp"
#include "chat/session.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"

namespace {

void run(chat::Options options) {
  const bool talk = !options.prompt && isatty(STDIN_FILENO) == 1;
  if (!talk && !options.prompt) options.prompt = chat::read_standard_input();
  chat::Session session(options);
  if (talk) {
    chat::converse(session);
  } else {
    chat::answer_once(session, *options.prompt);
  }
}

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("chat");
  return program::run("chat", [&] {
    try {
      if (const auto options = chat::parse_options(argc, argv)) run(*options);
      return 0;
    } catch (const chat::UsageError& error) {
      return program::fail("chat", error.what(), 2);
    }
  });
}
