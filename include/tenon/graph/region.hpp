// Region: nodes of a graph that can run as one, as a list of steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/nodes.hpp>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

enum class RegionCode : std::uint8_t { matmul, sum, hadamard_product, relu, silu };

/// One operation. Values are numbered: the inputs of the region in order, then the result of each step.
struct RegionStep {
  RegionCode code = RegionCode::sum;
  std::size_t x = 0;
  std::size_t y = 0;  ///< of matmul, sum and hadamard_product

  bool operator==(const RegionStep&) const = default;
};

/// A product with point-wise steps before its first operand and after it, or point-wise steps alone. Every step rounds to
/// the dtype, as the nodes do.
struct Region {
  std::vector<NodeId> nodes;      ///< in order; nothing outside uses any but the last, which is the result
  std::vector<NodeId> inputs;     ///< nodes outside, each once
  std::vector<RegionStep> steps;  ///< in order; the last one gives the result
  std::vector<NodeId> prologue;   ///< those of `nodes` that come before the product

  [[nodiscard]] NodeId output() const { return nodes.back(); }
};

namespace detail {

inline bool is_product(const Node& node) {
  return node.kind == NodeKind::matmul || node.kind == NodeKind::matmul_pointwise;
}

/// Whether a node consists of point-wise steps that regions have: no products of complex numbers, no integers, not a mere
/// copy.
inline bool has_region_steps(const Node& node) {
  if (node.type.dtype == DType::int64) return false;
  const auto program = real_program(node);
  return program && program->back().code != PointwiseCode::load;
}

/// Appends the steps of `program`, whose operands are these values. Returns the value that it leaves.
inline std::size_t add_program(Region& region, const std::vector<PointwiseStep>& program,
                               const std::vector<std::size_t>& operands) {
  std::vector<std::size_t> stack;
  const auto add = [&](RegionCode code, std::size_t x, std::size_t y) {
    region.steps.push_back({code, x, y});
    stack.push_back(region.inputs.size() + region.steps.size() - 1);
  };
  const auto pop = [&] {
    const std::size_t top = stack.back();
    stack.pop_back();
    return top;
  };
  for (const PointwiseStep& step : program) {
    switch (step.code) {
      case PointwiseCode::load: stack.push_back(operands[step.operand]); break;
      case PointwiseCode::sum:
      case PointwiseCode::hadamard_product: {
        const std::size_t y = pop();
        const std::size_t x = pop();
        add(step.code == PointwiseCode::sum ? RegionCode::sum : RegionCode::hadamard_product, x, y);
        break;
      }
      case PointwiseCode::relu: add(RegionCode::relu, pop(), 0); break;
      case PointwiseCode::silu: add(RegionCode::silu, pop(), 0); break;
      case PointwiseCode::complex_hadamard_product:
        throw ValueError("graph: a region has no products of complex numbers");
    }
  }
  return stack.back();
}

}  // namespace detail

/// The steps of these nodes, which are products or have region steps, and each but the last is used by later ones alone.
[[nodiscard]] inline Region make_region(const Graph& graph, std::vector<NodeId> nodes) {
  std::sort(nodes.begin(), nodes.end());
  Region region;
  region.nodes = std::move(nodes);
  const auto inside = [&](NodeId id) { return std::binary_search(region.nodes.begin(), region.nodes.end(), id); };
  const auto product =
      std::find_if(region.nodes.begin(), region.nodes.end(), [&](NodeId id) { return detail::is_product(graph[id]); });
  if (product != region.nodes.end()) region.prologue.assign(region.nodes.begin(), product);
  for (const NodeId id : region.nodes) {
    for (const NodeId operand : graph[id].operands) {
      const auto known = std::find(region.inputs.begin(), region.inputs.end(), operand);
      if (!inside(operand) && known == region.inputs.end()) region.inputs.push_back(operand);
    }
  }
  std::vector<std::size_t> results(region.nodes.size());  // the value of each node
  const auto value_of = [&](NodeId id) {
    if (inside(id)) {
      const auto at = std::lower_bound(region.nodes.begin(), region.nodes.end(), id) - region.nodes.begin();
      return results[static_cast<std::size_t>(at)];
    }
    const auto at = std::find(region.inputs.begin(), region.inputs.end(), id) - region.inputs.begin();
    return static_cast<std::size_t>(at);
  };
  for (std::size_t i = 0; i < region.nodes.size(); ++i) {
    const Node& node = graph[region.nodes[i]];
    std::vector<std::size_t> operands;
    for (const NodeId operand : node.operands) operands.push_back(value_of(operand));
    if (!detail::is_product(node)) {
      results[i] = detail::add_program(region, *detail::real_program(node), operands);
      continue;
    }
    region.steps.push_back({RegionCode::matmul, operands[0], operands[1]});
    results[i] = region.inputs.size() + region.steps.size() - 1;
    if (node.kind == NodeKind::matmul_pointwise) {
      operands.erase(operands.begin());
      operands[0] = results[i];
      results[i] = detail::add_program(region, node.program, operands);
    }
  }
  return region;
}

/// The steps before the product, and the others, of a region that has both.
[[nodiscard]] inline std::pair<Region, Region> split_prologue(const Graph& graph, const Region& region) {
  const auto rest = region.nodes.begin() + static_cast<std::ptrdiff_t>(region.prologue.size());
  return {make_region(graph, region.prologue), make_region(graph, {rest, region.nodes.end()})};
}

}  // namespace graph
TENON_NAMESPACE_END
