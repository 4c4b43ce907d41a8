// What each pass does to small graphs, and what it must leave alone.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/graph/builder.hpp>
#include <tenon/graph/passes.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using tenon::DType;

namespace {

std::string after(Graph (*pass)(const Graph&), std::string_view script) { return print(pass(parse_script(script))); }

/// The script as print writes it.
std::string same(std::string_view script) { return print(parse_script(script)); }

std::size_t count(const Graph& graph, NodeKind kind) {
  std::size_t result = 0;
  for (const Node& node : graph.nodes()) result += node.kind == kind ? 1 : 0;
  return result;
}

/// Buffers and inputs that the scripts below begin with.
const std::string tensors = R"(
  $1 = InputTensor(x, float32, [4, 4]);
  $2 = InputTensor(y, float32, [4, 4]);
  $3 = BufferTensor(b, float32, [4, 4]);
  $4 = InputTensor(begin, int64, [1]);
  $5 = InputTensor(end, int64, [1]);
)";

}  // namespace

TEST_CASE("passes: explicit copies stand before reshapes that strides do not allow", "[graph]") {
  CHECK(after(with_explicit_copies, R"(
    $1 = InputTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); $3 = ReshapeNode($2, [6]); result = $3;)") ==
        same(R"(
    $1 = InputTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); $3 = PointwiseNode([0], $2);
    $4 = ReshapeNode($3, [6]); result = $4;)"));
  for (const std::string script :
       {"$1 = InputTensor(x, float32, [2, 3]); $2 = ReshapeNode($1, [3, 2]); result = $2;",
        "$1 = InputTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); $3 = ReshapeNode($2, [3, 1, 2]);"
        "result = $3;",
        "$1 = InputTensor(x, float32, [4, 3]); $2 = SliceNode($1, 1, 3); $3 = ReshapeNode($2, [6]); result = $3;",
        "$1 = InputTensor(x, float32, [1, 3]); $2 = PermuteNode($1, [1, 0]); $3 = ReshapeNode($2, [3]); result = "
        "$3;"}) {
    CHECK(after(with_explicit_copies, script) == same(script));
  }
}

TEST_CASE("passes: rows are copied before they are written into their own memory", "[graph]") {
  CHECK(after(with_explicit_copies,
              tensors + "$6 = SliceNode($3, 0, 2); $7 = ReplaceSliceNode($3, $6, $4, $5); result = $7;") ==
        same(tensors + "$6 = SliceNode($3, 0, 2); $7 = PointwiseNode([0], $6); $8 = ReplaceSliceNode($3, $7, $4, $5);"
                       "result = $8;"));
  const std::string other = tensors + "$6 = ReplaceSliceNode($3, $1, $4, $5); result = $6;";
  CHECK(after(with_explicit_copies, other) == same(other));
}

TEST_CASE("passes: dead nodes go, inputs and constants stay", "[graph]") {
  CHECK(after(remove_dead_nodes, tensors + R"(
    $6 = ConstantTensor(c, float32, [1]); $7 = SumNode($1, $2); $8 = ReLUNode($7); $9 = SiLUNode($1);
    $10 = BufferTensor(unused, float32, [1]); result = $9;)") == same(R"(
    $1 = InputTensor(x, float32, [4, 4]); $2 = InputTensor(y, float32, [4, 4]); $3 = InputTensor(begin, int64, [1]);
    $4 = InputTensor(end, int64, [1]); $5 = ConstantTensor(c, float32, [1]); $6 = SiLUNode($1); result = $6;)"));
}

TEST_CASE("passes: writes into buffers stay for the next evaluation", "[graph]") {
  const std::string script = tensors + "$6 = ReLUNode($1); $7 = ReplaceSliceNode($3, $6, $4, $5); result = $1;";
  CHECK(after(remove_dead_nodes, script) == same(script));
}

TEST_CASE("passes: writes into memory that is needed stay, others go", "[graph]") {
  // $6 is what the result shows, $8 is not.
  const std::string needed = tensors + "$6 = SumNode($1, $2); $7 = ReplaceSliceNode($6, $1, $4, $5);";
  CHECK(
      after(remove_dead_nodes, needed + "$8 = SumNode($2, $2); $9 = ReplaceSliceNode($8, $1, $4, $5); result = $6;") ==
      after(remove_dead_nodes, needed + "result = $6;"));
  CHECK(count(remove_dead_nodes(parse_script(needed + "result = $6;")), NodeKind::replace_slice) == 1);
  CHECK(count(remove_dead_nodes(parse_script(needed + "result = $1;")), NodeKind::replace_slice) == 0);
}

TEST_CASE("passes: what is computed twice is computed once", "[graph]") {
  CHECK(after(join_common_subexpressions, R"(
    $1 = InputTensor(x, float32, [4]); $2 = ReLUNode($1); $3 = ReLUNode($1); $4 = SumNode($2, $3); $5 = SumNode($3, $2);
    $6 = HadamardProductNode($4, $5); result = $6;)") == same(R"(
    $1 = InputTensor(x, float32, [4]); $2 = ReLUNode($1); $3 = SumNode($2, $2); $4 = HadamardProductNode($3, $3);
    result = $4;)"));
  for (const std::string different :
       {"$2 = ReLUNode($1); $3 = SiLUNode($1);", "$2 = SliceNode($1, 0, 2); $3 = SliceNode($1, 1, 3);",
        "$2 = SlicedSoftmaxNode($1, 1); $3 = SlicedSoftmaxNode($1, 2);",
        "$2 = ReshapeNode($1, [2, 2]); $3 = ReshapeNode($1, [1, 4]);",
        "$2 = PointwiseNode([0, relu], $1); $3 = PointwiseNode([0, silu], $1);",
        "$2 = BufferTensor(a, float32, [4]); $3 = BufferTensor(b, float32, [4]);"}) {
    const std::string script = "$1 = InputTensor(x, float32, [4]);" + different + "result = $3;";
    CHECK(after(join_common_subexpressions, script) == same(script));
  }
}

TEST_CASE("passes: what is computed from memory before and after a write stays apart", "[graph]") {
  const std::string script = tensors + R"(
    $6 = ReLUNode($3); $7 = ReplaceSliceNode($3, $1, $4, $5); $8 = ReLUNode($3); $9 = SumNode($6, $8); result = $9;)";
  CHECK(after(join_common_subexpressions, script) == same(script));
  // A view names the same memory before and after.
  CHECK(after(join_common_subexpressions, tensors + R"(
    $6 = SliceNode($3, 0, 1); $7 = ReplaceSliceNode($3, $1, $4, $5); $8 = SliceNode($3, 0, 1); $9 = SumNode($6, $8);
    result = $9;)") == same(tensors + R"(
    $6 = SliceNode($3, 0, 1); $7 = ReplaceSliceNode($3, $1, $4, $5); $8 = SumNode($6, $6); result = $8;)"));
}

TEST_CASE("passes: results that are written later are not shared", "[graph]") {
  const std::string script = tensors + R"(
    $6 = ReLUNode($1); $7 = ReLUNode($1); $8 = ReplaceSliceNode($6, $2, $4, $5); $9 = SumNode($7, $8); result = $9;)";
  CHECK(count(join_common_subexpressions(parse_script(script)), NodeKind::relu) == 2);
  const std::string writes = tensors + R"(
    $6 = ReplaceSliceNode($3, $1, $4, $5); $7 = ReplaceSliceNode($3, $1, $4, $5); result = $7;)";
  CHECK(after(join_common_subexpressions, writes) == same(writes));
}

TEST_CASE("passes: views of views become one, and those that change nothing none", "[graph]") {
  CHECK(after(fold_views, R"(
    $1 = ConstantTensor(x, float32, [8, 3]); $2 = SliceNode($1, 2, 7); $3 = SliceNode($2, 1, 3); result = $3;)") ==
        same(R"($1 = ConstantTensor(x, float32, [8, 3]); $2 = SliceNode($1, 2, 7); $3 = SliceNode($1, 3, 5);
                result = $3;)"));
  CHECK(after(fold_views, R"(
    $1 = InputTensor(x, float32, [2, 3, 4]); $2 = PermuteNode($1, [1, 2, 0]); $3 = PermuteNode($2, [1, 0, 2]);
    result = $3;)") == same(R"(
    $1 = InputTensor(x, float32, [2, 3, 4]); $2 = PermuteNode($1, [1, 2, 0]); $3 = PermuteNode($1, [2, 1, 0]);
    result = $3;)"));
  CHECK(after(fold_views, R"(
    $1 = InputTensor(x, float32, [2, 6]); $2 = ReshapeNode($1, [3, 4]); $3 = ReshapeNode($2, [12]); result = $3;)") ==
        same(R"($1 = InputTensor(x, float32, [2, 6]); $2 = ReshapeNode($1, [3, 4]); $3 = ReshapeNode($1, [12]);
                result = $3;)"));
  CHECK(after(fold_views, R"(
    $1 = InputTensor(x, float32, [2, 3]); $2 = SliceNode($1, 0, 2); $3 = ReshapeNode($2, [2, 3]);
    $4 = PermuteNode($3, [0, 1]); $5 = ReLUNode($4); result = $5;)") ==
        same("$1 = InputTensor(x, float32, [2, 3]); $2 = ReLUNode($1); result = $2;"));
  CHECK(after(fold_views, R"(
    $1 = InputTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); $3 = PermuteNode($2, [1, 0]); result = $3;)") ==
        same(R"($1 = InputTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); result = $1;)"));
  // Equal sizes do not make an order the identity.
  const std::string turned = "$1 = InputTensor(x, float32, [3, 3]); $2 = PermuteNode($1, [1, 0]); result = $2;";
  CHECK(after(fold_views, turned) == same(turned));
  const std::string different =
      tensors + "$6 = ReplaceSliceNode($3, $1, $4, $5); $7 = SliceNode($6, 0, 2); result = $7;";
  CHECK(after(fold_views, different) == same(different));
}

TEST_CASE("passes: a chain and a tree of point-wise nodes become one", "[graph]") {
  CHECK(after(fuse_pointwise, tensors + R"(
    $6 = SumNode($1, $2); $7 = ReLUNode($6); $8 = HadamardProductNode($7, $1); $9 = SiLUNode($8); result = $9;)") ==
        same(tensors + "$6 = PointwiseNode([0, 1, sum, relu, 0, hadamard_product, silu], $1, $2); result = $6;"));
  CHECK(after(fuse_pointwise, tensors + R"(
    $6 = SumNode($1, $2); $7 = HadamardProductNode($2, $3); $8 = SumNode($6, $7); result = $8;)") ==
        same(tensors + "$6 = PointwiseNode([0, 1, sum, 1, 2, hadamard_product, sum], $1, $2, $3); result = $6;"));
  const std::string one = tensors + "$6 = SumNode($1, $2); result = $6;";
  CHECK(after(fuse_pointwise, one) == same(one));
}

TEST_CASE("passes: complex products keep their order, and others may turn it", "[graph]") {
  const std::string a = R"($1 = InputTensor(x, float32, [4, 2]); $2 = InputTensor(y, float32, [4, 2]);
    $3 = SumNode($2, $1); )";
  CHECK(after(fuse_pointwise, a + "$4 = ComplexHadamardProductNode($1, $3); result = $4;") ==
        same(R"($1 = InputTensor(x, float32, [4, 2]); $2 = InputTensor(y, float32, [4, 2]);
          $3 = PointwiseNode([0, 1, 0, sum, complex_hadamard_product], $1, $2); result = $3;)"));
  CHECK(after(fuse_pointwise, a + "$4 = HadamardProductNode($1, $3); result = $4;") ==
        same(R"($1 = InputTensor(x, float32, [4, 2]); $2 = InputTensor(y, float32, [4, 2]);
          $3 = PointwiseNode([0, 1, sum, 1, hadamard_product], $2, $1); result = $3;)"));
}

TEST_CASE("passes: point-wise nodes that are used twice, shown, broadcast or not point-wise stay", "[graph]") {
  for (const std::string rest :
       {"$6 = SumNode($1, $2); $7 = ReLUNode($6); $8 = MatMulNode($6, $7); result = $8;",  //
        "$6 = SumNode($1, $2); $7 = ReplaceSliceNode($3, $6, $4, $5); $8 = ReLUNode($1); $9 = MatMulNode($7, $8);"
        "result = $9;",
        "$6 = SliceNode($1, 0, 1); $7 = ReLUNode($6); $8 = SumNode($1, $7); result = $8;",
        "$6 = SumNode($1, $2); $7 = SliceNode($6, 0, 1); $8 = ReLUNode($7); result = $8;"}) {
    CHECK(after(fuse_pointwise, tensors + rest) == same(tensors + rest));
  }
  const Graph shown = fuse_pointwise(parse_script(tensors + "$6 = SumNode($1, $2); $7 = ReLUNode($6); result = $6;"));
  CHECK(shown[shown.result()].kind == NodeKind::sum);
  const Graph both = fuse_pointwise(parse_script(tensors + "$6 = ReLUNode($1); $7 = SumNode($6, $6); result = $7;"));
  CHECK(count(both, NodeKind::relu) == 1);
}

TEST_CASE("passes: point-wise nodes are not moved across a write of what they read", "[graph]") {
  const std::string script = tensors + R"(
    $6 = SumNode($3, $1); $7 = ReplaceSliceNode($3, $2, $4, $5); $8 = ReLUNode($6); result = $8;)";
  CHECK(after(fuse_pointwise, script) == same(script));
  // Also where the same memory is read once more behind it.
  const std::string again = tensors + R"(
    $6 = SumNode($3, $1); $7 = ReplaceSliceNode($3, $2, $4, $5); $8 = SumNode($6, $3); result = $8;)";
  CHECK(after(fuse_pointwise, again) == same(again));
  CHECK(after(fuse_pointwise, tensors + R"(
    $6 = ReplaceSliceNode($3, $2, $4, $5); $7 = SumNode($3, $1); $8 = ReLUNode($7); result = $8;)") ==
        same(tensors + R"($6 = ReplaceSliceNode($3, $2, $4, $5); $7 = PointwiseNode([0, 1, sum, relu], $3, $1);
          result = $7;)"));
}

TEST_CASE("passes: fused programs keep the limits of steps, operands and depth", "[graph]") {
  using tenon::PointwiseProgram;
  SECTION("steps and operands") {
    Builder b;
    Value y = b.input("y", DType::float32, {4});
    for (int i = 0; i < 40; ++i) {
      y = y + b.input("x" + std::to_string(i), DType::float32, {4});
      for (int k = 0; k < i % 4; ++k) y = relu(y);
    }
    const Graph graph = fuse_pointwise(b.finish(y));
    CHECK(graph.size() < b.graph().size());
    std::size_t steps = 0;
    for (const Node& node : graph.nodes()) {
      if (node.kind != NodeKind::pointwise) continue;
      const PointwiseProgram program(node.program);  // throws beyond the limits
      CHECK(program.operands() == static_cast<int>(node.operands.size()));
      for (const tenon::PointwiseStep& step : node.program) steps += step.code == tenon::PointwiseCode::load ? 0 : 1;
    }
    CHECK(steps >= 40);
  }
  SECTION("depth") {
    Builder b;
    std::vector<Value> values;
    for (int i = 0; i < 64; ++i) values.push_back(b.input("x" + std::to_string(i % 64), DType::float32, {4}));
    while (values.size() > 1) {  // a balanced tree, which needs a stack as deep as itself
      std::vector<Value> sums;
      for (std::size_t i = 0; i < values.size(); i += 2) sums.push_back(values[i] + values[i + 1]);
      values = sums;
    }
    const Graph graph = fuse_pointwise(b.finish(values[0]));
    CHECK(count(graph, NodeKind::sum) == 0);
    CHECK(count(graph, NodeKind::pointwise) == 9);  // trees of eight leaves
    for (const Node& node : graph.nodes()) {
      if (node.kind == NodeKind::pointwise)
        CHECK(PointwiseProgram(node.program).depth() <= PointwiseProgram::max_depth);
    }
  }
  SECTION("a long chain of one operand") {
    Builder b;
    Value y = b.input("x", DType::float32, {4});
    for (int i = 0; i < 100; ++i) y = silu(y);
    const Graph graph = fuse_pointwise(b.finish(y));
    CHECK(count(graph, NodeKind::pointwise) == 4);  // 31 of them and a load at most
    CHECK(graph.size() == 5);
  }
}

TEST_CASE("passes: a product takes bias, activation and residual with it", "[graph]") {
  CHECK(after(fuse_matmul, tensors + "$6 = MatMulNode($1, $2); $7 = ReLUNode($6); result = $7;") ==
        same(tensors + "$6 = MatMulPointwiseNode([0, relu], $1, $2); result = $6;"));
  CHECK(after(fuse_matmul, tensors + "$6 = MatMulNode($1, $2); $7 = SumNode($3, $6); result = $7;") ==
        same(tensors + "$6 = MatMulPointwiseNode([1, 0, sum], $1, $2, $3); result = $6;"));
  CHECK(after(fuse_matmul, tensors + R"(
    $6 = MatMulNode($1, $2); $7 = PointwiseNode([0, 1, sum, silu, 2, hadamard_product], $6, $3, $1); result = $7;)") ==
        same(tensors + R"(
    $6 = MatMulPointwiseNode([0, 1, sum, silu, 2, hadamard_product], $1, $2, $3, $1); result = $6;)"));
  // Of two products the later one, so that the other is there.
  CHECK(after(fuse_matmul, tensors + "$6 = MatMulNode($1, $2); $7 = MatMulNode($2, $1); $8 = SumNode($6, $7);"
                                     "result = $8;") ==
        same(tensors + "$6 = MatMulNode($1, $2); $7 = MatMulPointwiseNode([1, 0, sum], $2, $1, $6); result = $7;"));
}

TEST_CASE("passes: products that must stay as they are", "[graph]") {
  for (const std::string rest :
       {"$6 = MatMulNode($1, $2); $7 = ReLUNode($6); $8 = SumNode($6, $7); result = $8;",  // used twice
        "$6 = MatMulNode($1, $2); $7 = SumNode($6, $6); result = $7;",
        "$6 = MatMulNode($1, $2); $7 = SliceNode($6, 0, 1); $8 = ReLUNode($7); result = $8;",
        "$6 = SliceNode($1, 0, 1); $7 = MatMulNode($6, $2); $8 = SumNode($3, $7); result = $8;",  // broadcast
        "$6 = MatMulNode($3, $2); $7 = ReplaceSliceNode($3, $1, $4, $5); $8 = ReLUNode($6); result = $8;",
        "$6 = MatMulNode($1, $3); $7 = ReplaceSliceNode($3, $1, $4, $5); $8 = ReLUNode($6); result = $8;",
        "$6 = ReshapeNode($1, [8, 2]); $7 = SliceNode($6, 0, 2); $8 = MatMulNode($6, $7);"
        "$9 = ComplexHadamardProductNode($8, $6); result = $9;",
        "$6 = ReshapeNode($1, [8, 2]); $7 = SliceNode($6, 0, 2); $8 = MatMulNode($6, $7);"
        "$9 = PointwiseNode([0, 1, complex_hadamard_product, relu], $8, $6); result = $9;"}) {
    CHECK(after(fuse_matmul, tensors + rest) == same(tensors + rest));
  }
  const Graph shown = fuse_matmul(parse_script(tensors + "$6 = MatMulNode($1, $2); $7 = ReLUNode($6); result = $6;"));
  CHECK(shown[shown.result()].kind == NodeKind::matmul);
}

TEST_CASE("passes: all of them on a layer, each told and each off", "[graph]") {
  const Graph graph = parse_script(tensors + R"(
    $6 = PermuteNode($2, [1, 0]); $7 = PermuteNode($6, [1, 0]); $8 = MatMulNode($1, $7); $9 = ReLUNode($1);
    $10 = ReLUNode($1); $11 = SumNode($8, $9); $12 = HadamardProductNode($11, $10); $13 = SiLUNode($2); result = $12;)");
  std::vector<std::string> ran;
  const Graph result = run_passes(graph, {}, [&](std::string_view pass, const Graph&) { ran.emplace_back(pass); });
  CHECK(ran == std::vector<std::string>{"explicit copies", "dead nodes", "views", "common subexpressions", "dead nodes",
                                        "point-wise fusion", "matmul fusion"});
  CHECK(print(result) == same(R"(
    $1 = InputTensor(x, float32, [4, 4]); $2 = InputTensor(y, float32, [4, 4]); $3 = InputTensor(begin, int64, [1]);
    $4 = InputTensor(end, int64, [1]); $5 = ReLUNode($1);
    $6 = MatMulPointwiseNode([0, 1, sum, 1, hadamard_product], $1, $2, $5); result = $6;)"));

  ran.clear();
  const Graph untouched =
      run_passes(graph, PassOptions::none(), [&](std::string_view pass, const Graph&) { ran.emplace_back(pass); });
  CHECK(ran == std::vector<std::string>{"explicit copies"});
  CHECK(untouched == graph);

  PassOptions options;
  options.dead_nodes = false;
  CHECK(count(run_passes(graph, options), NodeKind::silu) == 1);
  options = {};
  options.common_subexpressions = false;
  CHECK(count(run_passes(graph, options), NodeKind::relu) == 0);  // both are fused
  options = {};
  options.views = false;
  CHECK(count(run_passes(graph, options), NodeKind::permute) == 2);
  options = {};
  options.pointwise_fusion = false;
  CHECK(count(run_passes(graph, options), NodeKind::hadamard_product) == 1);
  options = {};
  options.matmul_fusion = false;
  CHECK(count(run_passes(graph, options), NodeKind::matmul) == 1);
}

TEST_CASE("passes: a graph without a result is refused", "[graph]") {
  CHECK_THROWS_AS(run_passes(Graph()), tenon::ValueError);
}
