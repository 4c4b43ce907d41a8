// One question, one answer.
#pragma once

#include <string>

#include "chat/session.hpp"

namespace chat {

/// All of standard input, less one newline at its end. Throws UsageError where there is nothing.
std::string read_standard_input();

/// Prints the answer to `prompt` and a newline on standard output, and with --stats its speed on standard error.
void answer_once(Session& session, const std::string& prompt);

}  // namespace chat
