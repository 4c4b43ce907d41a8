// Random graphs: what is compiled, with any passes, gives what the statements say.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <tenon/graph/executable.hpp>
#include <tenon/graph/print.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"
#include "graph/run.hpp"

// As README advises: executable_nodes_test.cpp compiles it for all.
extern template class tenon::graph::Executable<tenon::Cpu>;

namespace {

using namespace graph_test;

/// What thousands of graphs met, to know that they test something.
struct Seen {
  std::map<NodeKind, int> before;
  std::map<NodeKind, int> after;
  int reshaped_writes = 0;  ///< into buffers
  std::int64_t elements = 0;
  std::int64_t vague = 0;  ///< elements whose allowed error is above 5 % of what they are made of
};

/// Empty where all settings agree with the oracle, and with each other to the last bit.
std::string check(Context<Cpu>& ctx, std::uint32_t seed, Seen& seen) {
  const RandomGraph source(seed);
  const Graph& graph = source.graph();
  const ElementMap constants = source.elements(NodeKind::constant_tensor, seed);
  constexpr std::uint32_t evaluations = 3;
  std::vector<ElementMap> inputs;
  std::vector<Elements> expected;
  Reference reference(graph, constants);
  for (std::uint32_t i = 0; i < evaluations; ++i) {
    inputs.push_back(source.elements(NodeKind::input_tensor, 1000 * seed + i));
    expected.push_back(reference.evaluate(inputs.back()));
    for (const Element& element : expected.back()) {
      ++seen.elements;
      seen.vague += element.error > 0.05 * (std::abs(element.value) + 0.1) ? 1 : 0;
    }
  }
  for (const Node& node : graph.nodes()) {
    ++seen.before[node.kind];
    if (node.kind != NodeKind::replace_slice || graph[node.operands[0]].kind != NodeKind::reshape) continue;
    const NodeKind written = graph[graph.roots()[node.operands[0]]].kind;
    seen.reshaped_writes += written == NodeKind::buffer_tensor ? 1 : 0;
  }

  const TensorMap constant_tensors = to_tensors(ctx, graph, constants, seed % 3 != 0);
  std::vector<std::vector<std::byte>> bits;
  std::map<std::string, std::vector<std::byte>> buffer_bits;
  for (const auto& [name, passes] : pass_settings()) {
    Executable<Cpu> executable(ctx, graph, constant_tensors, {.passes = passes});
    if (bits.empty()) {
      for (const Node& node : executable.graph().nodes()) ++seen.after[node.kind];
    }
    const auto say = [&, setting = name](const std::string& what) {
      return "seed " + std::to_string(seed) + ", " + std::string(setting) + ": " + what + "\n" + print(graph) +
             "becomes\n" + print(executable.graph());
    };
    const bool first = bits.size() < evaluations;
    for (std::uint32_t i = 0; i < evaluations; ++i) {
      const AnyTensor& result = executable.evaluate(ctx, to_tensors(ctx, graph, inputs[i], (seed + i) % 4 != 0));
      const std::string problem = graph_test::mismatch(ctx, result, graph[graph.result()].type, expected[i]);
      if (!problem.empty()) return say("evaluation " + std::to_string(i) + ": " + problem);
      if (first) bits.push_back(bytes_of(ctx, result));
      if (bits[i] != bytes_of(ctx, result)) return say("evaluation " + std::to_string(i) + ": other bits");
    }
    for (const Node& node : executable.graph().nodes()) {
      if (node.kind != NodeKind::buffer_tensor) continue;
      const AnyTensor buffer = executable.buffer(node.name);
      const std::string problem = graph_test::mismatch(ctx, buffer, node.type, reference.buffer(node.name));
      if (!problem.empty()) return say("buffer " + node.name + ": " + problem);
      if (buffer_bits.try_emplace(node.name, bytes_of(ctx, buffer)).first->second != bytes_of(ctx, buffer)) {
        return say("buffer " + node.name + ": other bits");
      }
    }
  }
  return {};
}

}  // namespace

TEST_CASE("graph: random graphs give what their statements say, whatever passes are on", "[graph]") {
  Context<Cpu> ctx(1);
  Seen seen;
  int failures = 0;
  for (std::uint32_t seed = 1; seed <= 5000 && failures < 3; ++seed) {
    std::string problem;
    try {
      problem = check(ctx, seed, seen);
    } catch (const std::exception& error) {
      problem = "seed " + std::to_string(seed) + " throws " + error.what() + "\n" + print(RandomGraph(seed).graph());
    }
    if (problem.empty()) continue;
    ++failures;
    FAIL_CHECK(problem);
  }
  // A generator that made nothing would find nothing.
  for (std::size_t kind = 0; kind < tenon::graph::node_kinds; ++kind) {
    const auto node = static_cast<NodeKind>(kind);
    CAPTURE(tenon::graph::rule_of(node).name, seen.before[node], seen.after[node]);
    CHECK((seen.before[node] > 100 || seen.after[node] > 100));
  }
  CHECK(seen.reshaped_writes > 50);
  CAPTURE(seen.elements, seen.vague);
  CHECK(seen.vague * 20 < seen.elements);
}
