// graph: compiles a script and evaluates it on given or random tensors.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <tenon/graph/script.hpp>

#include "common/command_line.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"
#include "graph/options.hpp"

namespace {

constexpr const char* description =
    R"(Compiles a network that is written as a graph, evaluates it once, and prints the result.)";

constexpr const char* details =
    R"(Tensors
  --input NAME=FILE gives an InputTensor or ConstantTensor the elements of a file: row-major and little-endian, with
  nothing before or after them; or, where FILE ends in .safetensors, the tensor NAME in it, of the same type and shape.
  --fill NAME=NUMBER gives it one number everywhere. What is not given is random: numbers between -1 and 1, for int64 0
  or 1, the same for the same seed. Buffers begin with zeros.

Output
  --print and --passes print graphs as scripts, the one that was read and the one after each pass; --plan the graph
  after all passes and a line for each piece of memory. --dot prints the graph after all passes for Graphviz and evaluates nothing:
  graph network.tg --dot | dot -Tsvg > network.svg
)";

/// Reads the values of --input or --fill, appends them, and returns what is wrong with them.
std::string read_given(const std::string& option, const std::vector<std::string>& values,
                       std::vector<graph_program::Given>& given) {
  for (const std::string& value : values) {
    const auto equals = value.find('=');
    const bool is_file = option == "--input";
    if (equals == std::string::npos || equals == 0 || equals + 1 == value.size()) {
      return option + " " + program::in_quotes(value) + " is not NAME=" + (is_file ? "FILE" : "NUMBER");
    }
    graph_program::Given one{value.substr(0, equals), {}, 0};
    const std::string rest = value.substr(equals + 1);
    if (is_file) {
      one.file = rest;
    } else if (!program::read_number(rest, one.number) || !std::isfinite(one.number)) {
      return option + " " + one.name + ": " + program::in_quotes(rest) + " is not a finite number";
    }
    for (const auto& other : given) {
      if (other.name == one.name) return option + " " + program::in_quotes(value) + ": the tensor is given twice";
    }
    given.push_back(one);
  }
  return {};
}

/// Names that a graph has no input and no constant for.
void check_given(const graph_program::Options& options, const tenon::graph::Graph& graph) {
  using tenon::graph::NodeKind;
  for (const auto& given : options.given) {
    const tenon::graph::Node* node = graph.find(given.name);
    if (node != nullptr && node->kind != NodeKind::buffer_tensor) continue;
    throw tenon::ValueError("'" + options.script.string() + "' has no input and no constant " +
                            program::in_quotes(given.name));
  }
}

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("graph");
  graph_program::Options options;
  std::vector<std::string> inputs;
  std::vector<std::string> fills;
  program::CommandLine app(description, "graph");
  app.footer(details);
  app.add_option("SCRIPT", options.script, "File with the graph, a statement for each node (.tg)")->required();
  app.add_switch("--print", options.print, "Print the graph that was read");
  app.add_switch("--passes", options.passes, "Print the graph after each pass");
  app.add_switch("--plan", options.plan, "Print the compiled graph and the plan of its memory");
  app.add_switch("--dot", options.dot, "Print the compiled graph for Graphviz, and nothing else");
  app.add_option("--time", options.time, "Evaluate N times more and print how long that took")
      ->type_name("N")
      ->transform(program::count_within<std::int64_t>(1, 1'000'000));
  app.add_option("--input", inputs, "Elements of an input or constant, see below; may be repeated")
      ->type_name("NAME=FILE")
      ->allow_extra_args(false);
  app.add_option("--fill", fills, "The number of all elements of one; may be repeated")
      ->type_name("NAME=NUMBER")
      ->allow_extra_args(false);
  app.add_option("--seed", options.seed, "Seed of random elements (0)")
      ->type_name("S")
      ->transform(program::count_within<std::uint64_t>(0, std::numeric_limits<std::uint64_t>::max()));
  app.add_device(options.device);
  app.add_cudnn(options.cudnn, options.device);
  app.add_threads(options.threads);
  app.require([&] { return read_given("--input", inputs, options.given); });
  app.require([&] { return read_given("--fill", fills, options.given); });
  if (const auto exit_code = app.read(argc, argv)) return *exit_code;

  return program::run("graph", [&] {
    const tenon::graph::Graph graph = tenon::graph::read_script(options.script);
    check_given(options, graph);
#ifdef TENON_PROGRAM_CUDA
    if (options.device.is_cuda()) {
      graph_program::run_on_cuda(options, graph);
      return 0;
    }
#endif
    graph_program::run_on_cpu(options, graph);
    return 0;
  });
}
