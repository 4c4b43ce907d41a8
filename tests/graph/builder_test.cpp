// Builder and Value: expressions give the graph that the script of the same network gives.
#include <string>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <tenon/graph/builder.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using Catch::Matchers::Message;
using tenon::DType;

TEST_CASE("A layer as an expression is the layer as a script", "[graph]") {
  Builder b;
  const Value x = b.input("input", DType::float32, {128, 28, 28}).reshape({128, 784});
  const Value product = matmul(x, b.constant("constant_0", DType::float32, {784, 1000}));
  const Value h = relu(product + b.constant("constant_1", DType::float32, {1, 1000}));
  CHECK(h.type() == TensorType{DType::float32, {128, 1000}});
  CHECK(h.id() == 6);
  CHECK(&h.builder() == &b);
  CHECK(b.finish(h) == parse_script("$1 = InputTensor(input, float32, [128, 28, 28]);\n"
                                    "$2 = ReshapeNode($1, [128, 784]);\n"
                                    "$3 = ConstantTensor(constant_0, float32, [784, 1000]);\n"
                                    "$4 = MatMulNode($2, $3);\n"
                                    "$5 = ConstantTensor(constant_1, float32, [1, 1000]);\n"
                                    "$6 = SumNode($4, $5);\n"
                                    "$7 = ReLUNode($6);\n"
                                    "result = $7;\n"));
}

TEST_CASE("Every function and member adds its node", "[graph]") {
  Builder b;
  const Value x = b.input("x", DType::float32, {4, 2});
  const Value n = b.input("n", DType::int64, {1});
  const Value v = b.input("v", DType::float32, {6});
  const Value end = b.input("end", DType::int64, {1});
  const Value cache = b.buffer("cache", DType::float32, {8, 2});
  const Value written = cache.replace_slice(x, n, end);
  const Value part = written.slice(2, 6);
  const Value product = x * part;
  const Value complex = complex_multiply(product, silu(part));
  const Value turned = complex.permute({1, 0});
  const Value soft = sliced_softmax(turned, 3);
  const Value last = sliced_softmax(soft, n);
  static_cast<void>(rms_norm(v, v));
  CHECK(print(b.finish(last)) ==
        "$1 = InputTensor(x, float32, [4, 2]);\n"
        "$2 = InputTensor(n, int64, [1]);\n"
        "$3 = InputTensor(v, float32, [6]);\n"
        "$4 = InputTensor(end, int64, [1]);\n"
        "$5 = BufferTensor(cache, float32, [8, 2]);\n"
        "$6 = ReplaceSliceNode($5, $1, $2, $4);\n"
        "$7 = SliceNode($6, 2, 6);\n"
        "$8 = HadamardProductNode($1, $7);\n"
        "$9 = SiLUNode($7);\n"
        "$10 = ComplexHadamardProductNode($8, $9);\n"
        "$11 = PermuteNode($10, [1, 0]);\n"
        "$12 = SlicedSoftmaxNode($11, 3);\n"
        "$13 = SlicedSoftmaxNode($12, $2);\n"
        "$14 = RmsNormNode($3, $3);\n"
        "result = $13;\n");
}

TEST_CASE("A builder goes on after finish, also with four dimensions", "[graph]") {
  Builder b;
  const Value x = b.input("x", DType::bfloat16, {2, 3, 4, 5});
  const Graph first = b.finish(x);
  const Value y = relu(x);
  const Graph second = b.finish(y);
  CHECK(first.size() == 1);
  CHECK(second.size() == 2);
  CHECK(second.result() == 1);
  CHECK(second[1].type.shape == Shape{2, 3, 4, 5});
  CHECK_FALSE(b.graph().has_result());
}

TEST_CASE("What a node refuses passes through, and leaves the graph as it was", "[graph]") {
  Builder b;
  const Value x = b.input("x", DType::float32, {4, 6});
  const Value y = b.input("y", DType::int64, {4, 6});
  CHECK_THROWS_MATCHES(matmul(x, x), tenon::ShapeError,
                       Message("MatMulNode: the second operand has shape [4, 6], which does not fit the first one's "
                               "[4, 6]: [m, n] times [n, k], [n] times [n, k], or [b, m, n] times [b, n, k]"));
  CHECK_THROWS_MATCHES(x + y, tenon::DTypeError,
                       Message("SumNode: the second operand is int64 [4, 6], but the first operand is float32 [4, 6]"));
  CHECK_THROWS_AS(x.slice(3, 3), tenon::ValueError);
  CHECK_THROWS_AS(b.input("x", DType::float32, {1}), tenon::ValueError);
  CHECK_THROWS_AS(b.input("two words", DType::float32, {1}), tenon::ValueError);
  CHECK_THROWS_AS(b.input("z", DType::float64, {1}), tenon::DTypeError);
  CHECK(b.graph().size() == 2);
}

TEST_CASE("Values of two builders do not mix", "[graph]") {
  Builder a;
  Builder b;
  const Value x = a.input("x", DType::float32, {2});
  const Value y = b.input("y", DType::float32, {3});
  const auto of_another = Message("SumNode: node 0, float32 [3], is of another builder");
  CHECK_THROWS_MATCHES(x + y, tenon::ValueError, of_another);
  CHECK_THROWS_AS(x.replace_slice(y, x, x), tenon::ValueError);
  CHECK_THROWS_AS(sliced_softmax(x, y), tenon::ValueError);
  CHECK_THROWS_MATCHES(a.finish(y), tenon::ValueError, Message("result: node 0, float32 [3], is of another builder"));
  CHECK(a.graph().size() == 1);
  CHECK(b.graph().size() == 1);
}

TEST_CASE("A chain of 10,000 nodes is built", "[graph]") {
  Builder b;
  Value x = b.input("x", DType::float32, {2, 2});
  for (int i = 1; i < 10'000; ++i) x = i % 2 == 0 ? relu(x) : x + x;
  const Graph graph = b.finish(x);
  CHECK(graph.size() == 10'000);
  CHECK((parse_script(print(graph)) == graph));
}
