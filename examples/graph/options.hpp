// What the graph program was asked for, and who does it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <tenon/graph/graph.hpp>

#include "common/device.hpp"

namespace graph_program {

/// A tensor that the command line gives: the elements of a file, or a number for all of them.
struct Given {
  std::string name;
  std::filesystem::path file;  ///< empty: `number`
  double number = 0;
};

struct Options {
  std::filesystem::path script;
  bool print = false;
  bool passes = false;
  bool plan = false;
  bool dot = false;
  bool cudnn = false;
  std::int64_t time = 0;  ///< evaluations to time; 0: none
  std::uint64_t seed = 0;
  std::vector<Given> given;
  program::Device device;
  int threads = 0;  ///< on the CPU
};

/// Compiles the graph, evaluates it, and prints what was asked for.
void run_on_cpu(const Options& options, const tenon::graph::Graph& graph);
/// Only in builds with CUDA.
void run_on_cuda(const Options& options, const tenon::graph::Graph& graph);

}  // namespace graph_program
