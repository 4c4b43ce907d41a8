// What --device says: cpu, cuda or cuda:N. One reader for all programs, so that all of them take and refuse the same.
#pragma once

#include <limits>
#include <string>
#include <string_view>

#include <tenon/core/device.hpp>

#include "common/program.hpp"

namespace program {

/// Where to compute.
struct Device {
  tenon::DeviceKind kind = tenon::DeviceKind::cpu;
  int ordinal = 0;  ///< of a GPU

  [[nodiscard]] bool is_cuda() const noexcept { return kind == tenon::DeviceKind::cuda; }
};

/// Whether the program was built with CUDA, which its CMake target says.
#ifdef TENON_PROGRAM_CUDA
inline constexpr bool has_cuda = true;
#else
inline constexpr bool has_cuda = false;
#endif

/// The names that a build takes, for --help.
inline constexpr const char* device_help = has_cuda
                                               ? "Where to compute: cpu (default), cuda, or cuda:N for the GPU number N"
                                               : "Where to compute: cpu (default); this build has no CUDA";

/// Reads the value of --device. Returns what is wrong with it, in one sentence, and nothing where it is right. Whether
/// there is such a GPU is found out when it is used.
inline std::string read_device(std::string_view text, Device& device) {
  constexpr std::string_view before_number = "cuda:";
  device = {};
  if (text == "cpu") return {};
  const bool numbered = text.starts_with(before_number);
  if (text != "cuda" && !numbered) {
    return "--device " + in_quotes(text) +
           (has_cuda ? " is no device; the devices are cpu, cuda and cuda:N"
                     : " is not a device of this build; the device is cpu");
  }
  if (numbered && (!read_number(text.substr(before_number.size()), device.ordinal) || device.ordinal < 0)) {
    return "--device " + in_quotes(text) + ": the number of a GPU is a whole number between 0 and " +
           std::to_string(std::numeric_limits<int>::max());
  }
  if (!has_cuda) return "--device cuda: this build has no CUDA; the device is cpu";
  device.kind = tenon::DeviceKind::cuda;
  return {};
}

}  // namespace program
