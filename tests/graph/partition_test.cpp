// Regions: which nodes form one, and that the steps of a region, run by a plain interpreter, give what the nodes give.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <tenon/graph/builder.hpp>
#include <tenon/graph/executable.hpp>
#include <tenon/graph/partition.hpp>
#include <tenon/graph/passes.hpp>
#include <tenon/graph/region_form.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"
#include "graph/run.hpp"

// As README advises: executable_nodes_test.cpp compiles it for all.
extern template class tenon::graph::Executable<tenon::Cpu>;

namespace {

using namespace graph_test;
using namespace tenon::graph;  // NOLINT(google-build-using-namespace)

/// Calls `body(offsets)` for each element of `sizes`, with its offset in each of the tensors that are broadcast to it.
template <class Body>
void for_each_element(const Shape& sizes, const std::vector<const RegionTensor*>& tensors, Body&& body) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  for (std::int64_t index = 0; index < count; ++index) {
    std::vector<std::int64_t> offsets(tensors.size(), 0);
    std::int64_t rest = index;
    for (std::size_t i = sizes.size(); i-- > 0;) {
      for (std::size_t k = 0; k < tensors.size(); ++k) {
        if (tensors[k]->sizes[i] != 1) offsets[k] += rest % sizes[i] * tensors[k]->strides[i];
      }
      rest /= sizes[i];
    }
    body(offsets);
  }
}

/// The steps of a region on memory, values in between in memory of their own, each rounded to T.
template <class T>
void interpret(const RegionForm& form, std::span<std::byte* const> data) {
  std::vector<std::vector<T>> inner(form.steps.size());
  std::vector<T*> values;
  for (std::size_t i = 0; i < form.inputs(); ++i) values.push_back(reinterpret_cast<T*>(data[i]));
  for (std::size_t i = 0; i < form.steps.size(); ++i) {
    std::size_t count = 1;
    for (const std::int64_t size : form.tensors[form.inputs() + i].sizes) count *= static_cast<std::size_t>(size);
    inner[i].resize(count);
    values.push_back(i + 1 < form.steps.size() ? inner[i].data() : reinterpret_cast<T*>(data.back()));
  }
  for (std::size_t i = 0; i < form.steps.size(); ++i) {
    const RegionStep& step = form.steps[i];
    const std::size_t to = form.inputs() + i;
    const RegionTensor& result = form.tensors[to];
    const RegionTensor& x = form.tensors[step.x];
    const RegionTensor& y = form.tensors[step.y];
    if (step.code == RegionCode::matmul) {
      for (std::int64_t b = 0; b < result.sizes[0]; ++b) {
        for (std::int64_t m = 0; m < result.sizes[1]; ++m) {
          for (std::int64_t n = 0; n < result.sizes[2]; ++n) {
            double sum = 0;
            for (std::int64_t k = 0; k < x.sizes[2]; ++k) {
              const T a = values[step.x][b * x.strides[0] + m * x.strides[1] + k * x.strides[2]];
              const T c = values[step.y][b * y.strides[0] + k * y.strides[1] + n * y.strides[2]];
              sum += static_cast<double>(static_cast<float>(a)) * static_cast<double>(static_cast<float>(c));
            }
            values[to][b * result.strides[0] + m * result.strides[1] + n * result.strides[2]] =
                T(static_cast<float>(sum));
          }
        }
      }
      continue;
    }
    for_each_element(result.sizes, {&result, &x, &y}, [&](const std::vector<std::int64_t>& at) {
      const auto a = static_cast<float>(values[step.x][at[1]]);
      const auto b = static_cast<float>(values[step.y][at[2]]);
      float value = 0;
      switch (step.code) {
        case RegionCode::sum: value = a + b; break;
        case RegionCode::hadamard_product: value = a * b; break;
        case RegionCode::relu: value = std::max(a, 0.0f); break;
        default: value = a / (1 + std::exp(-a)); break;
      }
      values[to][at[0]] = T(value);
    });
  }
}

/// Runs all regions by interpretation.
class Interpreter : public SubgraphBackend<Cpu> {
 public:
  std::vector<Subgraph<Cpu>> claim(Context<Cpu>&, const Graph& graph) override {
    const std::vector<Place> places = memory_places(graph);
    std::vector<Subgraph<Cpu>> subgraphs;
    const auto add = [&](const Region& region) {
      const RegionForm form = region_form(graph, places, region);
      ++regions;
      largest = std::max(largest, region.nodes.size());
      if (!region.prologue.empty()) ++prologues;
      Subgraph<Cpu> subgraph;
      subgraph.nodes = region.nodes;
      subgraph.inputs = region.inputs;
      subgraph.run = [this, form](Context<Cpu>&, std::span<std::byte* const> data, std::byte*) {
        std::vector<std::int64_t> alignments;
        for (const RegionTensor& tensor : form.tensors) {
          if (tensor.alignment != 0) alignments.push_back(tensor.alignment);
        }
        is_aligned = is_aligned && alignments.size() == data.size();
        for (std::size_t i = 0; is_aligned && i < data.size(); ++i) {
          is_aligned = reinterpret_cast<std::uintptr_t>(data[i]) % static_cast<std::uintptr_t>(alignments[i]) == 0;
        }
        tenon::graph::detail::visit_float(form.dtype,
                                          [&]<class T>(std::type_identity<T>) { interpret<T>(form, data); });
      };
      subgraphs.push_back(std::move(subgraph));
    };
    for (const Region& region : find_regions(graph)) {
      if (split && !region.prologue.empty()) {
        const auto [prologue, rest] = split_prologue(graph, region);
        add(prologue);
        add(rest);
      } else {
        add(region);
      }
    }
    std::sort(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.output() < b.output(); });
    return subgraphs;
  }

  bool split = false;  ///< whether prologues run on their own
  std::size_t regions = 0;
  std::size_t prologues = 0;
  std::size_t largest = 0;
  bool is_aligned = true;
};

std::string traces(const Graph& graph) {
  std::string text;
  const std::vector<Place> places = memory_places(graph);
  for (const Region& region : find_regions(graph)) {
    text += "$" + std::to_string(region.output() + 1) + ":\n" + region_form(graph, places, region).trace();
  }
  return text;
}

constexpr DType f32 = DType::float32;

}  // namespace

TEST_CASE("graph: a product takes the steps before its first operand and after it, with passes and without",
          "[graph][region]") {
  Builder b;
  const Value gate = b.input("gate", f32, {4, 8});
  const Value up = b.input("up", f32, {4, 8});
  const Value w = b.constant("w", f32, {8, 6});
  const Value residual = b.input("residual", f32, {4, 6});
  const Graph graph = b.finish(matmul(silu(gate) * up, w) + residual);
  const std::string expected =
      "%0 = float32 [1, 4, 8] strides [32, 8, 1] aligned to 16\n"
      "%1 = float32 [1, 4, 8] strides [32, 8, 1] aligned to 16\n"
      "%2 = float32 [1, 8, 6] strides [48, 6, 1] aligned to 16\n"
      "%3 = float32 [1, 4, 6] strides [24, 6, 1] aligned to 16\n"
      "%4 = silu(%0): float32 [1, 4, 8] strides [32, 8, 1]\n"
      "%5 = hadamard_product(%4, %1): float32 [1, 4, 8] strides [32, 8, 1]\n"
      "%6 = matmul(%5, %2): float32 [1, 4, 6] strides [24, 6, 1]\n"
      "%7 = sum(%6, %3): float32 [1, 4, 6] strides [24, 6, 1] aligned to 16\n";
  CHECK(traces(run_passes(graph, PassOptions::none())) == "$8:\n" + expected);
  const Graph fused = run_passes(graph);
  CHECK(traces(fused) == "$6:\n" + expected);

  const std::vector<Region> regions = find_regions(fused);
  REQUIRE(regions.size() == 1);
  CHECK(regions[0].prologue == std::vector<NodeId>{4});
  const auto [prologue, rest] = split_prologue(fused, regions[0]);
  CHECK(prologue.nodes == std::vector<NodeId>{4});
  CHECK(prologue.prologue.empty());
  CHECK(rest.nodes == std::vector<NodeId>{5});
  CHECK(rest.inputs == std::vector<NodeId>{4, 2, 3});
  CHECK(rest.steps == std::vector<RegionStep>{{RegionCode::matmul, 0, 1}, {RegionCode::sum, 3, 2}});
}

TEST_CASE("graph: what is used elsewhere, read by others, or written in between stays out of a region",
          "[graph][region]") {
  Builder b;
  const Value x = b.buffer("x", f32, {4, 4});
  const Value w = b.constant("w", f32, {4, 4});
  const Value n = b.input("n", DType::int64, {1});
  const Value m = b.input("m", DType::int64, {1});
  const auto outputs = [](const Graph& graph) {
    std::vector<std::pair<NodeId, std::size_t>> result;
    for (const Region& region : find_regions(graph)) result.emplace_back(region.output(), region.nodes.size());
    return result;
  };
  using Outputs = std::vector<std::pair<NodeId, std::size_t>>;
  SECTION("used twice") {
    const Value h = relu(x);       // 4
    const Value p = matmul(h, w);  // 5
    const Value y = (p + h) + p;   // 6, 7
    CHECK(outputs(b.finish(y)) == Outputs{{4, 1}, {5, 1}, {7, 2}});
  }
  SECTION("a write between the product's operand and the sum") {
    const Value p = matmul(x, w);                     // 4
    const Value rows = b.input("rows", f32, {1, 4});  // 5
    static_cast<void>(x.replace_slice(rows, n, m));   // 6
    CHECK(outputs(b.finish(relu(p))) == Outputs{{4, 1}, {7, 1}});
  }
  SECTION("a write between a point-wise node and the product") {
    const Value h = x + w;                            // 4
    const Value rows = b.input("rows", f32, {1, 4});  // 5
    static_cast<void>(x.replace_slice(rows, n, m));   // 6
    CHECK(outputs(b.finish(matmul(h, w))) == Outputs{{4, 1}, {7, 1}});
  }
  SECTION("the second operand") { CHECK(outputs(b.finish(matmul(w, relu(x)))) == Outputs{{4, 1}, {5, 1}}); }
  SECTION("a view between") {
    const Value p = matmul(x, w).permute({1, 0});  // 4, 5
    CHECK(outputs(b.finish(relu(p))) == Outputs{{4, 1}, {6, 1}});
  }
  SECTION("complex products, integers and copies") {
    const Value c = b.input("c", f32, {4, 2});
    static_cast<void>(n + m);
    const Value product = complex_multiply(c, c);
    const Graph graph = b.finish(relu(product));
    CHECK(outputs(graph) == Outputs{{7, 1}});
    CHECK(outputs(run_passes(graph)).empty());  // one node with a complex product
    Builder other;
    const Value turned = other.input("x", f32, {4, 4}).permute({1, 0}).reshape({16});
    CHECK(outputs(with_explicit_copies(other.finish(turned))).empty());
  }
  SECTION("a product of the same node") {
    const Value p = matmul(x, w);  // 4
    CHECK(outputs(b.finish(p * p)) == Outputs{{5, 2}});
  }
}

TEST_CASE("graph: equal layers have equal traces; another shape, stride or alignment another one", "[graph][region]") {
  const auto trace = [](const Value& result) {
    const Graph graph = result.builder().finish(result);
    const std::vector<Region> regions = find_regions(graph);
    return region_form(graph, memory_places(graph), regions.back()).trace();
  };
  const auto layer = [&](std::int64_t m, std::int64_t begin, bool transposed) {
    Builder b;
    const Value x = b.input("x", f32, {8, 6}).slice(begin, begin + m);
    const Value w = transposed ? b.constant("w", f32, {5, 6}).permute({1, 0}) : b.constant("w", f32, {6, 5});
    return trace(relu(matmul(x, w)));
  };
  CHECK(layer(2, 0, false) == layer(2, 4, false));
  CHECK(layer(2, 0, false) != layer(3, 0, false));
  CHECK(layer(2, 0, false) != layer(2, 0, true));
  CHECK(layer(2, 0, false) != layer(2, 1, false));  // 24 bytes further
  CHECK(layer(1, 1, false) ==
        "%0 = float32 [1, 1, 6] strides [6, 6, 1] aligned to 8\n"
        "%1 = float32 [1, 6, 5] strides [30, 5, 1] aligned to 16\n"
        "%2 = matmul(%0, %1): float32 [1, 1, 5] strides [5, 5, 1]\n"
        "%3 = relu(%2): float32 [1, 1, 5] strides [5, 5, 1] aligned to 16\n");
}

TEST_CASE("graph: point-wise regions have as few dimensions as their operands allow", "[graph][region]") {
  const auto sizes = [](const Shape& shape, const Shape& other, bool turned = false) {
    Builder b;
    const Value x = b.input("x", DType::bfloat16, shape);
    Value y = b.input("y", DType::bfloat16, other);
    if (turned) y = y.permute({0, 2, 1});
    const Graph graph = b.finish(x * y);
    const std::vector<Region> regions = find_regions(graph);
    REQUIRE(regions.size() == 1);
    const RegionForm form = region_form(graph, memory_places(graph), regions[0]);
    return std::vector<Shape>{form.tensors[0].sizes, form.tensors[1].sizes, form.tensors[2].sizes};
  };
  CHECK(sizes({7}, {1}) == std::vector<Shape>{{1, 1, 7}, {1, 1, 1}, {1, 1, 7}});
  CHECK(sizes({2, 3, 4}, {2, 3, 4}) == std::vector<Shape>{{1, 6, 4}, {1, 6, 4}, {1, 6, 4}});
  CHECK(sizes({2, 3, 4}, {1, 1, 4}) == std::vector<Shape>{{1, 6, 4}, {1, 1, 4}, {1, 6, 4}});
  CHECK(sizes({2, 3, 4}, {1, 3, 4}) == std::vector<Shape>{{1, 2, 12}, {1, 1, 12}, {1, 2, 12}});
  CHECK(sizes({2, 3, 4}, {1, 3, 1}) == std::vector<Shape>{{2, 3, 4}, {1, 3, 1}, {2, 3, 4}});
  CHECK(sizes({2, 1, 4}, {2, 1, 1}) == std::vector<Shape>{{1, 2, 4}, {1, 2, 1}, {1, 2, 4}});
  CHECK(sizes({2, 3, 4}, {2, 4, 3}, true) == std::vector<Shape>{{2, 3, 4}, {2, 3, 4}, {2, 3, 4}});
  CHECK(sizes({2, 3, 4, 5}, {2, 3, 4, 5}) == std::vector<Shape>{{1, 24, 5}, {1, 24, 5}, {1, 24, 5}});
  // The last dimension comes second.
  CHECK(sizes({2, 3, 4, 5}, {1, 3, 1, 5}) == std::vector<Shape>{{2, 5, 3, 4}, {1, 5, 3, 1}, {2, 5, 3, 4}});
}

TEST_CASE("graph: operands of sums and products come in the order that libraries ask for", "[graph][region]") {
  Builder b;
  const Value r = b.input("r", f32, {3, 5});
  const Value p = matmul(b.input("x", f32, {3, 4}), b.input("w", f32, {4, 5}));
  const Graph graph = b.finish(r + p);  // the computed one first
  const RegionForm form = region_form(graph, memory_places(graph), find_regions(graph)[0]);
  CHECK(form.steps == std::vector<RegionStep>{{RegionCode::matmul, 0, 1}, {RegionCode::sum, 3, 2}});
}

TEST_CASE("graph: chains longer than a region become several", "[graph][region]") {
  Builder b;
  Value x = b.input("x", f32, {3});
  for (int i = 0; i < 10000; ++i) x = relu(x);
  const Graph graph = b.finish(x);
  std::size_t nodes = 0;
  for (const Region& region : find_regions(graph)) {
    CHECK(region.nodes.size() <= max_region_nodes);
    nodes += region.nodes.size();
  }
  CHECK(nodes == 10000);
}

TEST_CASE("graph: regions of random graphs give what the nodes give", "[graph][region]") {
  Context<Cpu> ctx(1);
  std::size_t regions = 0;
  std::size_t prologues = 0;
  std::size_t largest = 0;
  for (std::uint32_t seed = 1; seed <= 1500; ++seed) {
    const RandomGraph source(seed);
    const Graph& graph = source.graph();
    const ElementMap constants = source.elements(NodeKind::constant_tensor, seed);
    const ElementMap inputs = source.elements(NodeKind::input_tensor, 1000 * seed);
    Reference reference(graph, constants);
    const Elements expected = reference.evaluate(inputs);
    for (const auto& [passes, split] :
         {std::pair{PassOptions{}, false}, {PassOptions::none(), false}, {PassOptions::none(), true}}) {
      const auto backend = std::make_shared<Interpreter>();
      backend->split = split;
      Executable<Cpu> executable(ctx, graph, to_tensors(ctx, graph, constants),
                                 {.passes = passes, .memory_budget = 0, .backend = backend});
      const AnyTensor& result = executable.evaluate(ctx, to_tensors(ctx, graph, inputs));
      std::string problem = graph_test::mismatch(ctx, result, graph[graph.result()].type, expected);
      for (const Node& node : executable.graph().nodes()) {
        if (node.kind != NodeKind::buffer_tensor || !problem.empty()) continue;
        problem = graph_test::mismatch(ctx, executable.buffer(node.name), node.type, reference.buffer(node.name));
      }
      if (!backend->is_aligned) problem += "; an operand is less aligned than its form says";
      if (!problem.empty()) {
        FAIL("seed " << seed << ": " << problem << "\n"
                     << print(graph) << "becomes\n"
                     << print(executable.graph()) << traces(executable.graph()));
      }
      regions += backend->regions;
      prologues += backend->prologues;
      largest = std::max(largest, backend->largest);
    }
  }
  CAPTURE(regions, prologues, largest);
  CHECK(regions > 3000);
  CHECK(prologues > 50);
  CHECK(largest >= 4);
}
