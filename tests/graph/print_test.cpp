// print: the inverse of parse_script.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>

#include "support/random_graph.hpp"

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using tenon::DType;

TEST_CASE("A graph prints as a script, one statement a line", "[graph]") {
  const std::string text =
      "$1 = InputTensor(x, float16, [4, 6]);\n"
      "$2 = BufferTensor(cache, float16, [4, 6]);\n"
      "$3 = InputTensor(position, int64, [1]);\n"
      "$4 = ReplaceSliceNode($2, $1, $3, $3);\n"
      "$5 = SliceNode($4, 0, 2);\n"
      "$6 = ReshapeNode($5, [3, 4]);\n"
      "$7 = PermuteNode($6, [1, 0]);\n"
      "$8 = SlicedSoftmaxNode($7, 0);\n"
      "$9 = SlicedSoftmaxNode($8, $3);\n"
      "$10 = PointwiseNode([0, 1, sum, relu, 1, silu, hadamard_product], $9, $8);\n"
      "$11 = MatMulPointwiseNode([0, silu], $10, $6);\n"
      "result = $11;\n";
  CHECK(print(parse_script(text)) == text);
}

TEST_CASE("Statements are numbered anew, and what another text says of the same graph prints alike", "[graph]") {
  const std::string printed =
      print(parse_script("$20=InputTensor(a,float32,[2]);# first\n$4=ReLUNode($20);$11=SumNode($20,$4);result=$4;"));
  CHECK(printed == "$1 = InputTensor(a, float32, [2]);\n$2 = ReLUNode($1);\n$3 = SumNode($1, $2);\nresult = $2;\n");
  CHECK(print(parse_script(printed)) == printed);
}

TEST_CASE("A graph without a result prints its statements, one of four dimensions too", "[graph]") {
  Graph graph;
  CHECK(print(graph).empty());
  graph.add({.kind = NodeKind::input_tensor, .type = {DType::bfloat16, {2, 3, 4, 5}}, .name = "x"});
  CHECK(print(graph) == "$1 = InputTensor(x, bfloat16, [2, 3, 4, 5]);\n");
}

TEST_CASE("Random graphs of every kind of node are the same after printing and parsing", "[graph]") {
  std::mt19937 engine(4711);
  tenon_test::RandomGraph random(engine);
  std::vector<int> seen(node_kinds, 0);
  for (int round = 0; round < 1000; ++round) {
    const Graph graph = random(20 + static_cast<std::size_t>(round) % 50);
    for (const Node& node : graph.nodes()) ++seen[static_cast<std::size_t>(node.kind)];
    const std::string text = print(graph);
    const Graph again = parse_script(text);
    if (!(again == graph) || print(again) != text) FAIL("round " << round << ":\n" << text);
  }
  for (std::size_t kind = 0; kind < node_kinds; ++kind) {
    CAPTURE(node_rules[kind].name);
    CHECK(seen[kind] > 50);
  }
}
