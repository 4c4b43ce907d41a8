// The conversation on a terminal.
#pragma once

#include "chat/session.hpp"

namespace chat {

/// Reads questions and commands, and answers, until the user leaves. Ctrl-C stops an answer; what there is of it stays
/// in the conversation. Errors that concern one question are told, the question is taken back, and the chat goes on.
void converse(Session& session);

}  // namespace chat
