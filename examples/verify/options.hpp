// What the verify program was asked for, and who does it.
#pragma once

#include <filesystem>
#include <string>

#include <tenon/core/dtype.hpp>

#include "common/device.hpp"

namespace verify {

struct Options {
  std::filesystem::path model;
  std::string model_type;
  std::filesystem::path reference;
  program::Device device;
  tenon::DType dtype = tenon::DType::float32;
  double tolerance = 0;  ///< 0: the default of the dtype
  int threads = 0;       ///< on the CPU
};

/// Prints the comparison. True if everything is within the tolerance.
bool run_on_cpu(const Options& options);
/// Only in builds with CUDA.
bool run_on_cuda(const Options& options);

}  // namespace verify
