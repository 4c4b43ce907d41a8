// Graphs whose products and point-wise steps cuDNN runs, against the oracle.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <tenon/graph/builder.hpp>
#include <tenon/graph/cudnn.hpp>
#include <tenon/graph/executable.hpp>
#include <tenon/graph/execution_cuda.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"
#include "graph/run.hpp"
#include "support/cuda.hpp"

namespace {

using namespace graph_test;
using namespace tenon::graph;  // NOLINT(google-build-using-namespace)
using tenon::Cuda;

constexpr DType dtypes[] = {DType::float32, DType::float16, DType::bfloat16};

/// What cuDNN did, for messages.
std::string explain(const CudnnBackend& backend) {
  std::string text;
  for (const CudnnRecord& record : backend.records()) {
    text += record.trace;
    text += record.is_supported ? "runs on engine " + std::to_string(record.engine) + " with " +
                                      std::to_string(record.workspace) + " bytes\n"
                                : "is refused: " + record.reason + "\n";
  }
  return text;
}

/// A backend, and what graphs give with it.
struct Cudnn {
  Context<Cpu> cpu{1};
  Context<Cuda> ctx;
  std::shared_ptr<CudnnBackend> backend;

  explicit Cudnn(const CudnnOptions& options = {}) : backend(std::make_shared<CudnnBackend>(ctx, options)) {}

  /// Empty where three evaluations, the first as calls, the others replayed, agree with the oracle. `scale`: of what the
  /// oracle allows.
  std::string check(const Graph& graph, const PassOptions& passes = {}, double scale = 1) {
    std::mt19937 random(7);
    ElementMap constants;
    for (const Node& node : graph.nodes()) {
      if (node.kind == NodeKind::constant_tensor) constants[node.name] = random_elements(node.type, {}, random);
    }
    Reference reference(graph, constants);
    Executable<Cuda> executable(ctx, graph, to_tensors(cpu, graph, constants), {passes, 0, backend});
    for (int i = 0; i < 3; ++i) {
      ElementMap inputs;
      for (const Node& node : graph.nodes()) {
        if (node.kind == NodeKind::input_tensor) inputs[node.name] = random_elements(node.type, {}, random);
      }
      Elements expected = reference.evaluate(inputs);
      for (Element& element : expected) element.error *= scale;
      const AnyTensor result = executable.evaluate(ctx, to_tensors(cpu, graph, inputs)).cpu(ctx);
      const std::string problem = graph_test::mismatch(cpu, result, graph[graph.result()].type, expected);
      if (problem.empty()) continue;
      return "evaluation " + std::to_string(i) + ": " + problem + "\n" + print(executable.graph()) + explain(*backend);
    }
    return {};
  }
  [[nodiscard]] const CudnnStatistics& statistics() const { return backend->statistics(); }
};

/// gate and up of a feed-forward layer, the product after them, and a residual.
Graph feed_forward(DType dtype, std::int64_t m, std::int64_t n, std::int64_t k) {
  Builder b;
  const auto rows = [&](std::int64_t columns) { return m == 0 ? Shape{columns} : Shape{m, columns}; };
  const Value gate = b.input("gate", dtype, rows(n));
  const Value up = b.input("up", dtype, rows(n));
  const Value w = b.constant("w", dtype, {n, k});
  return b.finish(matmul(silu(gate) * up, w) + b.input("residual", dtype, rows(k)));
}

}  // namespace

TEST_CASE("cudnn: a product with bias and activation", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  for (const DType dtype : dtypes) {
    Builder b;
    const Value x = b.input("x", dtype, {64, 96});
    const Value product = matmul(x, b.constant("w", dtype, {96, 128}));
    const Graph graph = b.finish(relu(product + b.constant("bias", dtype, {1, 128})));
    CHECK(cudnn.check(graph) == "");
  }
  INFO(explain(*cudnn.backend));
  // Engines that do not round float32 to TF32 are few: there cuDNN may refuse.
  CHECK(cudnn.statistics().subgraphs >= 2);
  CHECK(cudnn.statistics().subgraphs + cudnn.statistics().fallbacks == 3);
}

TEST_CASE("cudnn: steps before a product, one row and several, and a residual after it", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  for (const DType dtype : dtypes) {
    for (const std::int64_t m : {0, 1, 48}) {
      CHECK(cudnn.check(feed_forward(dtype, m, 64, 160)) == "");
    }
  }
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().subgraphs >= 6);
  for (const CudnnRecord& record : cudnn.backend->records()) {
    if (!record.is_supported) CHECK_THAT(record.reason, Catch::Matchers::ContainsSubstring("engine"));
  }
}

TEST_CASE("cudnn: TF32 where it is allowed", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn({.allow_tf32 = true});
  CHECK(cudnn.check(feed_forward(DType::float32, 48, 64, 160), {}, 2000) == "");
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().fallbacks == 0);
  CHECK(cudnn.statistics().subgraphs == 1);
}

TEST_CASE("cudnn: batches of products, also of transposed matrices", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  for (const DType dtype : dtypes) {
    Builder b;
    const Value x = b.input("x", dtype, {8, 16, 40});
    const Value w = b.input("w", dtype, {8, 24, 40});
    CHECK(cudnn.check(b.finish(relu(matmul(x, w.permute({0, 2, 1}))))) == "");
    Builder c;
    const Value y = c.input("x", dtype, {8, 16, 40});
    CHECK(cudnn.check(c.finish(matmul(y, c.input("w", dtype, {8, 40, 24})) + c.input("r", dtype, {1, 1, 24}))) == "");
  }
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().subgraphs >= 2);
}

TEST_CASE("cudnn: point-wise steps alone, with broadcasts", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  for (const DType dtype : dtypes) {
    Builder b;
    const Value x = b.input("x", dtype, {64, 96});
    const Value y = b.input("y", dtype, {1, 96});
    const Value z = b.input("z", dtype, {64, 1});
    CHECK(cudnn.check(b.finish(silu(relu(x + y) * z))) == "");
    Builder c;
    CHECK(cudnn.check(c.finish(silu(c.input("x", dtype, {288})) * c.input("y", dtype, {288}))) == "");
    Builder d;
    CHECK(cudnn.check(d.finish(d.input("x", dtype, {2, 3, 4, 8}) + d.input("y", dtype, {1, 3, 1, 8}))) == "");
    Builder e;  // another order of memory, which cuDNN may refuse
    CHECK(cudnn.check(e.finish(e.input("x", dtype, {24, 40}) + e.input("y", dtype, {40, 24}).permute({1, 0}))) == "");
  }
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().subgraphs >= 6);
}

TEST_CASE("cudnn: equal layers compile once", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  const auto layers = [](int count) {
    Builder b;
    Value x = b.input("x", DType::bfloat16, {32, 64});
    for (int i = 0; i < count; ++i) {
      const Value w = b.constant("w" + std::to_string(i), DType::bfloat16, {64, 64});
      x = relu(matmul(x, w));
    }
    return b.finish(x);
  };
  CHECK(cudnn.check(layers(3)) == "");
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().subgraphs == 3);
  CHECK(cudnn.statistics().plans == 1);
  CHECK(cudnn.statistics().hits == 2);
  CHECK(cudnn.backend->traces().size() == 1);
  CHECK(cudnn.check(layers(2)) == "");  // in another graph
  CHECK(cudnn.statistics().plans == 1);
  CHECK(cudnn.statistics().hits == 4);
}

TEST_CASE("cudnn: what it has no operation for stays with tenon, and is counted", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  Builder b;
  const Value x = b.input("x", DType::float32, {6, 2});
  CHECK(cudnn.check(b.finish(relu(complex_multiply(x, x)))) == "");
  CHECK(cudnn.statistics().subgraphs == 0);
  CHECK(cudnn.statistics().fallbacks == 0);
  CHECK(cudnn.statistics().not_expressible == 1);
}

TEST_CASE("cudnn: a limit of scratch memory is kept", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn({.workspace_bytes = 0});
  CHECK(cudnn.check(feed_forward(DType::bfloat16, 1, 64, 160)) == "");
  CHECK(cudnn.statistics().largest_workspace == 0);
}

TEST_CASE("cudnn: executables outlive their backend, and share it", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Context<Cpu> cpu(1);
  Context<Cuda> ctx;
  auto backend = std::make_shared<CudnnBackend>(ctx);
  Builder b;
  const Graph graph = b.finish(relu(b.input("x", DType::float32, {4, 8})));
  Executable<Cuda> first(ctx, graph, {}, {{}, 0, backend});
  Executable<Cuda> second(ctx, graph, {}, {{}, 0, backend});
  CHECK(backend->statistics().hits == 1);
  backend.reset();
  const TensorMap inputs = to_tensors(cpu, graph, {{"x", Elements(32, Element{-1, 0, 0})}});
  for (int i = 0; i < 3; ++i) {
    for (Executable<Cuda>* executable : {&first, &second}) {
      const AnyTensor result = executable->evaluate(ctx, inputs).cpu(ctx);
      CHECK(graph_test::mismatch(cpu, result, graph[graph.result()].type, Elements(32)) == "");
    }
  }
}

TEST_CASE("cudnn: random graphs give what their statements say", "[cudnn]") {
  TENON_NEEDS_CUDA();
  Cudnn cudnn;
  Context<Cpu>& cpu = cudnn.cpu;
  // Each shape costs a second of compiling.
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    const RandomGraph source(seed);
    const Graph& graph = source.graph();
    const ElementMap constants = source.elements(NodeKind::constant_tensor, seed);
    Reference reference(graph, constants);
    Executable<Cuda> executable(cudnn.ctx, graph, to_tensors(cpu, graph, constants), {{}, 0, cudnn.backend});
    for (std::uint32_t i = 0; i < 3; ++i) {
      const ElementMap inputs = source.elements(NodeKind::input_tensor, 1000 * seed + i);
      const Elements expected = reference.evaluate(inputs);
      const AnyTensor result = executable.evaluate(cudnn.ctx, to_tensors(cpu, graph, inputs)).cpu(cudnn.ctx);
      const std::string problem = graph_test::mismatch(cpu, result, graph[graph.result()].type, expected);
      if (!problem.empty()) FAIL("seed " << seed << ": " << problem << "\n" << print(executable.graph()));
    }
  }
  INFO(explain(*cudnn.backend));
  CHECK(cudnn.statistics().subgraphs > 0);
}

TEST_CASE("cudnn: without a device, starting says so", "[cudnn][no-device]") {
  if (tenon::Runtime<Cuda>::device_count() > 0) SKIP("there is a CUDA device");
  CHECK_THAT(support::message_of([] { const tenon::detail::CudnnHandle handle(0); }),
             Catch::Matchers::StartsWith("cuda: "));
}

TEST_CASE("cudnn: descriptors say what cuDNN does not take", "[cudnn]") {
  using tenon::detail::CudnnDescriptor;
  CudnnDescriptor tensor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const std::vector<std::int64_t> sizes{1, 2, 3};
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_DATA_FLOAT);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(sizes));
  std::string reason;
  CHECK_FALSE(tensor.try_finalize("describing a tensor", reason));  // no strides, no id
  CHECK_THAT(reason, Catch::Matchers::StartsWith("describing a tensor: CUDNN_STATUS_BAD_PARAM"));
  CHECK_THROWS_AS(tensor.finalize("describing a tensor"), tenon::CudnnError);
  CHECK_THROWS_AS(tensor.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT), tenon::DeviceError);
}
