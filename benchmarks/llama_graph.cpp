// llama_graph: how long it takes to compile LLaMA 2 as a graph, and how fast it decodes, beside the read bandwidth.
#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

#include <tenon/runtime/context.hpp>

#include <common/command_line.hpp>
#include <common/device.hpp>
#include <common/program.hpp>
#include <llama_graph/run.hpp>

namespace {

#ifdef TENON_PROGRAM_CUDNN
constexpr bool has_cudnn = true;
#else
constexpr bool has_cudnn = false;
#endif

}  // namespace

int main(int argc, char** argv) {
  llama_graph::Options options;
  program::Device device;
  CLI::App app("Compiles LLaMA 2 as a graph on random float32 weights, and decodes.", "llama_graph");
  app.get_formatter()->column_width(28);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.add_option("--shape", options.shape, "stories260K (default), stories15M, stories110M, 7b, 13b")
      ->type_name("NAME");
  app.add_option("--device", options.device, program::device_help)->type_name("NAME");
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
  app.add_flag("--cudnn", options.cudnn, "Run parts of the graph with cuDNN");
  app.add_flag("--unfused", options.unfused, "Without the passes that fuse nodes");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program::run("llama_graph", [&] { return app.exit(error); });
    return program::fail("llama_graph", program::parse_problem(error) + " (--help lists the options)", 2);
  }
  if (const std::string problem = program::read_device(options.device, device); !problem.empty()) {
    return program::fail("llama_graph", problem, 2);
  }
  if (options.cudnn && (!has_cudnn || !device.is_cuda())) {
    return program::fail("llama_graph", "--cudnn needs a build with cuDNN, and --device cuda", 2);
  }
  return program::run("llama_graph", [&] {
#ifdef TENON_PROGRAM_CUDA
    if (device.is_cuda()) {
      llama_graph::run_on_cuda(options, device.ordinal);
      return 0;
    }
#endif
    llama_graph::run_on_cpu(options);
    return 0;
  });
}
