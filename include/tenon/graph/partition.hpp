// find_regions: the parts of a graph that a library of fused kernels, such as cuDNN, can run.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/passes/uses.hpp>
#include <tenon/graph/region.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Most nodes of a region: longer chains become several.
inline constexpr std::size_t max_region_nodes = 32;

namespace detail {

/// Grows regions, first around products, then of what is left.
class Partition {
 public:
  explicit Partition(const Graph& graph)
      : graph_(graph), writes_(graph), uses_(count_uses(graph)), users_(graph.size(), 0), taken_(graph.size(), false) {
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (const NodeId operand : graph[id].operands) users_[operand] = id;
    }
  }

  [[nodiscard]] std::vector<Region> run() {
    std::vector<Region> regions;
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (is_product(graph_[id])) regions.push_back(make_region(graph_, around_product(id)));
    }
    for (auto id = static_cast<NodeId>(graph_.size()); id-- > 0;) {
      if (taken_[id] || !has_region_steps(graph_[id])) continue;
      std::vector<NodeId> nodes;
      absorb(nodes, id, id);
      regions.push_back(make_region(graph_, std::move(nodes)));
    }
    std::sort(regions.begin(), regions.end(), [](const Region& a, const Region& b) { return a.output() < b.output(); });
    return regions;
  }

 private:
  /// Whether `user` alone uses a node.
  [[nodiscard]] bool only_used_by(NodeId id, NodeId user) const {
    const auto& operands = graph_[user].operands;
    return uses_[id] == std::count(operands.begin(), operands.end(), id);
  }
  /// Whether a node reads at the turn of `turn` what it reads at its own.
  [[nodiscard]] bool reads_the_same(NodeId id, NodeId turn) const {
    const auto& operands = graph_[id].operands;
    return std::none_of(operands.begin(), operands.end(),
                        [&](NodeId operand) { return writes_.between(operand, id, turn); });
  }

  std::vector<NodeId> around_product(NodeId product) {
    std::vector<NodeId> nodes{product};
    taken_[product] = true;
    NodeId output = product;
    while (nodes.size() < max_region_nodes && uses_[output] > 0) {
      const NodeId user = users_[output];
      if (user <= output || taken_[user] || !has_region_steps(graph_[user]) || !only_used_by(output, user) ||
          graph_[user].type != graph_[product].type) {
        break;
      }
      if (!std::all_of(nodes.begin(), nodes.end(), [&](NodeId id) { return reads_the_same(id, user); })) break;
      nodes.push_back(user);
      taken_[user] = true;
      output = user;
    }
    const NodeId a = graph_[product].operands[0];
    if (uses_[a] == 1) absorb(nodes, a, output);
    return nodes;
  }

  /// Adds a point-wise node that is to run at the turn of `output`, and those that feed it alone and have its shape.
  void absorb(std::vector<NodeId>& nodes, NodeId id, NodeId output) {
    std::vector<NodeId> open{id};
    while (!open.empty()) {
      const NodeId next = open.back();
      open.pop_back();
      if (taken_[next] || nodes.size() == max_region_nodes) continue;
      if (!has_region_steps(graph_[next]) || !reads_the_same(next, output)) continue;
      nodes.push_back(next);
      taken_[next] = true;
      for (const NodeId operand : graph_[next].operands) {
        if (only_used_by(operand, next) && graph_[operand].type == graph_[next].type) open.push_back(operand);
      }
    }
  }

  const Graph& graph_;
  MemoryWrites writes_;
  std::vector<int> uses_;
  std::vector<NodeId> users_;  // the last one of each node
  std::vector<bool> taken_;
};

}  // namespace detail

/// Disjoint regions in the order of their results. Each may run when its last node has its turn: its other nodes are used
/// inside of it alone, and nothing writes memory between the turn of a node that reads it and that of the last one.
/// Nodes that no region holds are other operators, views, copies, products of complex numbers, and point-wise nodes on
/// integers.
[[nodiscard]] inline std::vector<Region> find_regions(const Graph& graph) { return detail::Partition(graph).run(); }

}  // namespace graph
TENON_NAMESPACE_END
