// Graphs on CUDA: random ones against the oracle, LLaMA 2 against llama2.c, and what an executable promises.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <tenon/cuda.hpp>
#include <tenon/generate/llama2c_sampler.hpp>
#include <tenon/graph/builder.hpp>
#include <tenon/graph/execution_cuda.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/io/llama2c_graph.hpp>
#include <tenon/text/llama2c_tokenizer.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"
#include "graph/run.hpp"
#include "support/cuda.hpp"
#include "support/temporary_folder.hpp"

namespace {

using namespace graph_test;
using tenon::Cuda;
namespace graph = tenon::graph;

const std::filesystem::path data = std::filesystem::path(TENON_TEST_DATA) / "llama2c";

std::string check(Context<Cpu>& host, Context<Cuda>& ctx, std::uint32_t seed) {
  const RandomGraph source(seed);
  const Graph& network = source.graph();
  const ElementMap constants = source.elements(NodeKind::constant_tensor, seed);
  constexpr std::uint32_t evaluations = 4;  // the second is captured, the others replay it
  std::vector<ElementMap> inputs;
  std::vector<Elements> expected;
  Reference reference(network, constants);
  for (std::uint32_t i = 0; i < evaluations; ++i) {
    inputs.push_back(source.elements(NodeKind::input_tensor, 1000 * seed + i));
    expected.push_back(reference.evaluate(inputs.back()));
  }
  const TensorMap constant_tensors = to_tensors(host, network, constants, seed % 3 != 0);
  for (const bool fused : {true, false}) {
    const graph::PassOptions passes = fused ? graph::PassOptions{} : graph::PassOptions::none();
    Executable<Cuda> executable(ctx, network, constant_tensors, {.passes = passes, .memory_budget = 0, .backend = {}});
    const auto say = [&](const std::string& what) {
      return "seed " + std::to_string(seed) + (fused ? ", all passes: " : ", no passes: ") + what + "\n" +
             print(network) + "becomes\n" + print(executable.graph());
    };
    for (std::uint32_t i = 0; i < evaluations; ++i) {
      const AnyTensor& result = executable.evaluate(ctx, to_tensors(host, network, inputs[i], (seed + i) % 4 != 0));
      const std::string problem =
          graph_test::mismatch(host, result.cpu(ctx), network[network.result()].type, expected[i]);
      if (!problem.empty()) return say("evaluation " + std::to_string(i) + ": " + problem);
    }
    for (const Node& node : executable.graph().nodes()) {
      if (node.kind != NodeKind::buffer_tensor) continue;
      const std::string problem =
          graph_test::mismatch(host, executable.buffer(node.name).cpu(ctx), node.type, reference.buffer(node.name));
      if (!problem.empty()) return say("buffer " + node.name + ": " + problem);
    }
  }
  return {};
}

/// Greedy ids of stories260K after BOS, and all logits.
struct Story {
  std::vector<std::int64_t> ids;
  std::vector<float> logits;
};

Story tell(Context<Cuda>& ctx, tenon::LlamaGraphDecoder<Cuda>& decoder) {
  Story story;
  std::int64_t id = 1;
  while (decoder.length() < decoder.capacity()) {
    const auto logits = decoder.forward(ctx, id);
    story.logits.insert(story.logits.end(), logits.begin(), logits.end());
    id = std::max_element(logits.begin(), logits.end()) - logits.begin();
    if (id == 1) break;
    story.ids.push_back(id);
  }
  return story;
}

}  // namespace

TEST_CASE("graph on CUDA: random graphs give what their statements say", "[cuda][graph]") {
  TENON_NEEDS_CUDA();
  Context<Cpu> host(1);
  Context<Cuda> ctx;
  int failures = 0;
  for (std::uint32_t seed = 1; seed <= 1000 && failures < 3; ++seed) {
    std::string problem;
    try {
      problem = check(host, ctx, seed);
    } catch (const std::exception& error) {
      problem = "seed " + std::to_string(seed) + " throws " + error.what() + "\n" + print(RandomGraph(seed).graph());
    }
    if (problem.empty()) continue;
    ++failures;
    FAIL_CHECK(problem);
  }
}

TEST_CASE("graph on CUDA: LLaMA 2 writes what llama2.c writes, with graphs on and off bit for bit", "[cuda][graph]") {
  TENON_NEEDS_CUDA();
  const tenon::Llama2cCheckpoint checkpoint(data / "stories260K.bin");
  Context<Cuda> ctx;
  auto decoder = tenon::load_llama2c_graph<Cuda>(ctx, checkpoint, 200);
  const Story story = tell(ctx, decoder);
  const tenon::Llama2cTokenizer tokenizer(data / "tok512.bin", 512);
  std::vector<std::int64_t> ids = {1};
  ids.insert(ids.end(), story.ids.begin(), story.ids.end());
  CHECK(tokenizer.decode(ids) + "\n" == tenon_test::slurp(data / "golden" / "run_greedy_empty_n200.txt"));
  const std::string bytes = tenon_test::slurp(data / "golden" / "logits_greedy_empty_n200.f32");
  std::vector<float> expected(bytes.size() / sizeof(float));
  std::memcpy(expected.data(), bytes.data(), bytes.size());
  REQUIRE(expected.size() == story.logits.size());
  float largest = 0.0f;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, std::abs(expected[i] - story.logits[i]));
  CHECK(largest < 1e-3f);

  decoder.reset(ctx);
  CHECK(tell(ctx, decoder).logits == story.logits);
  for (const bool graphs : {true, false}) {
    for (const bool dependent : {true, false}) {
      Context<Cuda> other;
      other.set_graphs(graphs);
      other.set_dependent_launch(dependent);
      auto again = tenon::load_llama2c_graph<Cuda>(other, checkpoint, 200);
      CHECK(tell(other, again).logits == story.logits);
    }
  }
}

TEST_CASE("graph on CUDA: tensors of the device, shared constants, and errors before anything runs", "[cuda][graph]") {
  TENON_NEEDS_CUDA();
  graph::Builder b;
  const auto x = b.input("x", DType::float32, {2, 3});
  const auto row = b.input("row", DType::int64, {1});
  const auto end = b.input("end", DType::int64, {1});
  const auto w = b.constant("w", DType::float32, {3, 4});
  const auto rows = b.buffer("rows", DType::float32, {5, 4});
  const Graph network = b.finish(rows.replace_slice(matmul(x, w), row, end));
  Context<Cpu> host(1);
  Context<Cuda> ctx;
  const auto ones = tenon::full<float>(ctx, {3, 4}, 1.0f);
  Executable<Cuda> shared(ctx, network, {{"w", ones}});
  Executable<Cuda> copied(ctx, network, {{"w", ones.cpu(ctx)}});
  CHECK(shared.bytes() < copied.bytes());
  const auto number = [&](std::int64_t value) { return tenon::full<std::int64_t>(host, {1}, value); };
  for (auto* executable : {&shared, &copied}) {
    for (int round = 0; round < 4; ++round) {
      const auto value = static_cast<float>(round + 1);
      const auto input = tenon::full<float>(ctx, {3, 2}, value).transpose(0, 1);  // on the device, with other strides
      TensorMap inputs{{"x", input}, {"row", number(round)}, {"end", number(round + 2)}};
      if (round == 2) inputs["row"] = tenon::full<std::int64_t>(ctx, {1}, 2);
      executable->evaluate(ctx, inputs);
      const auto result = executable->result().cpu(ctx).as<const float, 2>();
      CHECK(result(round, 0) == 3 * value);
      CHECK(result(round + 1, 3) == 3 * value);
      if (round > 0) CHECK(result(round - 1, 0) == 3 * (value - 1));
    }
    const auto before = executable->buffer("rows").cpu(ctx).as<const float, 2>();
    const auto input = tenon::full<float>(host, {2, 3}, 9.0f);
    CHECK_THROWS_AS(executable->evaluate(ctx, {{"x", input}, {"row", number(4)}, {"end", number(6)}}),
                    tenon::ValueError);
    CHECK_THROWS_AS(executable->evaluate(ctx, {{"x", input}, {"row", number(-1)}, {"end", number(1)}}),
                    tenon::ValueError);
    CHECK_THROWS_AS(executable->evaluate(ctx, {{"x", input}, {"row", number(0)}}), tenon::ValueError);
    const auto after = executable->buffer("rows").cpu(ctx).as<const float, 2>();
    CHECK(after(4, 1) == before(4, 1));
    executable->reset_buffers(ctx);
    CHECK(executable->buffer("rows").cpu(ctx).as<const float, 2>()(4, 1) == 0.0f);
  }
  Executable<Cpu> on_cpu(host, network, {{"w", ones.cpu(ctx)}});
  CHECK_THROWS_AS(
      on_cpu.evaluate(host, {{"x", tenon::full<float>(ctx, {2, 3}, 1.0f)}, {"row", number(0)}, {"end", number(2)}}),
      tenon::DeviceError);
  CHECK_THROWS_AS(Executable<Cuda>(ctx, network, {{"w", ones}}, {.passes = {}, .memory_budget = 64, .backend = {}}),
                  tenon::Error);
}

TEST_CASE("graph on CUDA: an input that lies in the memory of another one is refused", "[cuda][graph]") {
  TENON_NEEDS_CUDA();
  graph::Builder b;
  const auto x = b.input("a", DType::float32, {2});
  const auto y = b.input("b", DType::float32, {2});
  const auto at = b.input("at", DType::int64, {1});
  const auto end = b.input("end", DType::int64, {1});
  Context<Cpu> host(1);
  Context<Cuda> ctx;
  Executable<Cuda> run(ctx, b.finish(y.replace_slice(x.slice(0, 1), at, end)), {});
  const auto number = [&](std::int64_t value) { return tenon::full<std::int64_t>(host, {1}, value); };
  TensorMap inputs{{"a", tenon::from_list<float>(ctx, {2}, {1, 2})},
                   {"b", tenon::from_list<float>(ctx, {2}, {3, 4})},
                   {"at", number(1)},
                   {"end", number(2)}};
  const auto result = [&] { return run.evaluate(ctx, inputs).cpu(ctx).as<const float, 1>(); };
  CHECK(result()(0) == 3);
  CHECK(result()(1) == 1);
  const auto refused = [&](const char* name, const AnyTensor& tensor) {
    TensorMap changed = inputs;
    changed.insert_or_assign(name, tensor);
    CHECK_THROWS_AS(run.evaluate(ctx, changed), tenon::ValueError);
  };
  refused("a", run.result());                  // in the memory of b on the device
  refused("b", run.input("a"));                // and on the host
  inputs.insert_or_assign("b", run.result());  // itself
  CHECK(result()(0) == 3);
  CHECK(result()(1) == 1);
}

TEST_CASE("K11: graph on CUDA: evaluations allocate nothing on the device", "[cuda][graph]") {
  TENON_NEEDS_CUDA();
  const tenon::Llama2cCheckpoint checkpoint(data / "stories260K.bin");
  Context<Cuda> ctx;
  auto decoder = tenon::load_llama2c_graph<Cuda>(ctx, checkpoint, 64);
  for (int i = 0; i < 3; ++i) decoder.forward(ctx, 5);  // loads kernels, captures
  const auto device = ctx.activate();
  const std::size_t free = tenon::Runtime<Cuda>::free_memory();
  for (int i = 0; i < 60; ++i) decoder.forward(ctx, 5);
  CHECK(tenon::Runtime<Cuda>::free_memory() == free);
}
