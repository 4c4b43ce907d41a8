// A program of two shared libraries: each must run its own kernels, and say so where it has none for the device.
#include "part.hpp"

#include <cstdio>
#include <cstring>

static bool good(const char* name, const Answer& answer) {
  std::fprintf(stderr, "%s: device %d, fits %d, right %d, %s\n", name, answer.capability, answer.fits, answer.right,
               answer.message);
  if (answer.fits) return answer.right;
  return !answer.right && std::strstr(answer.message, "cuda: this program holds no kernels for this device") != nullptr;
}

int main() {
  const Answer first = first_part();
  const Answer second = second_part();
  if (first.capability == 0 && second.capability == 0 && first.message[0] == '\0' && second.message[0] == '\0') {
    std::puts("there is no CUDA device");
    return 0;
  }
  // Twice: what was looked up by then must not change the outcome.
  const bool right =
      good("first", first) && good("second", second) && good("first", first_part()) && good("second", second_part());
  std::puts(right ? "right" : "wrong");
  return right ? 0 : 1;
}
