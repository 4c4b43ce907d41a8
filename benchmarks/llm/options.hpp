// What the llm benchmark was asked for, and who does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <common/device.hpp>
#include <tenon/core/dtype.hpp>

namespace llm {

struct Plan {
  std::int64_t prompt = 128;
  std::int64_t generate = 32;
  std::int64_t batch = 1;
  int repeat = 5;
  std::int64_t read_buffer_bytes = 0;  ///< 0: as the measurement of the read bandwidth chooses
};

struct Options {
  std::filesystem::path model;
  std::string shape;
  std::string model_type;
  program::Device device;
  tenon::DType dtype = tenon::DType::bfloat16;
  std::string simd = "auto";
  int threads = 0;
  bool graphs = true;
  bool dependent_launch = true;
  std::filesystem::path dump_ids;  ///< empty: nowhere
  bool json = false;
  Plan plan;
};

/// Measures and prints the report.
void run_on_cpu(const Options& options);
/// Only in builds with CUDA.
void run_on_cuda(const Options& options);

}  // namespace llm
