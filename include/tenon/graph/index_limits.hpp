// IndexLimits: prefixes and places of writes that inputs give, for a check before anything runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/ops/replace_slice.hpp>
#include <tenon/ops/sliced_softmax.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

/// Knows the int64 of size 1 that are inputs, or views of one, and that no node writes. Others are known during a run only.
class IndexLimits {
 public:
  /// Looks at every node of a compiled graph. `input(name)` gives the memory in which the host sets an input.
  template <class Input>
  IndexLimits(const Graph& graph, const Input& input) {
    const MemoryWrites writes(graph);
    const auto on_host = [&](NodeId operand) -> const std::int64_t* {
      const Node& root = graph[writes.root(operand)];
      if (root.kind != NodeKind::input_tensor || root.type.numel() != 1 || writes.any(operand)) return nullptr;
      return reinterpret_cast<const std::int64_t*>(input(root.name));
    };
    const auto name = [&](NodeId operand) { return tenon::detail::quoted_text(graph[writes.root(operand)].name); };
    for (const Node& node : graph.nodes()) {
      if (node.kind == NodeKind::sliced_softmax && node.numbers.empty()) {
        if (const auto* prefix = on_host(node.operands[1])) {
          limits_.push_back({node.kind, "input " + name(node.operands[1]), prefix, nullptr, 0, node.type.shape.back()});
        }
      } else if (node.kind == NodeKind::replace_slice) {
        const auto* begin = on_host(node.operands[2]);
        const auto* end = on_host(node.operands[3]);
        if (begin == nullptr || end == nullptr) continue;
        limits_.push_back({node.kind, "inputs " + name(node.operands[2]) + " and " + name(node.operands[3]), begin, end,
                           graph[node.operands[1]].type.shape[0], node.type.shape[0]});
      }
    }
  }

  /// Throws ValueError for one that is out of range, and names its input.
  void check() const {
    for (const Limit& limit : limits_) {
      try {
        if (limit.kind == NodeKind::sliced_softmax) {
          tenon::detail::check_sliced_softmax_prefix(*limit.first, limit.size);
        } else {
          tenon::detail::check_replace_slice_place(*limit.first, *limit.second, limit.count, limit.size);
        }
      } catch (const ValueError& error) {
        throw ValueError(std::string(error.what()) + ", given by the " + limit.inputs);
      }
    }
  }

 private:
  struct Limit {
    NodeKind kind;
    std::string inputs;
    const std::int64_t* first;   // prefix or begin
    const std::int64_t* second;  // end
    std::int64_t count;          // rows
    std::int64_t size;
  };

  std::vector<Limit> limits_;
};

}  // namespace graph::detail
TENON_NAMESPACE_END
