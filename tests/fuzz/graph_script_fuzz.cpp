// libFuzzer: a script from anybody is read or refused; what is read is within a script's limits, and prints as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include <tenon/graph/dot.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>

namespace {
void check(const tenon::graph::Graph& graph) {
  for (const tenon::graph::Node& node : graph.nodes()) {
    if (node.type.rank() < 1 || node.type.rank() > tenon::graph::max_script_rank || node.type.numel() < 1) std::abort();
  }
  const std::string text = tenon::graph::print(graph);
  const tenon::graph::Graph again = tenon::graph::parse_script(text);  // an exception here is a finding
  if (!(again == graph) || tenon::graph::print(again) != text) std::abort();
  if (tenon::graph::to_dot(graph).empty()) std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tenon::graph::Graph graph;
  try {
    graph = tenon::graph::parse_script({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const tenon::Error& error) {
    if (!std::string_view(error.what()).starts_with("fuzz:")) std::abort();
    return 0;
  }
  check(graph);
  return 0;
}
