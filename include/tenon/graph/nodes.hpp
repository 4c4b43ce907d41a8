// The table of all nodes.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/nodes/complex_hadamard_product.hpp>
#include <tenon/graph/nodes/fused.hpp>
#include <tenon/graph/nodes/hadamard_product.hpp>
#include <tenon/graph/nodes/matmul.hpp>
#include <tenon/graph/nodes/permute.hpp>
#include <tenon/graph/nodes/relu.hpp>
#include <tenon/graph/nodes/replace_slice.hpp>
#include <tenon/graph/nodes/reshape.hpp>
#include <tenon/graph/nodes/rms_norm.hpp>
#include <tenon/graph/nodes/silu.hpp>
#include <tenon/graph/nodes/slice.hpp>
#include <tenon/graph/nodes/sliced_softmax.hpp>
#include <tenon/graph/nodes/sum.hpp>
#include <tenon/graph/nodes/tensors.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// In the order of NodeKind.
inline constexpr std::array<NodeRule, node_kinds> node_rules{
    detail::input_tensor_rule,
    detail::constant_tensor_rule,
    detail::buffer_tensor_rule,
    detail::sum_rule,
    detail::hadamard_product_rule,
    detail::relu_rule,
    detail::silu_rule,
    detail::matmul_rule,
    detail::slice_rule,
    detail::reshape_rule,
    detail::permute_rule,
    detail::replace_slice_rule,
    detail::complex_hadamard_product_rule,
    detail::rms_norm_rule,
    detail::sliced_softmax_rule,
    detail::pointwise_rule,
    detail::matmul_pointwise_rule,
};

/// Throws ValueError for a value that is none of NodeKind's.
[[nodiscard]] constexpr const NodeRule& rule_of(NodeKind kind) {
  const auto i = static_cast<std::size_t>(kind);
  if (i >= node_kinds) throw ValueError("graph: NodeKind has no value " + std::to_string(i));
  return node_rules[i];
}

/// By the name that scripts use; nothing where there is none.
[[nodiscard]] constexpr std::optional<NodeKind> find_node_kind(std::string_view name) {
  for (std::size_t i = 0; i < node_kinds; ++i) {
    if (node_rules[i].name == name) return static_cast<NodeKind>(i);
  }
  return std::nullopt;
}

/// InputTensor, ConstantTensor, BufferTensor.
[[nodiscard]] constexpr bool is_named_tensor(NodeKind kind) {
  return kind == NodeKind::input_tensor || kind == NodeKind::constant_tensor || kind == NodeKind::buffer_tensor;
}

namespace detail {

/// A point-wise node as a program on its operands, nothing where it is none or has complex products.
[[nodiscard]] inline std::optional<std::vector<PointwiseStep>> real_program(const Node& node) {
  if (node.kind != NodeKind::pointwise && !rule_of(node.kind).is_pointwise) return std::nullopt;
  std::vector<PointwiseStep> program = program_of(node);
  for (const PointwiseStep& step : program) {
    if (step.code == PointwiseCode::complex_hadamard_product) return std::nullopt;
  }
  return program;
}

}  // namespace detail
}  // namespace graph
TENON_NAMESPACE_END
