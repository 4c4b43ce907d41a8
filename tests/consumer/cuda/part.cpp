// A shared library with a copy of tenon's kernels: PART_FUNCTION names its function, PART_LEAST and PART_MOST the devices
// that it holds code for.
#include "part.hpp"

#include "sum.hpp"

Answer PART_FUNCTION() {
  Answer answer;
  try {
    if (tenon::Runtime<tenon::Cuda>::device_count() == 0) return answer;
    answer.capability = tenon::Runtime<tenon::Cuda>::properties(0).compute_capability;
    answer.fits = answer.capability >= PART_LEAST && answer.capability <= PART_MOST;
    answer.right = sum_is_right();
  } catch (const std::exception& error) {
    std::snprintf(answer.message, sizeof answer.message, "%s", error.what());
  }
  return answer;
}
