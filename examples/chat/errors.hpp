// What ends the program early, and how.
#pragma once

#include <stdexcept>

namespace chat {

/// The command line asks for what cannot be: exit code 2. Every other exception is a failure: exit code 1.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace chat
