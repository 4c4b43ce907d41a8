// The other translation unit that includes everything.
#include <tenon/text.hpp>

#include "link/shared.hpp"

DeviceName second_device_name() { return &tenon::device_name; }

const std::string_view* second_cpu_name() { return &tenon::Cpu::name; }
