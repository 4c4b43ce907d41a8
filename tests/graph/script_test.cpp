// parse_script and read_script: what they read, and the text of every error.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>

#include "support/temporary_folder.hpp"

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::Equals;
using tenon::DType;

namespace {

const std::string example =
    "$1 = InputTensor(input, float32, [128, 28, 28]);\n"
    "$2 = ReshapeNode($1, [128, 784]);\n"
    "$3 = ConstantTensor(constant_0, float32, [784, 1000]);\n"
    "$4 = MatMulNode($2, $3);\n"
    "$5 = ConstantTensor(constant_1, float32, [1, 1000]);\n"
    "$6 = SumNode($4, $5);\n"
    "$7 = ReLUNode($6);\n"
    "result = $7;\n";

/// The message of the Exception that the text gives.
template <class Exception>
std::string error_of(const std::string& text) {
  try {
    static_cast<void>(parse_script(text, "s"));
  } catch (const Exception& error) {
    return error.what();
  } catch (const tenon::Error& error) {
    return std::string("another class: ") + error.what();
  }
  return "no error";
}

std::string format_error(const std::string& text) { return error_of<tenon::FormatError>(text); }

/// Operands for one statement, which is then in line 7.
std::string after_tensors(const std::string& statement) {
  return "$1 = InputTensor(x, float32, [4, 6]);\n"
         "$2 = ConstantTensor(w, float32, [6, 2]);\n"
         "$3 = BufferTensor(b, float32, [4, 6]);\n"
         "$4 = InputTensor(i, int64, [1]);\n"
         "$5 = InputTensor(h, float16, [4, 6]);\n"
         "$6 = InputTensor(v, float32, [6]);\n" +
         statement;
}

}  // namespace

TEST_CASE("The script of a layer is read node by node", "[graph]") {
  const Graph graph = parse_script(example);
  REQUIRE(graph.size() == 7);
  CHECK(graph[0] == Node{.kind = NodeKind::input_tensor, .type = {DType::float32, {128, 28, 28}}, .name = "input"});
  CHECK(graph[1] ==
        Node{.kind = NodeKind::reshape, .operands = {0}, .type = {DType::float32, {128, 784}}, .numbers = {128, 784}});
  CHECK(graph[3] == Node{.kind = NodeKind::matmul, .operands = {1, 2}, .type = {DType::float32, {128, 1000}}});
  CHECK(graph[5].operands == std::vector<NodeId>{3, 4});
  CHECK(graph[6].kind == NodeKind::relu);
  CHECK(graph.result() == 6);
  REQUIRE(graph.find("constant_1") != nullptr);
  CHECK(graph.find("constant_1")->type == TensorType{DType::float32, {1, 1000}});
  CHECK(graph.find("constant_2") == nullptr);
}

TEST_CASE("The example script of MNIST's shape is read", "[graph]") {
  const std::filesystem::path path = std::filesystem::path(TENON_TEST_DATA) / "../../examples/graphs/mnist.tg";
  const Graph graph = read_script(path);
  CHECK(graph.size() == 11);
  CHECK(graph[graph.result()].type == TensorType{DType::float32, {128, 10}});
}

TEST_CASE("Every form of arguments is read", "[graph]") {
  const auto last = [](const std::string& statement) {
    const Graph graph = parse_script(after_tensors(statement + " result = $7;"));
    return graph[6];
  };
  CHECK(last("$7 = SliceNode($1, 1, 3);") ==
        Node{.kind = NodeKind::slice, .operands = {0}, .type = {DType::float32, {2, 6}}, .numbers = {1, 3}});
  CHECK(last("$7 = PermuteNode($1, [1, 0]);") ==
        Node{.kind = NodeKind::permute, .operands = {0}, .type = {DType::float32, {6, 4}}, .numbers = {1, 0}});
  CHECK(last("$7 = ReplaceSliceNode($3, $1, $4, $4);") ==
        Node{.kind = NodeKind::replace_slice, .operands = {2, 0, 3, 3}, .type = {DType::float32, {4, 6}}});
  CHECK(last("$7 = SlicedSoftmaxNode($1, 5);") ==
        Node{.kind = NodeKind::sliced_softmax, .operands = {0}, .type = {DType::float32, {4, 6}}, .numbers = {5}});
  CHECK(last("$7 = SlicedSoftmaxNode($1, $4);") ==
        Node{.kind = NodeKind::sliced_softmax, .operands = {0, 3}, .type = {DType::float32, {4, 6}}});
  CHECK(last("$7 = RmsNormNode($6, $6);").operands == std::vector<NodeId>{5, 5});
  CHECK(last("$7 = HadamardProductNode($1, $3);").kind == NodeKind::hadamard_product);
  CHECK(last("$7 = SiLUNode($5);").type.dtype == DType::float16);
  CHECK(last("$7 = InputTensor(other, bfloat16, [1]);").type == TensorType{DType::bfloat16, {1}});
  const Node fused = last("$7 = PointwiseNode([0, 1, sum, relu, silu], $1, $3);");
  using tenon::PointwiseCode;
  CHECK(fused.program == std::vector<tenon::PointwiseStep>{{PointwiseCode::load, 0},
                                                           {PointwiseCode::load, 1},
                                                           {PointwiseCode::sum, 0},
                                                           {PointwiseCode::relu, 0},
                                                           {PointwiseCode::silu, 0}});
  CHECK(fused.operands == std::vector<NodeId>{0, 2});
  const Node product = last("$7 = MatMulPointwiseNode([0, silu, 0, hadamard_product], $1, $2);");
  CHECK(product.type == TensorType{DType::float32, {4, 2}});
  CHECK(product.program.size() == 4);
  const Graph complex = parse_script(
      "$1=InputTensor(z,float32,[3,2]);$2=PointwiseNode([0,0,complex_hadamard_product],$1);"
      "$3=ComplexHadamardProductNode($1,$2);result=$3;");
  CHECK(complex[1].program.back().code == PointwiseCode::complex_hadamard_product);
}

TEST_CASE("White space is free, comments are skipped, numbers of statements are any", "[graph]") {
  const Graph expected = parse_script("$1 = InputTensor(x, float32, [2]);\n$2 = ReLUNode($1);\nresult = $2;\n");
  CHECK(parse_script("$1=InputTensor(x,float32,[2]);$2=ReLUNode($1);result=$2;") == expected);
  CHECK(parse_script("\xef\xbb\xbf$1 = InputTensor(x, float32, [2]); $2 = ReLUNode($1); result = $2;") == expected);
  CHECK(parse_script("# ä $9 = \n$9223372036854775807 \r\n\t= InputTensor // (\n ( x , float32 , [ 2 ] ) ;//\n"
                     "$3=ReLUNode($9223372036854775807);result=$3;#") == expected);
  CHECK(parse_script("$7 = InputTensor(x, float32, [0002]);\n$2 = ReLUNode($07);\nresult = $2;\n# end") == expected);
  // The words of the language are names too.
  const Graph words =
      parse_script("$1 = InputTensor(float32, float32, [2]); $2 = BufferTensor(result, int64, [1]); result = $1;");
  CHECK(words.find("float32") != nullptr);
  CHECK(words.find("result") != nullptr);
  CHECK(words.result() == 0);
}

TEST_CASE("Errors of syntax have a place and say what was expected", "[graph]") {
  const auto of = format_error;
  CHECK(of("") == "s:1:1: the script ends without 'result = $N;'");
  CHECK(of("  \n # only a comment") == "s:2:18: the script ends without 'result = $N;'");
  CHECK(of(after_tensors("")) == "s:7:1: the script ends without 'result = $N;'");
  CHECK(of("x = ReLUNode($1);") ==
        "s:1:1: a statement is '$N = NodeName(arguments);' or 'result = $N;', and none begins with 'x'");
  CHECK(of("$ 1 = ReLUNode($1);") ==
        "s:1:1: a statement is '$N = NodeName(arguments);' or 'result = $N;', and none begins with '$'");
  CHECK(of("$0 = ReLUNode($1);") == "s:1:1: $0: statements are numbered from 1");
  CHECK(of("$1 ReLUNode($1);") == "s:1:4: $1: expected '=', found 'ReLUNode'");
  CHECK(of("$1 = $1;") == "s:1:6: $1: expected the name of a node, found '$1'");
  CHECK(of("$1 = ReluNode($1);") ==
        "s:1:6: $1: there is no node 'ReluNode'; the nodes are InputTensor, ConstantTensor, BufferTensor, SumNode, "
        "HadamardProductNode, ReLUNode, SiLUNode, MatMulNode, SliceNode, ReshapeNode, PermuteNode, ReplaceSliceNode, "
        "ComplexHadamardProductNode, RmsNormNode, SlicedSoftmaxNode, PointwiseNode, MatMulPointwiseNode");
  CHECK(of(after_tensors("$7 = MatMulNode $1")) ==
        "s:7:17: $7 = MatMulNode: expected '(', found '$1'; its form is MatMulNode($a, $b)");
  CHECK(of(after_tensors("$7 = MatMulNode($1)")) ==
        "s:7:19: $7 = MatMulNode: expected ',', found ')'; its form is MatMulNode($a, $b)");
  CHECK(of(after_tensors("$7 = MatMulNode($1, $2, $3);")) ==
        "s:7:23: $7 = MatMulNode: expected ')', found ','; its form is MatMulNode($a, $b)");
  CHECK(
      of(after_tensors("$7 = MatMulNode($1, 2);")) ==
      "s:7:21: $7 = MatMulNode: expected '$' and the number of a statement, found '2'; its form is MatMulNode($a, $b)");
  CHECK(of(after_tensors("$7 = SliceNode($1, 1);")) ==
        "s:7:21: $7 = SliceNode: expected ',', found ')'; its form is SliceNode($a, begin, end)");
  CHECK(of(after_tensors("$7 = SliceNode($1, $4, 2);")) ==
        "s:7:20: $7 = SliceNode: expected the number of the first row, found '$4'; its form is SliceNode($a, begin, "
        "end)");
  CHECK(of(after_tensors("$7 = ReshapeNode($1, 24);")) ==
        "s:7:22: $7 = ReshapeNode: expected '[', found '24'; its form is ReshapeNode($a, [numbers])");
  CHECK(of(after_tensors("$7 = ReshapeNode($1, [24 1]);")) ==
        "s:7:26: $7 = ReshapeNode: expected ',', found '1'; its form is ReshapeNode($a, [numbers])");
  CHECK(of(after_tensors("$7 = ReshapeNode($1, [24,]);")) ==
        "s:7:26: $7 = ReshapeNode: expected a number, found ']'; its form is ReshapeNode($a, [numbers])");
  CHECK(of(after_tensors("$7 = SlicedSoftmaxNode($1, x);")) ==
        "s:7:28: $7 = SlicedSoftmaxNode: expected '$' and the number of a statement, found 'x'; its form is "
        "SlicedSoftmaxNode($a, $b or a number)");
  CHECK(of(after_tensors("$7 = PointwiseNode($1, $2);")) ==
        "s:7:20: $7 = PointwiseNode: expected '[', found '$1'; its form is PointwiseNode([program], $a, …)");
  CHECK(of(after_tensors("$7 = PointwiseNode([0, tanh], $1);")) ==
        "s:7:24: $7 = PointwiseNode: expected the number of an operand or sum or hadamard_product or "
        "complex_hadamard_product or relu or silu, found 'tanh'; its form is PointwiseNode([program], $a, …)");
  CHECK(of("$1 = InputTensor(2x, float32, [1]);") ==
        "s:1:18: $1 = InputTensor: expected the name of the tensor, found '2'; its form is "
        "InputTensor(name, type, [sizes])");
  CHECK(of("$1 = InputTensor(x, 32, [1]);") ==
        "s:1:21: $1 = InputTensor: expected a type, found '32'; its form is InputTensor(name, type, [sizes])");
  CHECK(of("$1 = InputTensor(x, float32, [1.5]);") ==
        "s:1:32: $1 = InputTensor: expected ',', found '.'; its form is InputTensor(name, type, [sizes])");
  CHECK(of("$1 = InputTensor(x, float32, [0x10]);") ==
        "s:1:32: $1 = InputTensor: expected ',', found 'x10'; its form is InputTensor(name, type, [sizes])");
  CHECK(of(after_tensors("$7 = ReLUNode($1)\n$8 = ReLUNode($7);")) == "s:8:1: $7 = ReLUNode: expected ';', found '$8'");
  CHECK(of(after_tensors("result $1;")) == "s:7:8: result: expected '=', found '$1'");
  CHECK(of(after_tensors("result = 1;")) == "s:7:10: result: expected '$' and the number of a statement, found '1'");
  CHECK(of(after_tensors("result = $1;\n$7 = ReLUNode($1);")) ==
        "s:8:1: result: '$7' follows it, but the result comes last");
  CHECK(of(after_tensors("result = $1;;")) == "s:7:13: result: ';' follows it, but the result comes last");
}

TEST_CASE("A script that ends too early says what is missing", "[graph]") {
  const std::string text = example.substr(0, example.size() - 1);
  for (std::size_t size = 0; size < text.size(); ++size) {
    CAPTURE(size);
    const std::string what = format_error(text.substr(0, size));
    CHECK_THAT(what, ContainsSubstring("s:"));
    CHECK_THAT(what, ContainsSubstring("the script ends") || ContainsSubstring("there is no node '") ||
                         ContainsSubstring("no type of a graph") || ContainsSubstring("none begins with '") ||
                         ContainsSubstring("not defined") || ContainsSubstring("expected") ||
                         ContainsSubstring("another class: "));
  }
  CHECK(format_error(after_tensors("$7")) == "s:7:3: $7: the script ends where '=' is missing");
  CHECK(format_error(after_tensors("$7 =")) == "s:7:5: $7: the script ends where the name of a node is missing");
  CHECK(format_error(after_tensors("$7 = MatMulNode($1,")) ==
        "s:7:20: $7 = MatMulNode: the script ends where '$' and the number of a statement is missing; its form is "
        "MatMulNode($a, $b)");
  CHECK(format_error(after_tensors("$7 = ReLUNode($1)")) ==
        "s:7:18: $7 = ReLUNode: the script ends where ';' is missing");
  CHECK(format_error(after_tensors("result = $1")) == "s:7:12: result: the script ends where ';' is missing");
}

TEST_CASE("References are to statements before, and each number is defined once", "[graph]") {
  CHECK(
      format_error(after_tensors("$7 = ReLUNode($8);\n$8 = ReLUNode($7);\nresult = $8;")) ==
      "s:7:15: $7 = ReLUNode: it uses '$8', which is defined later, in line 8, and a statement uses only those before "
      "it");
  CHECK(format_error(after_tensors("$7 = ReLUNode($7);")) == "s:7:15: $7 = ReLUNode: it uses itself");
  CHECK(format_error(after_tensors("$7 = ReLUNode($9);\n# $9 = \n$8 = ReLUNode($9); \xff")) ==
        "s:7:15: $7 = ReLUNode: it uses '$9', which is not defined");
  CHECK(format_error(after_tensors("result = $0;")) == "s:7:10: result: it uses '$0', which is not defined");
  CHECK(format_error(after_tensors("result = $7;")) == "s:7:10: result: it uses '$7', which is not defined");
  CHECK(format_error(after_tensors("$2 = ReLUNode($1);")) == "s:7:1: $2: it is defined already, in line 2");
}

TEST_CASE("Bytes that are no text, and numbers without end, are refused where they stand", "[graph]") {
  using std::string_literals::operator""s;
  CHECK(format_error("$1 = Input\0Tensor(x, float32, [1]);"s).find("there is no node 'Input'") != std::string::npos);
  CHECK(format_error("\0"s) ==
        "s:1:1: a statement is '$N = NodeName(arguments);' or 'result = $N;', and none begins with the byte 0x00");
  CHECK(format_error(after_tensors("$7 = ReLUNode(\xc3\xa4);")) ==
        "s:7:15: $7 = ReLUNode: expected '$' and the number of a statement, found the byte 0xc3; its form is "
        "ReLUNode($a)");
  CHECK(format_error(after_tensors("$7 = ReLUNode(\x01);")) ==
        "s:7:15: $7 = ReLUNode: expected '$' and the number of a statement, found the byte 0x01; its form is "
        "ReLUNode($a)");
  CHECK(format_error("$9223372036854775808 = ReLUNode($1);") ==
        "s:1:1: $9223372036854775808: '$9223372036854775808' does not fit in 64 bits");
  CHECK(format_error(after_tensors("$7 = SliceNode($1, 0, 99999999999999999999999999);")) ==
        "s:7:23: $7 = SliceNode: '99999999999999999999999999' does not fit in 64 bits");
  CHECK_THAT(format_error(after_tensors("$7 = ReLUNode($" + std::string(100'000, '9') + ");")),
             Equals("s:7:15: $7 = ReLUNode: '$" + std::string(39, '9') + "…' does not fit in 64 bits"));
  CHECK_THAT(format_error("$1 = " + std::string(1'000'000, 'N') + "($1);"),
             ContainsSubstring("there is no node '" + std::string(40, 'N') + "…'; the nodes are"));
}

TEST_CASE("What a node refuses keeps its class, and gets a place and the operands", "[graph]") {
  CHECK(error_of<tenon::ShapeError>(after_tensors("\n  $7 = MatMulNode($1, $3);")) ==
        "s:8:3: $7 = MatMulNode: the second operand has shape [4, 6], which does not fit the first one's [4, 6]: "
        "[m, n] times [n, k], [n] times [n, k], or [b, m, n] times [b, n, k]; $1 is float32 [4, 6], $3 is float32 [4, "
        "6]");
  CHECK(error_of<tenon::DTypeError>(after_tensors("$7 = SumNode($1, $5);")) ==
        "s:7:1: $7 = SumNode: the second operand is float16 [4, 6], but the first operand is float32 [4, 6]; "
        "$1 is float32 [4, 6], $5 is float16 [4, 6]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = SliceNode($1, -1, 3);")) ==
        "s:7:1: $7 = SliceNode: [-1, 3) names no rows of an operand of shape [4, 6]; $1 is float32 [4, 6]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = PermuteNode($1, [0, 0]);")) ==
        "s:7:1: $7 = PermuteNode: [0, 0] is no order of the dimensions of an operand of shape [4, 6]; "
        "$1 is float32 [4, 6]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = ReshapeNode($1, []);")) ==
        "s:7:1: $7 = ReshapeNode: 0 numbers do not fit it; $1 is float32 [4, 6]");
  CHECK(error_of<tenon::ShapeError>(after_tensors("$7 = ReshapeNode($1, [5, 5]);")) ==
        "s:7:1: $7 = ReshapeNode: the operand has shape [4, 6], whose 24 elements do not fill [5, 5]; "
        "$1 is float32 [4, 6]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = InputTensor(w, float32, [1]);")) ==
        "s:7:1: $7 = InputTensor: there is a tensor 'w' already");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = ReplaceSliceNode($2, $2, $4, $4);")) ==
        "s:7:1: $7 = ReplaceSliceNode: the first operand is ConstantTensor 'w', or a part of it, and constants are not "
        "written; $2 is float32 [6, 2], $2 is float32 [6, 2], $4 is int64 [1], $4 is int64 [1]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([0, sum], $1);")) ==
        "s:7:1: $7 = PointwiseNode: pointwise: step 1 needs two values; $1 is float32 [4, 6]");
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([]);")) ==
        "s:7:1: $7 = PointwiseNode: 0 operands, but it takes at least one");
}

TEST_CASE("Scripts have 1 to 3 dimensions, four types, no empty tensor, and programs within the limits", "[graph]") {
  CHECK(error_of<tenon::ShapeError>("$1 = InputTensor(x, float32, [1, 1, 1, 1]);") ==
        "s:1:40: $1 = InputTensor: tensors in scripts have at most 3 dimensions, and there are more numbers than that");
  CHECK(error_of<tenon::ShapeError>(after_tensors("$7 = ReshapeNode($1, [4, 6, 1, 1]);")) ==
        "s:7:32: $7 = ReshapeNode: tensors in scripts have at most 3 dimensions, and there are more numbers than that");
  CHECK(error_of<tenon::ShapeError>("$1 = InputTensor(x, float32, []);") ==
        "s:1:1: $1 = InputTensor: InputTensor 'x': shape [] has 0 dimensions, not 1 to 4");
  CHECK(error_of<tenon::ShapeError>("$1 = InputTensor(x, float32, [2, 0]);") ==
        "s:1:1: $1 = InputTensor: InputTensor 'x': shape [2, 0] has a dimension below 1");
  CHECK_THAT(error_of<tenon::ShapeError>("$1 = InputTensor(x, float32, [9223372036854775807]);"),
             ContainsSubstring("has more bytes than there are addresses"));
  for (const std::string type : {"float64", "int32", "bool", "float33", "Float32"}) {
    CHECK(error_of<tenon::DTypeError>("$1 = InputTensor(x, " + type + ", [1]);") ==
          "s:1:21: $1 = InputTensor: '" + type +
              "' is no type of a graph, which are float32, int64, float16 and bfloat16");
  }
  CHECK(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([8], $1);")) ==
        "s:7:21: $7 = PointwiseNode: a program has no operand '8', they are 0 to 7");
  CHECK_THAT(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([-1], $1);")),
             ContainsSubstring("a program has no operand '-1'"));
  std::string steps = "0";
  for (int i = 0; i < 31; ++i) steps += ", relu";
  CHECK_NOTHROW(parse_script(after_tensors("$7 = PointwiseNode([" + steps + "], $1); result = $7;")));
  CHECK_THAT(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([" + steps + ", relu], $1);")),
             ContainsSubstring("the program has more than 32 steps"));
  std::string operands;
  for (int i = 0; i < 9; ++i) operands += ", $1";
  CHECK_THAT(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([0]" + operands + ", $1);")),
             ContainsSubstring("there are more operands than a program can have"));
  CHECK_THAT(error_of<tenon::ValueError>(after_tensors("$7 = PointwiseNode([0]" + operands + ");")),
             ContainsSubstring("the program takes 1 operands, but there are 9"));
}

TEST_CASE("Files are read, and those that cannot be are named", "[graph]") {
  const tenon_test::TemporaryFolder folder;
  const auto path = folder.write("layer.tg", example);
  CHECK(read_script(path) == parse_script(example));
  const auto wrong = folder.write("wrong.tg", "result = $1;");
  CHECK_THROWS_MATCHES(read_script(wrong), tenon::FormatError,
                       Catch::Matchers::Message(wrong.string() + ":1:10: result: it uses '$1', which is not defined"));
  CHECK_THROWS_MATCHES(read_script(folder.path() / "absent.tg"), tenon::FileError,
                       Catch::Matchers::Message("'" + (folder.path() / "absent.tg").string() +
                                                "' cannot be opened as a graph's script"));
  CHECK_THROWS_AS(read_script(folder.path()), tenon::FileError);
  CHECK_THROWS_AS(read_script(folder.write("empty.tg", "")), tenon::FormatError);
}

TEST_CASE("A script over the limit of bytes is refused, one below it is read", "[graph]") {
  const std::string result = "$1 = InputTensor(x, float32, [1]); result = $1;";
  const std::string spaces(max_script_bytes - result.size(), ' ');
  CHECK(parse_script(spaces + result).size() == 1);
  CHECK(format_error(spaces + result + ' ') == "s:1:1: the script has more than 67108864 bytes");
  const std::string open = "$1 = InputTensor(x, float32, [";
  CHECK_THAT(format_error(open + std::string(1'000'000, '[')), ContainsSubstring("expected a number, found '['"));
  CHECK_THAT(format_error(std::string(1'000'000, '$')), ContainsSubstring("none begins with '$'"));
  const tenon_test::TemporaryFolder folder;
  CHECK_THROWS_AS(read_script(folder.write("large.tg", std::string(max_script_bytes + 1, '\n'))), tenon::FormatError);
}

TEST_CASE("A chain of 10,000 nodes is read, printed and read again", "[graph]") {
  std::string text = "$1 = InputTensor(x, float32, [2, 3]);\n";
  constexpr int nodes = 10'000;
  for (int i = 2; i <= nodes; ++i) {
    const std::string before = "$" + std::to_string(i - 1);
    text += "$" + std::to_string(i) +
            (i % 3 == 0   ? " = ReLUNode(" + before
             : i % 3 == 1 ? " = SumNode(" + before + ", $1"
                          : " = PermuteNode(" + before + ", [0, 1]") +
            ");\n";
  }
  text += "result = $10000;\n";
  const Graph graph = parse_script(text);
  CHECK(graph.size() == nodes);
  CHECK((print(graph) == text));
  CHECK((parse_script(print(graph)) == graph));
}
