// Escape sequences on the command line, which are read only where the user asks for it.
#pragma once

#include <string>
#include <string_view>

namespace chat {

/// Replaces \n, \t, \\ and \xNN. Throws UsageError that names `option` for any other use of a backslash.
std::string unescape(std::string_view text, std::string_view option);

}  // namespace chat
