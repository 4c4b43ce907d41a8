// Memory plans: no two tensors in use at the same time share a byte, and little more is taken than that needs.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <tenon/graph/passes.hpp>
#include <tenon/graph/plan.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>
#include <tenon/models/llama_graph.hpp>

#include "graph/random_graph.hpp"

namespace {

using namespace tenon::graph;  // NOLINT(google-build-using-namespace)

/// For each node that owns memory, whether it holds something at each node's turn, and behind the last one.
std::vector<std::vector<bool>> turns_in_use(const Graph& graph) {
  const std::size_t size = graph.size();
  const auto owner = [&](NodeId id) {
    while (rule_of(graph[id].kind).is_view) id = graph[id].operands[0];
    return id;
  };
  std::vector<std::vector<bool>> used(size, std::vector<bool>(size + 1, false));
  for (NodeId id = 0; id < size; ++id) {
    if (owner(id) == id && is_named_tensor(graph[id].kind)) used[id].assign(size + 1, true);
    used[owner(id)][id] = true;
    for (const NodeId operand : graph[id].operands) used[owner(operand)][id] = true;
  }
  used[owner(graph.result())][size] = true;
  for (NodeId id = 0; id < size; ++id) {  // from the first turn to the last
    std::size_t last = size;
    while (last > 0 && !used[id][last]) --last;
    for (std::size_t turn = id; turn < last; ++turn) used[id][turn] = true;
    if (owner(id) != id) used[id].assign(size + 1, false);
  }
  return used;
}

std::string problem_of(const Graph& graph, const MemoryPlan& plan) {
  const std::vector<std::vector<bool>> used = turns_in_use(graph);
  std::size_t owners = 0;
  for (NodeId id = 0; id < graph.size(); ++id) owners += rule_of(graph[id].kind).is_view ? 0U : 1U;
  if (plan.slots.size() != owners) return "not every node that owns memory has a slot";
  for (const Slot& slot : plan.slots) {
    const std::string node = "$" + std::to_string(slot.node + 1);
    if (slot.offset % 256 != 0) return node + " is not aligned";
    if (slot.bytes < graph[slot.node].type.bytes()) return node + " is too small";
    if (slot.offset + slot.bytes > plan.bytes) return node + " is outside";
    for (const Slot& other : plan.slots) {
      if (other.node >= slot.node) continue;
      if (slot.offset >= other.offset + other.bytes || other.offset >= slot.offset + slot.bytes) continue;
      for (std::size_t turn = 0; turn <= graph.size(); ++turn) {
        if (used[slot.node][turn] && used[other.node][turn]) {
          return node + " and $" + std::to_string(other.node + 1) + " share bytes at turn " + std::to_string(turn + 1);
        }
      }
    }
  }
  std::size_t most = 0;
  for (std::size_t turn = 0; turn <= graph.size(); ++turn) {
    std::size_t live = 0;
    for (const Slot& slot : plan.slots) live += used[slot.node][turn] ? slot.bytes : 0;
    most = std::max(most, live);
  }
  if (most != plan.lower_bound) return "the lower bound is not " + std::to_string(most);
  if (plan.bytes < plan.lower_bound) return "fewer bytes than are needed";
  return {};
}

tenon::ModelConfig llama(std::int64_t hidden, std::int64_t intermediate, std::int64_t layers, std::int64_t heads,
                         std::int64_t kv_heads, std::int64_t vocabulary, std::int64_t positions) {
  tenon::ModelConfig config;
  config.model_type = "llama";
  config.hidden_size = hidden;
  config.intermediate_size = intermediate;
  config.num_hidden_layers = layers;
  config.num_attention_heads = heads;
  config.num_key_value_heads = kv_heads;
  config.head_dim = hidden / heads;
  config.vocab_size = vocabulary;
  config.max_position_embeddings = positions;
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 10000;
  return config;
}

/// Offsets by looking at every slot that was placed before: the smallest gap that is large enough, the first of equal ones.
std::vector<std::size_t> offsets_by_scan(const std::vector<Slot>& slots, const std::vector<std::size_t>& order,
                                         std::size_t start) {
  std::vector<std::size_t> offsets(slots.size());
  std::vector<std::size_t> placed;
  for (const std::size_t i : order) {
    std::vector<std::size_t> taken;  // those that are in use at the same time, by offset
    for (const std::size_t k : placed) {
      if (slots[k].first <= slots[i].last && slots[i].first <= slots[k].last) taken.push_back(k);
    }
    std::sort(taken.begin(), taken.end(), [&](std::size_t a, std::size_t b) { return offsets[a] < offsets[b]; });
    std::size_t free = start;
    std::size_t best = 0;
    std::size_t best_gap = SIZE_MAX;
    for (const std::size_t k : taken) {
      const std::size_t gap = offsets[k] > free ? offsets[k] - free : 0;
      if (gap >= slots[i].bytes && gap < best_gap) {
        best = free;
        best_gap = gap;
      }
      free = std::max(free, offsets[k] + slots[k].bytes);
    }
    offsets[i] = best_gap == SIZE_MAX ? free : best;
    placed.push_back(i);
  }
  return offsets;
}

}  // namespace

TEST_CASE("plan: every slot gets the smallest gap, as a scan of all slots finds it", "[graph]") {
  std::mt19937 random(5);
  std::size_t gaps = 0;  // slots that are not on top of those in use
  for (int round = 0; round < 400; ++round) {
    const auto turns = static_cast<NodeId>(1 + random() % 60);
    const auto longest = static_cast<NodeId>(1 + random() % turns);
    const std::size_t sizes = 1 + random() % 6;
    const std::size_t start = 256 * (random() % 3);
    std::vector<Slot> slots(random() % 80);
    for (Slot& slot : slots) {
      slot.bytes = 256 * (1 + random() % sizes);
      slot.first = static_cast<NodeId>(random() % turns);
      slot.last = std::min(slot.first + static_cast<NodeId>(random() % longest), turns);
      if (random() % 16 == 0) slot = {0, 0, slot.bytes, 0, turns};
    }
    std::vector<std::size_t> order(slots.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    const std::vector<std::size_t> expected = offsets_by_scan(slots, order, start);
    const std::size_t bytes = detail::place_slots(slots, order, start, turns);
    std::size_t end = start;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      CAPTURE(round, i, slots[i].first, slots[i].last, slots[i].bytes);
      REQUIRE(slots[i].offset == expected[i]);
      end = std::max(end, slots[i].offset + slots[i].bytes);
    }
    REQUIRE(bytes == end);
    for (const std::size_t i : order) gaps += slots[i].offset + slots[i].bytes < bytes ? 1 : 0;
  }
  CHECK(gaps > 1000);
}

TEST_CASE("plan: neither long chains nor many tensors at once take quadratic time", "[graph]") {
  // A look at every pair would take an hour, and the time limit of the tests would end it.
  constexpr NodeId count = 2'000'000;
  std::vector<Slot> chain;  // each is read by the next
  std::vector<Slot> wide;   // all are read at the end, in reverse
  for (NodeId i = 0; i < count; ++i) {
    chain.push_back({i, 0, 256 * (1 + std::size_t{i} % 3), i, i + 1});
    wide.push_back({i, 0, 256, i, 2 * count - i});
  }
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  CHECK(detail::place_slots(chain, order, 0, count) <= 256 * 8);
  CHECK(detail::place_slots(wide, order, 0, 2 * count) == std::size_t{256} * count);
}

TEST_CASE("plan: slots of random graphs do not overlap while both are in use", "[graph]") {
  std::size_t reused = 0;
  for (std::uint32_t seed = 1; seed <= 600; ++seed) {
    const graph_test::RandomGraph source(seed);
    for (const PassOptions& passes : {PassOptions{}, PassOptions::none()}) {
      const Graph graph = run_passes(source.graph(), passes);
      const MemoryPlan plan = plan_memory(graph);
      const std::string problem = problem_of(graph, plan);
      if (!problem.empty()) FAIL("seed " << seed << ": " << problem << "\n" << print(graph) << plan.text(graph));
      std::size_t sum = 0;
      for (const Slot& slot : plan.slots) sum += slot.bytes;
      reused += plan.bytes < sum ? 1 : 0;
    }
  }
  CHECK(reused > 300);
}

TEST_CASE("plan: of LLaMA graphs it is at most 1.1 times what is in use at one time", "[graph]") {
  struct Case {
    tenon::ModelConfig config;
    std::int64_t capacity;
  };
  for (const auto& [config, capacity] :
       {Case{llama(64, 172, 5, 8, 4, 512, 512), 512}, Case{llama(288, 768, 6, 6, 6, 32000, 256), 256},
        Case{llama(4096, 11008, 32, 32, 32, 32000, 2048), 2048}}) {
    for (const tenon::RotaryPairs pairs : {tenon::RotaryPairs::neighbours, tenon::RotaryPairs::halves}) {
      for (const PassOptions& passes : {PassOptions{}, PassOptions::none()}) {
        const Graph graph = run_passes(tenon::llama_graph(config, capacity, pairs), passes);
        std::vector<bool> elsewhere(graph.size(), false);
        for (NodeId id = 0; id < graph.size(); ++id) elsewhere[id] = graph[id].kind == NodeKind::constant_tensor;
        const MemoryPlan plan = plan_memory(graph, elsewhere);
        CAPTURE(config.num_hidden_layers, plan.bytes, plan.lower_bound, plan.persistent_bytes);
        CHECK(10 * plan.bytes <= 11 * plan.lower_bound);
        // Caches are most of it; what is left of the rest must be as close.
        CHECK(10 * (plan.bytes - plan.persistent_bytes) <= 11 * (plan.lower_bound - plan.persistent_bytes));
        if (config.num_hidden_layers < 10) CHECK(problem_of(graph, plan_memory(graph)).empty());
      }
    }
  }
}

TEST_CASE("plan: a chain takes turns with two pieces of memory, and views own none", "[graph]") {
  const Graph graph = parse_script(R"(
    $1 = InputTensor(x, float32, [64, 2]);
    $2 = ReLUNode($1);
    $3 = SiLUNode($2);
    $4 = ReshapeNode($3, [2, 64]);
    $5 = ReLUNode($4);
    $6 = SiLUNode($5);
    result = $6;)");
  const MemoryPlan plan = plan_memory(graph);
  REQUIRE(plan.slots.size() == 5);
  CHECK(plan.bytes == 3 * 512);
  CHECK(plan.lower_bound == plan.bytes);
  CHECK(plan.persistent_bytes == 0);
  CHECK(plan.slots[1].offset == plan.slots[3].offset);
  CHECK(plan.slots[2].offset == plan.slots[4].offset);
}

TEST_CASE("plan: memory is kept until the last reader of a view has run", "[graph]") {
  const Graph graph = parse_script(R"(
    $1 = InputTensor(x, float32, [64]);
    $2 = ReLUNode($1);
    $3 = SliceNode($2, 0, 32);
    $4 = SiLUNode($1);
    $5 = ReLUNode($4);
    $6 = ReLUNode($3);
    result = $6;)");
  const MemoryPlan plan = plan_memory(graph);
  CHECK(plan.slots[1].node == 1);
  CHECK(plan.slots[1].last == 5);
  CHECK(problem_of(graph, plan).empty());
}

TEST_CASE("plan: what lies elsewhere takes no memory, and what runs later keeps its operands", "[graph]") {
  const Graph graph = parse_script(R"(
    $1 = InputTensor(x, float32, [4, 4]);
    $2 = ConstantTensor(w, float32, [4, 4]);
    $3 = ReLUNode($1);
    $4 = MatMulNode($3, $2);
    $5 = SiLUNode($1);
    $6 = SumNode($4, $5);
    result = $6;)");
  std::vector<bool> external(graph.size(), false);
  external[1] = true;
  external[3] = true;
  const MemoryPlan plan = plan_memory(graph, external, {0, 1, 2, 5, 4, 5});
  REQUIRE(plan.slots.size() == 4);
  CHECK(plan.persistent_bytes == 0);
  CHECK(plan.slots[1].node == 2);
  CHECK(plan.slots[1].last == 5);  // the product runs with the sum
  CHECK(plan.bytes == 4 * 256);
}

TEST_CASE("plan: its text", "[graph]") {
  const Graph graph = parse_script(R"(
    $1 = InputTensor(x, float32, [3]);
    $2 = BufferTensor(b, float32, [100]);
    $3 = ReLUNode($1);
    $4 = SiLUNode($3);
    result = $4;)");
  CHECK(plan_memory(graph).text(graph) ==
        "$1 InputTensor 'x': bytes 512 to 768, from $1 to the end\n"
        "$2 BufferTensor 'b': bytes 0 to 512, always\n"
        "$3 ReLUNode: bytes 768 to 1024, from $3 to $4\n"
        "$4 SiLUNode: bytes 1024 to 1280, from $4 to the end\n"
        "1280 bytes, 512 of them for constants and buffers; at least 1280 are needed\n");
}
