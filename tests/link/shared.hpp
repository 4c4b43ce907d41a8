// What second.cpp tells first.cpp: addresses, as it sees them.
#pragma once

#include <string_view>
#include <tenon/core/device.hpp>

using DeviceName = std::string_view (*)(tenon::DeviceKind) noexcept;

DeviceName second_device_name();
const std::string_view* second_cpu_name();
