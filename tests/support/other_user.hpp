// Permissions hold for everybody but root: to test them, root becomes somebody else for a while.
#pragma once

#include <unistd.h>

namespace tenon_test {

/// While it lives, the process is one for which files' permissions hold, if `obeys()`; with user namespaces or security
/// modules that may be refused.
class OtherUser {
 public:
  OtherUser() : root_(::geteuid() == 0), obeys_(!root_ || ::seteuid(65534) == 0) {}
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;
  ~OtherUser() {
    if (root_ && obeys_ && ::seteuid(0) != 0) ::_exit(1);  // whatever followed would mean nothing
  }

  [[nodiscard]] bool obeys() const noexcept { return obeys_; }

 private:
  bool root_;
  bool obeys_;
};

}  // namespace tenon_test
