// Every operator against the machine's limits, and against a twin: the loop that one would write without a library, or on
// a GPU a call of cuBLASLt or of the CUDA runtime.
//
//   operators --benchmark_filter=self_attention
//   operators --device cuda --benchmark_filter='linear/bfloat16/m=1 '
//
// Names are operator/dtype/shape, and operator_loop/… and the like for the twins. On the CPU, read_share and fma_share
// relate a rate to plain reading and to plain fma on the same threads, measured right before. On a GPU, time is that of
// the device; read_share, copy_share and product_share relate a rate to reading or copying 4 GiB and to a large product,
// measured right before.

#include <benchmark/benchmark.h>

#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <common/device.hpp>
#include <common/program.hpp>

#include "operators_device.hpp"

namespace {

/// Takes --device NAME and --device=NAME out of the command line; the last one counts.
std::string take_device(std::vector<char*>& arguments) {
  constexpr std::string_view name = "--device";
  std::string device = "cpu";
  for (auto i = arguments.begin() + (arguments.empty() ? 0 : 1); i != arguments.end();) {
    const std::string_view argument = *i;
    const bool joined = argument.starts_with("--device=");
    if (argument != name && !joined) {
      ++i;
      continue;
    }
    const bool has_value = joined || std::next(i) != arguments.end();
    device = joined ? argument.substr(name.size() + 1) : has_value ? std::string_view(*std::next(i)) : "";
    i = arguments.erase(i, i + (joined || !has_value ? 1 : 2));
  }
  return device;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  program::Device device;
  if (const std::string problem = program::read_device(take_device(arguments), device); !problem.empty()) {
    return program::fail("operators", problem, 2);
  }
  int count = static_cast<int>(arguments.size());
  arguments.push_back(nullptr);
  benchmark::Initialize(&count, arguments.data());
  if (benchmark::ReportUnrecognizedArguments(count, arguments.data())) return 2;
  return program::run("operators", [&] {
    [[maybe_unused]] std::shared_ptr<void> context;
#ifdef TENON_PROGRAM_CUDA
    if (device.is_cuda()) {
      benchmark::ClearRegisteredBenchmarks();  // those of the CPU register themselves
      context = bench::register_on_cuda(device.ordinal);
    }
#endif
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    return 0;
  });
}
