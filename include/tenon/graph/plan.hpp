// MemoryPlan: which bytes of one arena each node owns, and when.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/format.hpp>
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

/// Bytes `begin` up to `end` of the arena.
struct ByteRange {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Ranges in order, none of which touches another.
using ByteRanges = std::vector<ByteRange>;

inline void add_range(ByteRanges& ranges, ByteRange range) {
  auto first = std::lower_bound(ranges.begin(), ranges.end(), range.begin,
                                [](const ByteRange& other, std::size_t begin) { return other.end < begin; });
  if (first == ranges.end() || range.end < first->begin) {
    ranges.insert(first, range);
    return;
  }
  auto last = first;  // behind those that touch it
  for (; last != ranges.end() && last->begin <= range.end; ++last) range.end = std::max(range.end, last->end);
  first->begin = std::min(first->begin, range.begin);
  first->end = range.end;
  ranges.erase(first + 1, last);
}

/// The bytes that are in use at some turn of a lifetime. A binary tree over the turns: `whole_` are the bytes of slots in use
/// at all turns of a part, unless that is said of a part around it, and `some_` are those in use at some turn of it, unless at
/// all turns of a part around it. A lifetime is made of few parts, and slots next to each other are one range, so that dead
/// slots cost nothing and those in use together little.
class BytesInUse {
 public:
  explicit BytesInUse(std::size_t turns) : turns_(std::bit_ceil(turns)), whole_(turns_), some_(2 * turns_) {}

  void add(NodeId first, NodeId last, ByteRange range) {
    for_each_part(
        first, last,
        [&](std::size_t part) {
          if (part < turns_) add_range(whole_[part], range);
          add_range(some_[part], range);
        },
        [&](std::size_t part) { add_range(some_[part], range); });
  }

  /// Valid until the next call.
  [[nodiscard]] const ByteRanges& during(NodeId first, NodeId last) {
    found_.clear();
    for_each_part(
        first, last, [&](std::size_t part) { join(some_[part]); },
        [&](std::size_t part) {
          if (part < turns_) join(whole_[part]);
        });
    return found_;
  }

 private:
  /// `inside` for parts that together are the lifetime, `around` for those that hold its first or last turn. Part 1 is
  /// everything, 2 i and 2 i + 1 are the halves of i, and turns_ + t is turn t.
  template <class Inside, class Around>
  void for_each_part(NodeId first, NodeId last, const Inside& inside, const Around& around) const {
    for (std::size_t a = turns_ + first, b = turns_ + last + 1; a < b; a /= 2, b /= 2) {
      if (a % 2 != 0) inside(a++);
      if (b % 2 != 0) inside(--b);
    }
    for (std::size_t a = turns_ + first, b = turns_ + last; a > 0; a /= 2, b /= 2) {
      around(a);
      if (a != b) around(b);
    }
  }

  void join(const ByteRanges& ranges) {
    if (ranges.empty()) return;
    if (found_.empty()) {
      found_ = ranges;
      return;
    }
    joined_.clear();
    auto other = ranges.begin();
    const auto append = [&](const ByteRange& range) {
      if (joined_.empty() || joined_.back().end < range.begin) {
        joined_.push_back(range);
      } else {
        joined_.back().end = std::max(joined_.back().end, range.end);
      }
    };
    for (const ByteRange& range : found_) {
      for (; other != ranges.end() && other->begin < range.begin; ++other) append(*other);
      append(range);
    }
    for (; other != ranges.end(); ++other) append(*other);
    found_.swap(joined_);
  }

  std::size_t turns_;
  std::vector<ByteRanges> whole_;
  std::vector<ByteRanges> some_;
  ByteRanges found_;
  ByteRanges joined_;
};

/// Gives each slot, in this order, the smallest gap between those that are in use at the same time. Returns the bytes.
/// There are `nodes` turns, and one behind them.
inline std::size_t place_slots(std::vector<Slot>& slots, const std::vector<std::size_t>& order, std::size_t start,
                               std::size_t nodes) {
  BytesInUse in_use(nodes + 1);
  std::size_t bytes = start;
  for (const std::size_t i : order) {
    Slot& slot = slots[i];
    std::size_t free = start;  // where the gap in question begins
    std::size_t best = 0;
    std::size_t best_gap = 0;
    bool found = false;
    for (const ByteRange& other : in_use.during(slot.first, slot.last)) {
      const std::size_t gap = other.begin - free;
      if (gap >= slot.bytes && (!found || gap < best_gap)) {
        best = free;
        best_gap = gap;
        found = true;
      }
      free = other.end;
    }
    slot.offset = found ? best : free;
    bytes = std::max(bytes, slot.offset + slot.bytes);
    in_use.add(slot.first, slot.last, {slot.offset, slot.offset + slot.bytes});
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
  plan.bytes = detail::place_slots(plan.slots, by_size, persistent, graph.size());
  if (plan.bytes > plan.lower_bound) {
    std::vector<Slot> other = plan.slots;
    const std::size_t bytes = detail::place_slots(other, reused, persistent, graph.size());
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
    if (!node.name.empty()) text.append(" ").append(tenon::detail::quoted_text(node.name));
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
