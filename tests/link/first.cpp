// One of two translation units that include everything; second.cpp is the other.
#include <cstddef>
#include <cstdio>
#include <tenon/text.hpp>

#include "link/shared.hpp"

int main() {
  // The address of an inline function and of an inline variable is the same in both translation units.
  if (&tenon::device_name != second_device_name() || &tenon::Cpu::name != second_cpu_name()) {
    std::puts("the two translation units have copies of their own");
    return 1;
  }
  return 0;
}
