// Every operator against the machine's limits, and against a twin: the loop that one would write without a library.
//
//   operators --benchmark_filter=self_attention
//
// Names are operator/dtype/shape, and operator_loop/… for the twins. read_share and fma_share relate a rate to plain
// reading and to plain fma on the same threads, measured right before.

#include <benchmark/benchmark.h>

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
