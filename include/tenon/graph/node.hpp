// Node: one statement of a graph, as a plain value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/type.hpp>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Place of a node in its graph, from 0: operands come before the nodes that use them.
using NodeId = std::uint32_t;

enum class NodeKind : std::uint8_t {
  input_tensor,
  constant_tensor,
  buffer_tensor,
  sum,
  hadamard_product,
  relu,
  silu,
  matmul,
  slice,
  reshape,
  permute,
  replace_slice,
  complex_hadamard_product,
  rms_norm,
  sliced_softmax,
  pointwise,         ///< made by fusion: a program on its operands, each broadcast to the result
  matmul_pointwise,  ///< made by fusion: a product of the first two operands, then a program whose operand 0 it is
};

inline constexpr std::size_t node_kinds = 17;

/// The node table of graph/nodes.hpp says what the fields mean for each kind.
struct Node {
  NodeKind kind = NodeKind::input_tensor;
  std::vector<NodeId> operands{};
  TensorType type{};                     ///< of the result; inferred except for the three tensors
  std::string name{};                    ///< of the three tensors
  std::vector<std::int64_t> numbers{};   ///< begin and end, shape, order, or a constant prefix
  std::vector<PointwiseStep> program{};  ///< of the two fused kinds

  bool operator==(const Node&) const = default;
};

}  // namespace graph
TENON_NAMESPACE_END
