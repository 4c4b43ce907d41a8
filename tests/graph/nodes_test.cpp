// Types of every node, and the text of every refusal.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <tenon/graph/graph.hpp>

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using tenon::DType;
using tenon::DTypeError;
using tenon::PointwiseCode;
using tenon::ShapeError;
using tenon::ValueError;

namespace {

using Numbers = std::vector<std::int64_t>;
using Program = std::vector<tenon::PointwiseStep>;

TensorType f32(Shape shape) { return {DType::float32, std::move(shape)}; }
TensorType i64(Shape shape) { return {DType::int64, std::move(shape)}; }

/// A graph of buffers of these types and the node of them in order.
Graph with(NodeKind kind, const std::vector<TensorType>& operands, Numbers numbers = {}, Program program = {}) {
  Graph graph;
  Node node{.kind = kind, .numbers = std::move(numbers), .program = std::move(program)};
  for (const TensorType& type : operands) {
    node.operands.push_back(
        graph.add({.kind = NodeKind::buffer_tensor, .type = type, .name = "t" + std::to_string(graph.size())}));
  }
  graph.add(std::move(node));
  return graph;
}

const std::string broadcast_rule = ": as many dimensions, each of them equal or 1";
const std::string product_rule = ": [m, n] times [n, k], [n] times [n, k], or [b, m, n] times [b, n, k]";

TensorType type_of(NodeKind kind, const std::vector<TensorType>& operands, Numbers numbers = {}, Program program = {}) {
  const Graph graph = with(kind, operands, std::move(numbers), std::move(program));
  return graph[static_cast<NodeId>(graph.size() - 1)].type;
}

template <class Exception>
std::string error_of(NodeKind kind, const std::vector<TensorType>& operands, Numbers numbers = {},
                     Program program = {}) {
  try {
    static_cast<void>(with(kind, operands, std::move(numbers), std::move(program)));
  } catch (const Exception& error) {
    return error.what();
  } catch (const tenon::Error& error) {
    return std::string("another class: ") + error.what();
  }
  return "no error";
}

template <class Exception>
std::string tensor_error(const std::string& name, const TensorType& type) {
  Graph graph;
  try {
    graph.add({.kind = NodeKind::input_tensor, .type = type, .name = name});
  } catch (const Exception& error) {
    CHECK(graph.empty());
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("The table of nodes has each kind under its own name", "[graph]") {
  for (std::size_t i = 0; i < node_kinds; ++i) {
    const NodeRule& rule = node_rules[i];
    CAPTURE(rule.name);
    CHECK(rule.infer != nullptr);
    CHECK(find_node_kind(rule.name) == static_cast<NodeKind>(i));
  }
  CHECK(find_node_kind("SumNod") == std::nullopt);
  CHECK(find_node_kind("") == std::nullopt);
}

TEST_CASE("Values that are no kind, no code and no dtype are refused", "[graph]") {
  for (const std::size_t value : {node_kinds, std::size_t{99}, std::size_t{255}}) {
    const auto kind = static_cast<NodeKind>(value);
    const std::string message = "graph: NodeKind has no value " + std::to_string(value);
    CHECK_THROWS_MATCHES(rule_of(kind), ValueError, Catch::Matchers::Message(message));
    CHECK(error_of<ValueError>(kind, {f32({2})}) == message);
  }
  for (const int value : {6, 77, 255}) {
    const auto code = static_cast<PointwiseCode>(value);
    const std::string message = "pointwise: step 1 has the code " + std::to_string(value) + ", which is none";
    CHECK_THROWS_MATCHES(tenon::PointwiseProgram(Program{{PointwiseCode::load, 0}, {code, 0}}), ValueError,
                         Catch::Matchers::Message(message));
    CHECK(error_of<ValueError>(NodeKind::pointwise, {f32({2})}, {}, {{PointwiseCode::load, 0}, {code, 0}}) == message);
    CHECK(error_of<ValueError>(NodeKind::matmul_pointwise, {f32({2, 3}), f32({3, 2})}, {},
                               {{PointwiseCode::load, 0}, {code, 0}}) == message);
  }
  CHECK(tensor_error<DTypeError>("x", {static_cast<DType>(99), {1}}) ==
        "InputTensor 'x': unknown is no type of a graph, which are float32, float16, bfloat16 and int64");
}

TEST_CASE("Named tensors have 1 to 4 dimensions, four types, and a name of their own", "[graph]") {
  CHECK(tensor_error<ValueError>("x", f32({1, 2, 3, 4})) == "no error");
  CHECK(tensor_error<ValueError>("", f32({1})) == "InputTensor: '' is no name for a tensor");
  CHECK(tensor_error<ValueError>("1x", f32({1})) == "InputTensor: '1x' is no name for a tensor");
  CHECK(tensor_error<ValueError>("a b", f32({1})) == "InputTensor: 'a b' is no name for a tensor");
  CHECK(tensor_error<ShapeError>("x", f32({})) == "InputTensor 'x': shape [] has 0 dimensions, not 1 to 4");
  CHECK(tensor_error<ShapeError>("x", f32({1, 1, 1, 1, 1})) ==
        "InputTensor 'x': shape [1, 1, 1, 1, 1] has 5 dimensions, not 1 to 4");
  CHECK(tensor_error<ShapeError>("x", f32({2, 0})) == "InputTensor 'x': shape [2, 0] has a dimension below 1");
  CHECK(tensor_error<ShapeError>("x", f32({2, -1})) == "InputTensor 'x': shape [2, -1] has a dimension below 1");
  CHECK(tensor_error<ShapeError>("x", f32({std::int64_t{1} << 31, std::int64_t{1} << 31})) ==
        "InputTensor 'x': shape [2147483648, 2147483648] has more bytes than there are addresses");
  for (const DType type : {DType::float64, DType::int32, DType::boolean, DType::float8_e4m3}) {
    CHECK(tensor_error<DTypeError>("x", {type, {1}}) ==
          "InputTensor 'x': " + std::string(tenon::dtype_name(type)) +
              " is no type of a graph, which are float32, float16, bfloat16 and int64");
  }
  Graph graph;
  graph.add({.kind = NodeKind::input_tensor, .type = f32({1}), .name = "x"});
  CHECK_THROWS_AS(graph.add({.kind = NodeKind::constant_tensor, .type = f32({1}), .name = "x"}), ValueError);
  CHECK(graph.size() == 1);
}

TEST_CASE("Messages hold the beginning of a long name", "[graph]") {
  const std::string forty = "n123456789n123456789n123456789n123456789";
  const std::string longest(std::size_t{1} << 20, 'n');
  const std::string cut = "'" + longest.substr(0, 40) + "…'";
  CHECK(tensor_error<ShapeError>(forty, f32({})) ==
        "InputTensor '" + forty + "': shape [] has 0 dimensions, not 1 to 4");
  CHECK(tensor_error<ShapeError>(longest, f32({})) == "InputTensor " + cut + ": shape [] has 0 dimensions, not 1 to 4");
  CHECK(tensor_error<DTypeError>(longest, {DType::int8, {1}}).starts_with("InputTensor " + cut + ": int8 is no type"));
  CHECK(tensor_error<ValueError>("1" + longest, f32({1})) ==
        "InputTensor: '1" + longest.substr(0, 39) + "…' is no name for a tensor");
  // The two bytes of "é" are the 40th and the 41st.
  CHECK(tensor_error<ValueError>(forty.substr(1) + "é" + longest, f32({1})) ==
        "InputTensor: '" + forty.substr(1) + "…' is no name for a tensor");
  CHECK(tensor_error<ValueError>(std::string(1000, '\x80'), f32({1})) == "InputTensor: '…' is no name for a tensor");

  Graph graph;
  const NodeId w = graph.add({.kind = NodeKind::constant_tensor, .type = f32({4}), .name = longest});
  const NodeId n = graph.add({.kind = NodeKind::input_tensor, .type = i64({1}), .name = "n"});
  CHECK_THROWS_MATCHES(graph.add({.kind = NodeKind::buffer_tensor, .type = f32({1}), .name = longest}), ValueError,
                       Catch::Matchers::Message("BufferTensor: there is a tensor " + cut + " already"));
  CHECK_THROWS_MATCHES(graph.add({.kind = NodeKind::replace_slice, .operands = {w, w, n, n}}), ValueError,
                       Catch::Matchers::Message("ReplaceSliceNode: the first operand is ConstantTensor " + cut +
                                                ", or a part of it, and constants are not written"));
}

TEST_CASE("Sums and products broadcast the second operand to the first", "[graph]") {
  for (const NodeKind kind : {NodeKind::sum, NodeKind::hadamard_product}) {
    const std::string name(rule_of(kind).name);
    CAPTURE(name);
    CHECK(type_of(kind, {f32({2, 3}), f32({2, 3})}) == f32({2, 3}));
    CHECK(type_of(kind, {f32({2, 3}), f32({1, 3})}) == f32({2, 3}));
    CHECK(type_of(kind, {f32({2, 3}), f32({2, 1})}) == f32({2, 3}));
    CHECK(type_of(kind, {i64({4}), i64({1})}) == i64({4}));
    CHECK(type_of(kind, {f32({2, 3, 4, 5}), f32({1, 3, 1, 5})}) == f32({2, 3, 4, 5}));
    CHECK(error_of<ShapeError>(kind, {f32({1, 3}), f32({2, 3})}) ==
          name + ": the second operand has shape [2, 3], which is not broadcast to the first one's [1, 3]" +
              broadcast_rule);
    CHECK(error_of<ShapeError>(kind, {f32({2, 3}), f32({3})}) ==
          name + ": the second operand has shape [3], which is not broadcast to the first one's [2, 3]" +
              broadcast_rule);
    CHECK(error_of<DTypeError>(kind, {f32({2}), i64({2})}) ==
          name + ": the second operand is int64 [2], but the first operand is float32 [2]");
    CHECK(error_of<ValueError>(kind, {f32({2})}) == name + ": 1 operands, but it takes 2");
    CHECK(error_of<ValueError>(kind, {f32({2}), f32({2}), f32({2})}) == name + ": 3 operands, but it takes 2");
    CHECK(error_of<ValueError>(kind, {f32({2}), f32({2})}, {1}) == name + ": 1 numbers do not fit it");
  }
}

TEST_CASE("ReLUNode takes every type, SiLUNode floating-point ones", "[graph]") {
  CHECK(type_of(NodeKind::relu, {i64({2, 3})}) == i64({2, 3}));
  CHECK(type_of(NodeKind::silu, {{DType::bfloat16, {2}}}) == TensorType{DType::bfloat16, {2}});
  CHECK(error_of<DTypeError>(NodeKind::silu, {i64({2})}) ==
        "SiLUNode: the operand is int64 [2], and it needs a floating-point type");
}

TEST_CASE("MatMulNode multiplies matrices, a row by a matrix, and batches", "[graph]") {
  const NodeKind kind = NodeKind::matmul;
  CHECK(type_of(kind, {f32({2, 3}), f32({3, 4})}) == f32({2, 4}));
  CHECK(type_of(kind, {f32({3}), f32({3, 4})}) == f32({4}));
  CHECK(type_of(kind, {f32({5, 2, 3}), f32({5, 3, 4})}) == f32({5, 2, 4}));
  const auto refused = [&](const Shape& a, const Shape& b) {
    CHECK(error_of<ShapeError>(kind, {f32(a), f32(b)}) == "MatMulNode: the second operand has shape " + shape_text(b) +
                                                              ", which does not fit the first one's " + shape_text(a) +
                                                              product_rule);
  };
  refused({2, 3}, {4, 3});
  refused({2, 3}, {3});
  refused({3}, {3});
  refused({2, 3}, {1, 3, 4});
  refused({5, 2, 3}, {4, 3, 4});
  refused({5, 2, 3}, {3, 4});
  CHECK(error_of<ShapeError>(kind, {f32({1, 1, 2, 3}), f32({1, 1, 3, 4})}) ==
        "MatMulNode: the first operand has shape [1, 1, 2, 3], not 1 to 3 dimensions");
  CHECK(error_of<DTypeError>(kind, {i64({2, 3}), i64({3, 4})}) ==
        "MatMulNode: the first operand is int64 [2, 3], and it needs a floating-point type");
  CHECK(error_of<DTypeError>(kind, {f32({2, 3}), {DType::float16, {3, 4}}}) ==
        "MatMulNode: the second operand is float16 [3, 4], but the first operand is float32 [2, 3]");
}

TEST_CASE("SliceNode takes rows that are there", "[graph]") {
  CHECK(type_of(NodeKind::slice, {f32({4, 5})}, {1, 4}) == f32({3, 5}));
  CHECK(type_of(NodeKind::slice, {i64({4})}, {0, 1}) == i64({1}));
  for (const Numbers& range : {Numbers{-1, 2}, {2, 2}, {3, 2}, {0, 5}, {4, 5}}) {
    CHECK(error_of<ValueError>(NodeKind::slice, {f32({4, 5})}, range) ==
          "SliceNode: [" + std::to_string(range[0]) + ", " + std::to_string(range[1]) +
              ") names no rows of an operand of shape [4, 5]");
  }
  CHECK(error_of<ValueError>(NodeKind::slice, {f32({4})}, {0}) == "SliceNode: 1 numbers do not fit it");
}

TEST_CASE("ReshapeNode keeps the number of elements", "[graph]") {
  CHECK(type_of(NodeKind::reshape, {f32({4, 6})}, {3, 2, 4}) == f32({3, 2, 4}));
  CHECK(error_of<ShapeError>(NodeKind::reshape, {f32({4, 6})}, {5, 5}) ==
        "ReshapeNode: the operand has shape [4, 6], whose 24 elements do not fill [5, 5]");
  CHECK(error_of<ShapeError>(NodeKind::reshape, {f32({4, 6})}, {-1, 24}) ==
        "ReshapeNode: shape [-1, 24] has a dimension below 1");
  CHECK(error_of<ShapeError>(NodeKind::reshape, {f32({1})}, {std::int64_t{1} << 40, std::int64_t{1} << 40}) ==
        "ReshapeNode: shape [1099511627776, 1099511627776] has more bytes than there are addresses");
  CHECK(error_of<ValueError>(NodeKind::reshape, {f32({4, 6})}) == "ReshapeNode: 0 numbers do not fit it");
}

TEST_CASE("PermuteNode takes each dimension once", "[graph]") {
  CHECK(type_of(NodeKind::permute, {f32({2, 3, 4})}, {2, 0, 1}) == f32({4, 2, 3}));
  CHECK(type_of(NodeKind::permute, {f32({7})}, {0}) == f32({7}));
  for (const Numbers& order : {Numbers{0}, {0, 0}, {0, 2}, {-1, 0}, {0, 1, 2}}) {
    CHECK(error_of<ValueError>(NodeKind::permute, {f32({2, 3})}, order) ==
          "PermuteNode: " + shape_text(order) + " is no order of the dimensions of an operand of shape [2, 3]");
  }
}

TEST_CASE("ReplaceSliceNode writes rows of the right shape, and never a constant", "[graph]") {
  const NodeKind kind = NodeKind::replace_slice;
  CHECK(type_of(kind, {f32({8, 3}), f32({2, 3}), i64({1}), i64({1, 1})}) == f32({8, 3}));
  CHECK(error_of<ShapeError>(kind, {f32({8, 3}), f32({9, 3}), i64({1}), i64({1})}) ==
        "ReplaceSliceNode: the second operand has shape [9, 3], which is no slice of the first one's [8, 3]");
  CHECK(error_of<ShapeError>(kind, {f32({8, 3}), f32({2, 1}), i64({1}), i64({1})}) ==
        "ReplaceSliceNode: the second operand has shape [2, 1], which is no slice of the first one's [8, 3]");
  CHECK(error_of<ShapeError>(kind, {f32({8, 3}), f32({3}), i64({1}), i64({1})}) ==
        "ReplaceSliceNode: the second operand has shape [3], which is no slice of the first one's [8, 3]");
  CHECK(error_of<DTypeError>(kind, {f32({8, 3}), i64({2, 3}), i64({1}), i64({1})}) ==
        "ReplaceSliceNode: the second operand is int64 [2, 3], but the first operand is float32 [8, 3]");
  CHECK(error_of<DTypeError>(kind, {f32({8, 3}), f32({2, 3}), f32({1}), i64({1})}) ==
        "ReplaceSliceNode: begin is float32 [1], and it needs an int64 tensor of size 1");
  CHECK(error_of<DTypeError>(kind, {f32({8, 3}), f32({2, 3}), i64({1}), i64({2})}) ==
        "ReplaceSliceNode: end is int64 [2], and it needs an int64 tensor of size 1");

  Graph graph;
  const NodeId w = graph.add({.kind = NodeKind::constant_tensor, .type = f32({8, 3}), .name = "w"});
  const NodeId n = graph.add({.kind = NodeKind::input_tensor, .type = i64({1}), .name = "n"});
  const NodeId part = graph.add({.kind = NodeKind::slice, .operands = {w}, .numbers = {0, 4}});
  const NodeId turned = graph.add({.kind = NodeKind::permute, .operands = {part}, .numbers = {1, 0}});
  for (const NodeId x : {w, part, turned}) {
    CHECK_THROWS_MATCHES(
        graph.add({.kind = NodeKind::replace_slice, .operands = {x, x, n, n}}), ValueError,
        Catch::Matchers::Message("ReplaceSliceNode: the first operand is ConstantTensor 'w', or a part "
                                 "of it, and constants are not written"));
  }
  const NodeId fresh = graph.add({.kind = NodeKind::relu, .operands = {turned}});
  CHECK_NOTHROW(graph.add({.kind = NodeKind::replace_slice, .operands = {fresh, turned, n, n}}));
}

TEST_CASE("ComplexHadamardProductNode needs pairs in the last dimension", "[graph]") {
  const NodeKind kind = NodeKind::complex_hadamard_product;
  CHECK(type_of(kind, {f32({4, 3, 2}), f32({1, 3, 2})}) == f32({4, 3, 2}));
  CHECK(type_of(kind, {f32({2}), f32({2})}) == f32({2}));
  CHECK(error_of<ShapeError>(kind, {f32({4, 3}), f32({4, 2})}) ==
        "ComplexHadamardProductNode: the first operand has shape [4, 3], and its last dimension must be 2, real and "
        "imaginary part");
  CHECK(error_of<ShapeError>(kind, {f32({4, 2}), f32({4, 1})}) ==
        "ComplexHadamardProductNode: the second operand has shape [4, 1], and its last dimension must be 2, real and "
        "imaginary part");
  CHECK(error_of<ShapeError>(kind, {f32({4, 2}), f32({3, 2})}) ==
        "ComplexHadamardProductNode: the second operand has shape [3, 2], which is not broadcast to the first one's "
        "[4, 2]" +
            broadcast_rule);
  CHECK(error_of<DTypeError>(kind, {i64({2}), i64({2})}) ==
        "ComplexHadamardProductNode: the first operand is int64 [2], and it needs a floating-point type");
}

TEST_CASE("RmsNormNode takes a row and its weights", "[graph]") {
  const NodeKind kind = NodeKind::rms_norm;
  CHECK(type_of(kind, {f32({5}), f32({5})}) == f32({5}));
  CHECK(error_of<ShapeError>(kind, {f32({2, 5}), f32({5})}) ==
        "RmsNormNode: the first operand has shape [2, 5], not one dimension");
  CHECK(error_of<ShapeError>(kind, {f32({5}), f32({1})}) ==
        "RmsNormNode: the second operand has shape [1], not the first one's [5]");
  CHECK(error_of<DTypeError>(kind, {i64({5}), i64({5})}) ==
        "RmsNormNode: the first operand is int64 [5], and it needs a floating-point type");
  CHECK(error_of<DTypeError>(kind, {f32({5}), {DType::bfloat16, {5}}}) ==
        "RmsNormNode: the second operand is bfloat16 [5], but the first operand is float32 [5]");
}

TEST_CASE("SlicedSoftmaxNode takes a prefix within the rows", "[graph]") {
  const NodeKind kind = NodeKind::sliced_softmax;
  CHECK(type_of(kind, {f32({2, 5})}, {0}) == f32({2, 5}));
  CHECK(type_of(kind, {f32({2, 5})}, {5}) == f32({2, 5}));
  CHECK(type_of(kind, {f32({3, 2, 5}), i64({1, 1})}) == f32({3, 2, 5}));
  for (const std::int64_t prefix : {-1, 6}) {
    CHECK(error_of<ValueError>(kind, {f32({2, 5})}, {prefix}) ==
          "SlicedSoftmaxNode: the prefix is " + std::to_string(prefix) +
              ", not within 0 and the rows' length of an operand of shape [2, 5]");
  }
  CHECK(error_of<DTypeError>(kind, {f32({2, 5}), f32({1})}) ==
        "SlicedSoftmaxNode: the prefix is float32 [1], and it needs an int64 tensor of size 1");
  CHECK(error_of<DTypeError>(kind, {i64({2, 5})}, {1}) ==
        "SlicedSoftmaxNode: the first operand is int64 [2, 5], and it needs a floating-point type");
  CHECK(error_of<ShapeError>(kind, {f32({1, 1, 2, 5})}, {1}) ==
        "SlicedSoftmaxNode: the first operand has shape [1, 1, 2, 5], not 1 to 3 dimensions");
  CHECK(error_of<ValueError>(kind, {f32({5})}) == "SlicedSoftmaxNode: 1 operands, but it takes 2");
  CHECK(error_of<ValueError>(kind, {f32({5}), i64({1})}, {1}) == "SlicedSoftmaxNode: 2 operands, but it takes 1");
  CHECK(error_of<ValueError>(kind, {f32({5})}, {1, 2}) == "SlicedSoftmaxNode: 2 numbers do not fit it");
}

TEST_CASE("PointwiseNode has the shape to which all operands are broadcast", "[graph]") {
  const NodeKind kind = NodeKind::pointwise;
  const Program sum{{PointwiseCode::load, 0}, {PointwiseCode::load, 1}, {PointwiseCode::sum}};
  const Program complex{{PointwiseCode::load, 0}, {PointwiseCode::load, 1}, {PointwiseCode::complex_hadamard_product}};
  const Program silu{{PointwiseCode::load, 0}, {PointwiseCode::silu}};
  CHECK(type_of(kind, {f32({2, 1}), f32({1, 3})}, {}, sum) == f32({2, 3}));
  CHECK(type_of(kind, {i64({1}), i64({3})}, {}, sum) == i64({3}));
  CHECK(type_of(kind, {f32({3, 2}), f32({1, 2})}, {}, complex) == f32({3, 2}));
  CHECK(error_of<ShapeError>(kind, {f32({2}), f32({3})}, {}, sum) ==
        "PointwiseNode: the second operand has shape [2], which is not broadcast to the first one's [3]" +
            broadcast_rule);
  CHECK(error_of<ShapeError>(kind, {f32({2}), f32({1, 2})}, {}, sum) ==
        "PointwiseNode: an operand has shape [1, 2], which does not fit the first one's [2]");
  CHECK(error_of<DTypeError>(kind, {f32({2}), i64({2})}, {}, sum) ==
        "PointwiseNode: an operand is int64 [2], but the first operand is float32 [2]");
  CHECK(error_of<DTypeError>(kind, {i64({2})}, {}, silu) ==
        "PointwiseNode: the result is int64 [2], and it needs a floating-point type");
  CHECK(error_of<ShapeError>(kind, {f32({3}), f32({3})}, {}, complex) ==
        "PointwiseNode: the result has shape [3], and the last dimension of complex numbers must be 2");
  CHECK(error_of<ValueError>(kind, {f32({2})}, {}, sum) ==
        "PointwiseNode: the program takes 2 operands, but there are 1");
  CHECK(error_of<ValueError>(kind, {f32({2}), f32({2})}, {}, silu) ==
        "PointwiseNode: the program takes 1 operands, but there are 2");
  CHECK(error_of<ValueError>(kind, {f32({2})}) == "pointwise: the program leaves 0 values instead of one");
  CHECK(error_of<ValueError>(kind, {}, {}, silu) == "PointwiseNode: 0 operands, but it takes at least one");
}

TEST_CASE("MatMulPointwiseNode has the type of the product", "[graph]") {
  const NodeKind kind = NodeKind::matmul_pointwise;
  const Program bias{{PointwiseCode::load, 0}, {PointwiseCode::load, 1}, {PointwiseCode::sum}, {PointwiseCode::relu}};
  const Program complex{{PointwiseCode::load, 0}, {PointwiseCode::load, 0}, {PointwiseCode::complex_hadamard_product}};
  CHECK(type_of(kind, {f32({2, 3}), f32({3, 4}), f32({1, 4})}, {}, bias) == f32({2, 4}));
  CHECK(error_of<ShapeError>(kind, {f32({2, 3}), f32({4, 3}), f32({1, 4})}, {}, bias) ==
        "MatMulPointwiseNode: the second operand has shape [4, 3], which does not fit the first one's [2, 3]" +
            product_rule);
  CHECK(
      error_of<ShapeError>(kind, {f32({2, 3}), f32({3, 4}), f32({4})}, {}, bias).starts_with("MatMulPointwiseNode: "));
  CHECK(error_of<ValueError>(kind, {f32({2, 3})}, {}, bias) ==
        "MatMulPointwiseNode: there are no two operands to multiply");
  CHECK(error_of<ValueError>(kind, {f32({2, 3}), f32({3, 4})}, {}, bias) ==
        "MatMulPointwiseNode: the program takes 2 operands, but there are 1");
  CHECK(error_of<ValueError>(kind, {f32({2, 3}), f32({3, 2})}, {}, complex) ==
        "MatMulPointwiseNode: a product of complex numbers after one of matrices");
}

TEST_CASE("Nodes refer to nodes before them and carry nothing that they do not use", "[graph]") {
  Graph graph;
  CHECK_THROWS_MATCHES(graph.add({.kind = NodeKind::relu, .operands = {0}}), ValueError,
                       Catch::Matchers::Message("ReLUNode: an operand is node 0, which is not there yet"));
  graph.add({.kind = NodeKind::input_tensor, .type = f32({1}), .name = "x"});
  CHECK_THROWS_AS(graph.add({.kind = NodeKind::relu, .operands = {1}}), ValueError);
  CHECK_THROWS_AS(graph.add({.kind = NodeKind::relu, .operands = {0}, .name = "y"}), ValueError);
  CHECK_THROWS_AS(graph.add({.kind = NodeKind::relu, .operands = {0}, .program = {{}}}), ValueError);
  CHECK_THROWS_AS(graph.set_result(1), ValueError);
  CHECK_THROWS_AS(graph.result(), ValueError);
  CHECK(graph.size() == 1);
}

TEST_CASE("A graph that was moved from is empty and can be used again", "[graph]") {
  const auto make = [] {
    Graph graph;
    graph.add({.kind = NodeKind::input_tensor, .type = f32({1}), .name = "x"});
    graph.set_result(graph.add({.kind = NodeKind::relu, .operands = {0}}));
    return graph;
  };
  const auto check_empty = [](Graph& graph) {
    CHECK(graph.empty());
    CHECK(graph.roots().empty());
    CHECK_FALSE(graph.has_result());
    CHECK_THROWS_AS(graph.result(), ValueError);
    CHECK(graph.find("x") == nullptr);
    CHECK(graph == Graph());
    CHECK(graph.add({.kind = NodeKind::input_tensor, .type = f32({1}), .name = "x"}) == 0);
    CHECK(graph.add({.kind = NodeKind::silu, .operands = {0}}) == 1);
    CHECK_FALSE(graph.has_result());
  };
  Graph source = make();
  Graph target(std::move(source));
  CHECK(target == make());
  CHECK(target.result() == 1);
  check_empty(source);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)

  Graph other = make();
  target.add({.kind = NodeKind::relu, .operands = {1}});
  target = std::move(other);
  CHECK(target == make());
  check_empty(other);  // NOLINT(bugprone-use-after-move,clang-analyzer-cplusplus.Move)

  Graph& same = target;
  target = std::move(same);
  CHECK(target == make());
  other = target;
  CHECK(other == make());
  CHECK(target == make());
}

TEST_CASE("A chain of 10,000 nodes is added", "[graph]") {
  Graph graph;
  NodeId x = graph.add({.kind = NodeKind::buffer_tensor, .type = f32({2, 3}), .name = "x"});
  const NodeId n = graph.add({.kind = NodeKind::input_tensor, .type = i64({1}), .name = "n"});
  while (graph.size() < 10'000) x = graph.add({.kind = NodeKind::replace_slice, .operands = {x, x, n, n}});
  CHECK(graph[x].type == f32({2, 3}));
}
