// MemoryPlan: which bytes of one arena each node owns, and when.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/math.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/print.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Memory of a node that owns some. Views own none.
struct Slot {
  NodeId node = 0;
  std::size_t offset = 0;  ///< in the arena, a multiple of MemoryPlan::alignment
  std::size_t bytes = 0;   ///< rounded up to that
  NodeId first = 0;        ///< nodes during which it is in use, both included
  NodeId last = 0;
};

struct MemoryPlan {
  static constexpr std::size_t alignment = 256;

  std::vector<Slot> slots;           ///< in the order of their nodes
  std::size_t bytes = 0;             ///< of the arena
  std::size_t persistent_bytes = 0;  ///< of constants and buffers, which lie in front and are never reused
  std::size_t lower_bound = 0;       ///< the largest sum of bytes in use at one node: no plan needs less

  /// A line for each slot, and the sums.
  [[nodiscard]] std::string text(const Graph& graph) const;
};

namespace detail {

/// The largest sum of bytes that are in use at one node.
inline std::size_t live_bytes(const std::vector<Slot>& slots, std::size_t nodes) {
  std::vector<std::size_t> begin(nodes + 1, 0);
  std::vector<std::size_t> end(nodes + 1, 0);
  for (const Slot& slot : slots) {
    begin[slot.first] += slot.bytes;
    end[slot.last] += slot.bytes;
  }
  std::size_t now = 0;
  std::size_t most = 0;
  for (std::size_t i = 0; i <= nodes; ++i) {
    now += begin[i];
    most = std::max(most, now);
    now -= end[i];
  }
  return most;
}

/// Gives each slot, in this order, the smallest gap between those that are in use at the same time. Returns the bytes.
inline std::size_t place_slots(std::vector<Slot>& slots, const std::vector<std::size_t>& order, std::size_t start) {
  std::vector<std::size_t> placed;  // by offset
  std::size_t bytes = start;
  for (const std::size_t i : order) {
    Slot& slot = slots[i];
    std::size_t free = start;  // where the gap in question begins
    std::size_t best = 0;
    std::size_t best_gap = 0;
    bool found = false;
    for (const std::size_t k : placed) {
      const Slot& other = slots[k];
      if (other.last < slot.first || slot.last < other.first) continue;
      if (other.offset > free) {
        const std::size_t gap = other.offset - free;
        if (gap >= slot.bytes && (!found || gap < best_gap)) {
          best = free;
          best_gap = gap;
          found = true;
        }
      }
      free = std::max(free, other.offset + other.bytes);
    }
    slot.offset = found ? best : free;
    bytes = std::max(bytes, slot.offset + slot.bytes);
    const auto after = std::upper_bound(placed.begin(), placed.end(), slot.offset,
                                        [&](std::size_t offset, std::size_t k) { return offset < slots[k].offset; });
    placed.insert(after, i);
  }
  return bytes;
}

}  // namespace detail

/// Plans the memory of a graph that with_explicit_copies made. `external` says of each node whether its memory is
/// elsewhere: constants that are used where they are. `runs_at` says of each node at which node's turn it runs, where that
/// is a later one. Memory is reused once its last reader has run, except that of inputs, which the caller may leave as they
/// are for the next evaluation.
[[nodiscard]] inline MemoryPlan plan_memory(const Graph& graph, const std::vector<bool>& external = {},
                                            const std::vector<NodeId>& runs_at = {}) {
  const std::span<const NodeId> roots = graph.roots();
  const auto end = static_cast<NodeId>(graph.size());
  std::vector<NodeId> last(graph.size(), 0);
  for (NodeId id = 0; id < end; ++id) {
    const NodeId turn = id < runs_at.size() ? runs_at[id] : id;
    last[id] = std::max(last[id], turn);
    for (const NodeId operand : graph[id].operands) last[roots[operand]] = std::max(last[roots[operand]], turn);
  }
  last[roots[graph.result()]] = end;

  MemoryPlan plan;
  std::size_t persistent = 0;
  std::vector<std::size_t> reused;
  for (NodeId id = 0; id < end; ++id) {
    if (roots[id] != id || (id < external.size() && external[id])) continue;
    const NodeKind kind = graph[id].kind;
    Slot slot{id, 0, align_up(graph[id].type.bytes(), MemoryPlan::alignment), id, last[id]};
    if (kind == NodeKind::input_tensor) {  // written before the first node runs, and again only by the caller
      slot.first = 0;
      slot.last = end;
    }
    if (kind == NodeKind::constant_tensor || kind == NodeKind::buffer_tensor) {
      slot.first = 0;
      slot.last = end;
      slot.offset = persistent;
      persistent += slot.bytes;
    } else {
      reused.push_back(plan.slots.size());
    }
    plan.slots.push_back(slot);
  }
  // Sums of sizes are taken without looking again: everything together must fit.
  std::size_t total = 0;
  for (const Slot& slot : plan.slots) {
    const auto sum = checked_add(total, slot.bytes);
    if (!sum || *sum > std::numeric_limits<std::size_t>::max() / 4) {
      throw Error("graph: its tensors have more bytes than there are addresses");
    }
    total = *sum;
  }
  plan.persistent_bytes = persistent;
  plan.lower_bound = detail::live_bytes(plan.slots, graph.size());

  // Large ones first is close to the bound for most networks, the order of execution for some of the others.
  std::vector<std::size_t> by_size = reused;
  std::stable_sort(by_size.begin(), by_size.end(),
                   [&](std::size_t a, std::size_t b) { return plan.slots[a].bytes > plan.slots[b].bytes; });
  plan.bytes = detail::place_slots(plan.slots, by_size, persistent);
  if (plan.bytes > plan.lower_bound) {
    std::vector<Slot> other = plan.slots;
    const std::size_t bytes = detail::place_slots(other, reused, persistent);
    if (bytes < plan.bytes) {
      plan.slots = std::move(other);
      plan.bytes = bytes;
    }
  }
  return plan;
}

inline std::string MemoryPlan::text(const Graph& graph) const {
  std::string text;
  for (const Slot& slot : slots) {
    const Node& node = graph[slot.node];
    text += detail::reference_text(slot.node) + " " + std::string(rule_of(node.kind).name);
    if (!node.name.empty()) text += " '" + node.name + "'";
    text += ": bytes " + std::to_string(slot.offset) + " to " + std::to_string(slot.offset + slot.bytes);
    const bool persistent = slot.offset + slot.bytes <= persistent_bytes;
    text += persistent ? ", always\n"
                       : ", from " + detail::reference_text(slot.first) + " to " +
                             (slot.last == graph.size() ? "the end" : detail::reference_text(slot.last)) + "\n";
  }
  return text + std::to_string(bytes) + " bytes, " + std::to_string(persistent_bytes) +
         " of them for constants and buffers; at least " + std::to_string(lower_bound) + " are needed\n";
}

}  // namespace graph
TENON_NAMESPACE_END
