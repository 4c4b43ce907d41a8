// Every node, compiled, against the oracle: dtypes, shapes, broadcasts, and operands that are views.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenon/graph/executable.hpp>
#include <tenon/graph/print.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"
#include "graph/run.hpp"

// For all files of these tests.
template class tenon::graph::Executable<tenon::Cpu>;

namespace {

using namespace graph_test;

/// How an operand lies in the memory of its input.
enum class Form : std::uint8_t { plain, transposed, sliced, sliced_columns, reshaped };
constexpr std::array<Form, 5> forms{Form::plain, Form::transposed, Form::sliced, Form::sliced_columns, Form::reshaped};

const std::vector<DType> float_types{DType::float32, DType::float16, DType::bfloat16};
const std::vector<DType> all_types{DType::float32, DType::float16, DType::bfloat16, DType::int64};

/// A graph of one node on inputs.
class OneNode {
 public:
  NodeId operand(const TensorType& type, Form form, const Wholes& wholes = {}) {
    Shape shape = type.shape;
    const bool reversed = form == Form::transposed || form == Form::sliced_columns;
    if (reversed) std::reverse(shape.begin(), shape.end());
    if (form == Form::sliced || form == Form::sliced_columns) shape[0] += 3;
    if (form == Form::reshaped) shape = {type.numel()};
    const std::string name = "t" + std::to_string(graph.size());
    wholes_[name] = wholes;
    NodeId id = graph.add({.kind = NodeKind::input_tensor, .type = {type.dtype, shape}, .name = name});
    if (form == Form::sliced || form == Form::sliced_columns) {
      id = graph.add({.kind = NodeKind::slice, .operands = {id}, .numbers = {1, shape[0] - 2}});
    }
    if (reversed) {
      std::vector<std::int64_t> order;
      for (std::size_t i = type.rank(); i-- > 0;) order.push_back(static_cast<std::int64_t>(i));
      id = graph.add({.kind = NodeKind::permute, .operands = {id}, .numbers = order});
    }
    if (form == Form::reshaped) id = graph.add({.kind = NodeKind::reshape, .operands = {id}, .numbers = type.shape});
    REQUIRE(graph[id].type == type);
    return id;
  }

  /// Adds the node that is tested and compares.
  void check(Node node) {
    graph.set_result(graph.add(std::move(node)));
    ElementMap inputs;
    std::mt19937 random(static_cast<std::uint32_t>(graph.size()));
    for (const Node& tensor : graph.nodes()) {
      if (tensor.kind == NodeKind::input_tensor) {
        inputs[tensor.name] = random_elements(tensor.type, wholes_.at(tensor.name), random);
      }
    }
    const Elements expected = Reference(graph, {}).evaluate(inputs);
    Context<Cpu> ctx(1);
    for (const PassOptions& passes : {PassOptions{}, PassOptions::none()}) {
      Executable<Cpu> executable(ctx, graph, {}, {.passes = passes});
      const AnyTensor& result = executable.evaluate(ctx, to_tensors(ctx, graph, inputs));
      const std::string problem = graph_test::mismatch(ctx, result, graph[graph.result()].type, expected);
      if (!problem.empty()) FAIL_CHECK(problem + "\n" + print(graph));
    }
  }

  Graph graph;

 private:
  std::map<std::string, Wholes> wholes_;
};

const std::vector<Shape> some_shapes{{1},      {5},       {40},      {129},      {3, 4},      {1, 7},
                                     {16, 33}, {2, 3, 4}, {3, 1, 2}, {2, 5, 16}, {4, 2, 3, 2}};

/// The shape with the dimensions of `mask` set to 1.
Shape broadcast_shape(Shape shape, unsigned mask) {
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if ((mask >> i) % 2 == 1) shape[i] = 1;
  }
  return shape;
}

void check_two_operands(NodeKind kind, const std::vector<DType>& types, const std::vector<Shape>& shapes) {
  for (const DType dtype : types) {
    for (const Shape& shape : shapes) {
      for (const Form form : forms) {
        for (unsigned mask = 0; mask < (1U << shape.size()); ++mask) {
          const Shape b_shape = broadcast_shape(shape, mask);
          if (kind == NodeKind::complex_hadamard_product && b_shape.back() != 2) continue;
          OneNode one;
          const NodeId a = one.operand({dtype, shape}, form);
          const NodeId b = one.operand({dtype, b_shape}, forms[(mask + shape.size()) % forms.size()]);
          one.check({.kind = kind, .operands = {a, b}});
        }
      }
      OneNode twice;
      const NodeId a = twice.operand({dtype, shape}, Form::plain);
      twice.check({.kind = kind, .operands = {a, a}});
    }
  }
}

void check_one_operand(NodeKind kind, const std::vector<DType>& types) {
  for (const DType dtype : types) {
    for (const Shape& shape : some_shapes) {
      for (const Form form : forms) {
        OneNode one;
        const NodeId x = one.operand({dtype, shape}, form);
        one.check({.kind = kind, .operands = {x}});
      }
    }
  }
}

}  // namespace

TEST_CASE("graph nodes: Sum against the oracle", "[graph]") {
  check_two_operands(NodeKind::sum, all_types, some_shapes);
}

TEST_CASE("graph nodes: HadamardProduct against the oracle", "[graph]") {
  check_two_operands(NodeKind::hadamard_product, all_types, some_shapes);
}

TEST_CASE("graph nodes: ComplexHadamardProduct against the oracle", "[graph]") {
  check_two_operands(NodeKind::complex_hadamard_product, float_types,
                     {{2}, {7, 2}, {1, 2}, {33, 2}, {3, 5, 2}, {1, 24, 2}, {2, 3, 4, 2}});
}

TEST_CASE("graph nodes: ReLU and SiLU against the oracle", "[graph]") {
  check_one_operand(NodeKind::relu, all_types);
  check_one_operand(NodeKind::silu, float_types);
}

TEST_CASE("graph nodes: MatMul against the oracle", "[graph]") {
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{1}, {1, 1}},        {{7}, {7, 5}},          {{64}, {64, 33}},       {{1, 3}, {3, 1}},      {{4, 5}, {5, 6}},
      {{17, 40}, {40, 19}}, {{2, 3, 4}, {2, 4, 5}}, {{3, 1, 8}, {3, 8, 7}}, {{1, 9, 2}, {1, 2, 9}}};
  for (const DType dtype : float_types) {
    for (const auto& [a_shape, b_shape] : shapes) {
      for (const Form a_form : forms) {
        for (const Form b_form : forms) {
          OneNode one;
          const NodeId a = one.operand({dtype, a_shape}, a_form);
          const NodeId b = one.operand({dtype, b_shape}, b_form);
          one.check({.kind = NodeKind::matmul, .operands = {a, b}});
        }
      }
    }
  }
}

TEST_CASE("graph nodes: MatMul with bias, activation and residual against the oracle", "[graph]") {
  for (const DType dtype : float_types) {
    for (const Shape& a_shape : {Shape{9}, Shape{4, 9}, Shape{2, 3, 9}}) {
      for (const Form form : forms) {
        for (unsigned mask = 0; mask < (1U << a_shape.size()); ++mask) {
          OneNode one;
          Shape b_shape{9, 12};
          if (a_shape.size() == 3) b_shape.insert(b_shape.begin(), 2);
          Shape shape = a_shape;
          shape.back() = 12;
          const NodeId a = one.operand({dtype, a_shape}, form);
          const NodeId b = one.operand({dtype, b_shape}, Form::transposed);
          const NodeId bias = one.operand({dtype, broadcast_shape(shape, mask)}, form);
          const NodeId residual = one.operand({dtype, shape}, form);
          const NodeId product = one.graph.add({.kind = NodeKind::matmul, .operands = {a, b}});
          const NodeId sum = one.graph.add({.kind = NodeKind::sum, .operands = {product, bias}});
          const NodeId active = one.graph.add({.kind = NodeKind::silu, .operands = {sum}});
          one.check({.kind = NodeKind::sum, .operands = {residual, active}});
        }
      }
    }
  }
}

TEST_CASE("graph nodes: Slice, Reshape and Permute against the oracle", "[graph]") {
  for (const DType dtype : all_types) {
    for (const Form form : forms) {
      for (const Shape& shape : {Shape{6}, Shape{3, 4}, Shape{2, 3, 4}, Shape{1, 6, 1}, Shape{2, 2, 3, 2}}) {
        for (std::int64_t begin = 0; begin < shape[0]; ++begin) {
          OneNode one;
          const NodeId x = one.operand({dtype, shape}, form);
          one.check({.kind = NodeKind::slice, .operands = {x}, .numbers = {begin, shape[0]}});
        }
        std::vector<std::int64_t> order(shape.size());
        for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
        do {
          OneNode one;
          const NodeId x = one.operand({dtype, shape}, form);
          one.check({.kind = NodeKind::permute, .operands = {x}, .numbers = order});
        } while (std::next_permutation(order.begin(), order.end()));
        const std::int64_t count = TensorType{dtype, shape}.numel();
        for (std::int64_t a = 1; a <= count; ++a) {
          if (count % a != 0) continue;
          for (const Shape& other : {Shape{a, count / a}, Shape{a, 1, count / a}, Shape{1, a, count / a}}) {
            OneNode one;
            const NodeId x = one.operand({dtype, shape}, form);
            one.check({.kind = NodeKind::reshape, .operands = {x}, .numbers = other});
          }
        }
      }
    }
  }
}

TEST_CASE("graph nodes: ReplaceSlice against the oracle", "[graph]") {
  for (const DType dtype : all_types) {
    for (const Shape& shape : {Shape{9}, Shape{4, 5}, Shape{3, 2, 4}, Shape{3, 2, 2, 3}}) {
      for (const Form form : forms) {
        for (std::int64_t begin = 0; begin < shape[0]; ++begin) {
          for (std::int64_t end = begin + 1; end <= shape[0]; ++end) {
            OneNode one;
            Shape rows_shape = shape;
            rows_shape[0] = end - begin;
            const NodeId x = one.operand({dtype, shape}, form);
            const NodeId rows = one.operand({dtype, rows_shape}, forms[static_cast<std::size_t>(end) % forms.size()]);
            const NodeId from = one.operand({DType::int64, {1}}, Form::plain, {begin, begin});
            const NodeId to = one.operand({DType::int64, {1, 1}}, Form::reshaped, {end, end});
            one.check({.kind = NodeKind::replace_slice, .operands = {x, rows, from, to}});
          }
        }
      }
    }
  }
}

TEST_CASE("graph nodes: RmsNorm against the oracle", "[graph]") {
  for (const DType dtype : float_types) {
    for (const std::int64_t size : {1, 2, 15, 64, 129}) {
      for (const Form form : forms) {
        OneNode one;
        const NodeId x = one.operand({dtype, {size}}, form);
        const NodeId weight = one.operand({dtype, {size}}, forms[static_cast<std::size_t>(size) % forms.size()]);
        one.check({.kind = NodeKind::rms_norm, .operands = {x, weight}});
      }
      // A column of a matrix: elements with a stride.
      OneNode one;
      const NodeId matrix = one.operand({dtype, {size, 3}}, Form::transposed);
      const NodeId turned = one.graph.add({.kind = NodeKind::permute, .operands = {matrix}, .numbers = {1, 0}});
      const NodeId row = one.graph.add({.kind = NodeKind::slice, .operands = {turned}, .numbers = {1, 2}});
      const NodeId x = one.graph.add({.kind = NodeKind::reshape, .operands = {row}, .numbers = {size}});
      one.check({.kind = NodeKind::rms_norm, .operands = {x, x}});
    }
  }
}

TEST_CASE("graph nodes: SlicedSoftmax against the oracle", "[graph]") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : {Shape{1}, Shape{6}, Shape{40}, Shape{3, 5}, Shape{2, 2, 17}}) {
      for (const Form form : forms) {
        for (std::int64_t prefix = 0; prefix <= shape.back(); ++prefix) {
          OneNode one;
          const NodeId x = one.operand({dtype, shape}, form);
          const NodeId last = one.operand({DType::int64, {1}}, Form::plain, {prefix, prefix});
          one.check({.kind = NodeKind::sliced_softmax, .operands = {x, last}});
          OneNode fixed;
          const NodeId same = fixed.operand({dtype, shape}, form);
          fixed.check({.kind = NodeKind::sliced_softmax, .operands = {same}, .numbers = {prefix}});
        }
      }
    }
  }
}
