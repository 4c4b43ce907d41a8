// print: a graph as a script, the form that parse_script reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/graph/graph.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {
namespace detail {

/// The words of programs in the order of PointwiseCode. A load is the number of its operand instead.
inline constexpr std::array<std::string_view, 6> pointwise_words{
    "", "sum", "hadamard_product", "complex_hadamard_product", "relu", "silu"};

/// "[0, 1, sum, relu]".
[[nodiscard]] inline std::string program_text(std::span<const PointwiseStep> program) {
  std::string text = "[";
  for (const PointwiseStep& step : program) {
    if (text.size() > 1) text += ", ";
    if (step.code == PointwiseCode::load) {
      text += std::to_string(step.operand);
    } else {
      text += pointwise_words[static_cast<std::size_t>(step.code)];
    }
  }
  return text + "]";
}

/// "$4", the node's name in a script; they count from 1.
[[nodiscard]] inline std::string reference_text(NodeId id) {
  std::string text = "$";  // GCC 12 warns of "$" + std::to_string(…)
  return text += std::to_string(std::uint64_t{id} + 1);
}

/// "MatMulNode($2, $3)".
[[nodiscard]] inline std::string node_text(const Node& node) {
  const NodeRule& rule = rule_of(node.kind);
  std::string text = std::string(rule.name) + "(";
  const auto argument = [&text](std::string_view value) {
    if (text.back() != '(') text += ", ";
    text += value;
  };
  if (is_named_tensor(node.kind)) {
    argument(node.name);
    argument(dtype_name(node.type.dtype));
    argument(shape_text(node.type.shape));
  }
  if (!node.program.empty()) argument(program_text(node.program));
  for (const NodeId operand : node.operands) argument(reference_text(operand));
  if (rule.numbers == NumbersForm::list) {
    argument(shape_text(node.numbers));
  } else {
    for (const std::int64_t number : node.numbers) argument(std::to_string(number));
  }
  return text + ")";
}

}  // namespace detail

/// One statement a line, `$1` first, and the result last where one is set. `parse_script(print(g)) == g` for every graph
/// with a result and tensors of at most 3 dimensions, which are all that scripts have.
[[nodiscard]] inline std::string print(const Graph& graph) {
  std::string text;
  NodeId id = 0;
  for (const Node& node : graph.nodes()) {
    text += detail::reference_text(id++) + " = " + detail::node_text(node) + ";\n";
  }
  if (graph.has_result()) text += "result = " + detail::reference_text(graph.result()) + ";\n";
  return text;
}

}  // namespace graph
TENON_NAMESPACE_END
