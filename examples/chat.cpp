// chat: talks with a Qwen2 model, or answers one prompt. The parts are in the folder chat/; a good order to read them is
// options, model, session, one_shot, interactive.
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>
#include <string>

#include "chat/errors.hpp"
#include "chat/interactive.hpp"
#include "chat/one_shot.hpp"
#include "chat/options.hpp"
#include "chat/session.hpp"

namespace {

/// One line on standard error, whatever is in the message.
int report(std::string message, int exit_code) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  std::cerr << "chat: " << message << std::endl;
  return exit_code;
}

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
  try {
    if (const auto options = chat::parse_options(argc, argv)) run(*options);
    return 0;
  } catch (const chat::UsageError& error) {
    return report(error.what(), 2);
  } catch (const std::bad_alloc&) {
    return report("there is not enough memory for this model and context", 1);
  } catch (const std::exception& error) {
    return report(error.what(), 1);
  }
}
