// llama_graph: how long it takes to compile LLaMA 2 as a graph, and how fast it decodes, beside the read bandwidth.
#include <cstdint>
#include <string>

#include <tenon/runtime/context.hpp>

#include <common/command_line.hpp>
#include <common/program.hpp>
#include <llama_graph/run.hpp>

int main(int argc, char** argv) {
  llama_graph::Options options;
  program::CommandLine app("Compiles LLaMA 2 as a graph on random float32 weights, and decodes.", "llama_graph");
  app.add_option("--shape", options.shape, "stories260K (default), stories15M, stories110M, 7b, 13b")
      ->type_name("NAME");
  app.add_device(options.device);
  app.add_option("--capacity", options.capacity, "Positions of the caches (256)")
      ->type_name("N")
      ->transform(program::count_within(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--tokens", options.tokens, "Tokens to decode; default: all that fit")
      ->type_name("N")
      ->transform(program::count_within(std::int64_t{1}, std::int64_t{1} << 20));
  app.add_option("--repeat", options.repeat, "Measurements, of which the median counts (5)")
      ->type_name("N")
      ->transform(program::count_within(1, 1000));
  app.add_option("--threads", options.threads, "Threads on the CPU (1)")
      ->type_name("N")
      ->transform(program::count_within(1, tenon::Context<tenon::Cpu>::max_threads));
  app.add_cudnn(options.cudnn, options.device);
  app.add_switch("--unfused", options.unfused, "Without the passes that fuse nodes");
  if (const auto exit_code = app.read(argc, argv)) return *exit_code;
  return program::run("llama_graph", [&] {
#ifdef TENON_PROGRAM_CUDA
    if (options.device.is_cuda()) {
      llama_graph::run_on_cuda(options);
      return 0;
    }
#endif
    llama_graph::run_on_cpu(options);
    return 0;
  });
}
