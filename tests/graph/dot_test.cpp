// to_dot: every node, every edge, and text that cannot leave its quotes.
#include <cstddef>
#include <random>
#include <string>
#include <string_view>

#include <catch2/catch_test_macros.hpp>

#include <tenon/graph/dot.hpp>
#include <tenon/graph/script.hpp>

#include "support/random_graph.hpp"

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)

namespace {
std::size_t count(std::string_view text, std::string_view part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++found;
  return found;
}
}  // namespace

TEST_CASE("A graph as Graphviz text", "[graph]") {
  const Graph graph = parse_script(
      "$1 = InputTensor(x, float32, [2, 3]); $2 = ConstantTensor(w, float32, [3, 4]); $3 = MatMulNode($1, $2);"
      "$4 = SliceNode($3, 0, 1); $5 = ReLUNode($4); $6 = PointwiseNode([0, 0, sum], $5); result = $5;");
  CHECK(to_dot(graph) ==
        "digraph tenon {\n"
        "  ordering=in;\n"
        "  n1 [label=\"$1 InputTensor x\\nfloat32 [2, 3]\", shape=invhouse];\n"
        "  n2 [label=\"$2 ConstantTensor w\\nfloat32 [3, 4]\", shape=note];\n"
        "  n3 [label=\"$3 MatMulNode\\nfloat32 [2, 4]\", shape=box];\n"
        "  n1 -> n3 [headlabel=\"0\"];\n"
        "  n2 -> n3 [headlabel=\"1\"];\n"
        "  n4 [label=\"$4 SliceNode [0, 1]\\nfloat32 [1, 4]\", shape=parallelogram];\n"
        "  n3 -> n4;\n"
        "  n5 [label=\"$5 ReLUNode\\nfloat32 [1, 4]\", shape=ellipse, peripheries=2];\n"
        "  n4 -> n5;\n"
        "  n6 [label=\"$6 PointwiseNode [0, 0, sum]\\nfloat32 [1, 4]\", shape=component];\n"
        "  n5 -> n6;\n"
        "}\n");
  CHECK(to_dot(Graph{}) == "digraph tenon {\n  ordering=in;\n}\n");
}

TEST_CASE("Text in quotes cannot end them", "[graph]") {
  CHECK(tenon::graph::detail::dot_string("a\"b\\c\nd") == "\"a\\\"b\\\\c\\nd\"");
  CHECK(tenon::graph::detail::dot_string("") == "\"\"");
}

TEST_CASE("Random graphs have as many nodes and edges in Graphviz text", "[graph]") {
  std::mt19937 engine(11);
  tenon_test::RandomGraph random(engine);
  for (int round = 0; round < 50; ++round) {
    const Graph graph = random(40);
    const std::string text = to_dot(graph);
    std::size_t edges = 0;
    for (const Node& node : graph.nodes()) edges += node.operands.size();
    CHECK(count(text, " -> ") == edges);
    CHECK(count(text, "[label=") == graph.size());
    CHECK(count(text, "peripheries") == 1);
    CHECK(count(text, "\"") % 2 == 0);
  }
}
