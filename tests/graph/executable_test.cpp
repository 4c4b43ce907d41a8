// Executables: what they take and refuse, what they keep, and how deep graphs may be.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <tenon/graph/builder.hpp>
#include <tenon/graph/executable.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/graph/script.hpp>
#include <tenon/tensor/create.hpp>

#include "graph/random_graph.hpp"
#include "graph/run.hpp"

// As README advises: executable_nodes_test.cpp compiles it for all.
extern template class tenon::graph::Executable<tenon::Cpu>;

namespace {

std::atomic<std::int64_t> allocations{0};

/// Null where there is no memory.
void* try_allocation(std::size_t size, std::size_t alignment) noexcept {
  ++allocations;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size == 0 ? 1 : size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}
void* count_allocation(std::size_t size, std::size_t alignment) {
  void* const memory = try_allocation(size, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: compilers would warn of memory from new that is given to free.
[[gnu::noinline]] void release(void* memory) noexcept { std::free(memory); }

}  // namespace

void* operator new(std::size_t size) { return count_allocation(size, 1); }
void* operator new[](std::size_t size) { return count_allocation(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return count_allocation(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment) {
  return count_allocation(size, static_cast<std::size_t>(alignment));
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return try_allocation(size, 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return try_allocation(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocation(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return try_allocation(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { release(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { release(memory); }

namespace {

using namespace graph_test;
using Catch::Matchers::ContainsSubstring;
using tenon::graph::Builder;
using tenon::graph::CompileOptions;
using tenon::graph::parse_script;
using tenon::graph::Value;

AnyTensor floats(Context<Cpu>& ctx, std::vector<std::int64_t> sizes, const std::vector<float>& values) {
  AnyTensor tensor = AnyTensor::empty(ctx, DType::float32, std::move(sizes));
  tensor.load(ctx, std::as_bytes(std::span<const float>(values)));
  return tensor;
}
AnyTensor wholes(Context<Cpu>& ctx, std::vector<std::int64_t> sizes, const std::vector<std::int64_t>& values) {
  AnyTensor tensor = AnyTensor::empty(ctx, DType::int64, std::move(sizes));
  tensor.load(ctx, std::as_bytes(std::span<const std::int64_t>(values)));
  return tensor;
}
AnyTensor whole(Context<Cpu>& ctx, std::int64_t value) { return wholes(ctx, {1}, {value}); }

std::vector<float> values_of(Context<Cpu>& ctx, const AnyTensor& tensor) {
  const std::vector<std::byte> bytes = bytes_of(ctx, tensor);
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

template <class Exception, class Body>
std::string error_of(Body&& body) {
  try {
    body();
  } catch (const tenon::Error& error) {
    const bool expected = dynamic_cast<const Exception*>(&error) != nullptr;
    return (expected ? "" : "another class: ") + std::string(error.what());
  }
  return "no error";
}

/// result = relu(x @ w + b)
constexpr const char* layer = R"(
$1 = InputTensor(x, float32, [2, 3]);
$2 = ConstantTensor(w, float32, [3, 2]);
$3 = ConstantTensor(b, float32, [1, 2]);
$4 = MatMulNode($1, $2);
$5 = SumNode($4, $3);
$6 = ReLUNode($5);
result = $6;
)";

TensorMap layer_constants(Context<Cpu>& ctx) {
  return {{"w", floats(ctx, {3, 2}, {1, 0, 0, 1, 1, 1})}, {"b", floats(ctx, {1, 2}, {0.5F, -20})}};
}

/// Rows that are written at `begin`, then a softmax over the first `prefix` of each row.
constexpr const char* cache = R"(
$1 = InputTensor(rows, float32, [1, 2]);
$2 = InputTensor(begin, int64, [1]);
$3 = InputTensor(end, int64, [1]);
$4 = InputTensor(prefix, int64, [1]);
$5 = BufferTensor(rows_so_far, float32, [3, 2]);
$6 = ReplaceSliceNode($5, $1, $2, $3);
$7 = SlicedSoftmaxNode($6, $4);
result = $7;
)";

TensorMap cache_inputs(Context<Cpu>& ctx, const std::vector<float>& rows, std::int64_t begin, std::int64_t end,
                       std::int64_t prefix) {
  return {{"rows", floats(ctx, {1, 2}, rows)},
          {"begin", whole(ctx, begin)},
          {"end", whole(ctx, end)},
          {"prefix", whole(ctx, prefix)}};
}

}  // namespace

TEST_CASE("executable: a layer, by evaluate and by input, run and result", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> executable(ctx, parse_script(layer), layer_constants(ctx));
  CHECK(executable.steps() == 1);
  CHECK(executable.bytes() >= executable.plan().bytes);
  const std::vector<float> expected{4.5F, 0, 10.5F, 0};
  const AnyTensor& result = executable.evaluate(ctx, {{"x", floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6})}});
  CHECK(result.sizes() == std::vector<std::int64_t>{2, 2});
  CHECK(values_of(ctx, result) == expected);
  CHECK(&result == &executable.result());

  executable.input("x").load(ctx, std::as_bytes(std::span<const float>(std::vector<float>{1, 2, 3, 4, 5, 6})));
  for (int i = 0; i < 3; ++i) {  // the input keeps its elements
    executable.run(ctx);
    CHECK(values_of(ctx, executable.result()) == expected);
  }
  Context<Cpu> other(2);
  executable.run(other);
  CHECK(values_of(ctx, executable.result()) == expected);
  CHECK(error_of<tenon::ValueError>([&] { static_cast<void>(executable.input("y")); }) ==
        "graph: there is no input 'y'");
  CHECK(error_of<tenon::ValueError>([&] { static_cast<void>(executable.input("w")); }) ==
        "graph: there is no input 'w'");
}

TEST_CASE("executable: inputs keep their elements where memory is reused", "[graph]") {
  Builder b;
  Value x = b.input("x", DType::float32, {8, 8});
  const Value w = b.input("w", DType::float32, {8, 8});
  for (int i = 0; i < 6; ++i) x = relu(matmul(x, w));
  Context<Cpu> ctx(1);
  for (const auto& [name, passes] : pass_settings()) {
    Executable<Cpu> executable(ctx, b.finish(x), {}, {.passes = passes});
    std::mt19937 random(1);
    const Elements elements = random_elements({DType::float32, {8, 8}}, {}, random);
    const AnyTensor tensor = to_tensor(ctx, {DType::float32, {8, 8}}, elements);
    const std::vector<float> expected = values_of(ctx, executable.evaluate(ctx, {{"x", tensor}, {"w", tensor}}));
    executable.run(ctx);
    CAPTURE(name);
    CHECK(values_of(ctx, executable.result()) == expected);
    CHECK(values_of(ctx, executable.input("x")) == values_of(ctx, tensor));
    CHECK(values_of(ctx, executable.input("w")) == values_of(ctx, tensor));
  }
}

TEST_CASE("executable: constants and inputs that do not fit are named", "[graph]") {
  Context<Cpu> ctx(1);
  const Graph graph = parse_script(layer);
  const TensorMap good = layer_constants(ctx);
  const auto compile = [&](const TensorMap& constants, std::size_t budget = 0) {
    return [&ctx, &graph, constants, budget] {
      Executable<Cpu> executable(ctx, graph, constants, {.memory_budget = budget});
    };
  };
  TensorMap constants = good;
  constants.erase("b");
  CHECK(error_of<tenon::ValueError>(compile(constants)) == "compile: constant 'b' is missing");
  constants = good;
  constants["c"] = floats(ctx, {1}, {1});
  CHECK(error_of<tenon::ValueError>(compile(constants)) == "compile: the graph has no constant 'c'");
  constants = good;
  constants["x"] = floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  CHECK(error_of<tenon::ValueError>(compile(constants)) == "compile: the graph has no constant 'x'");
  constants = good;
  constants["b"] = floats(ctx, {2}, {1, 2});
  CHECK(error_of<tenon::ShapeError>(compile(constants)) ==
        "compile: constant 'b' is float32 [2], but the graph has float32 [1, 2]");
  constants["b"] = wholes(ctx, {1, 2}, {1, 2});
  CHECK(error_of<tenon::DTypeError>(compile(constants)) ==
        "compile: constant 'b' is int64 [1, 2], but the graph has float32 [1, 2]");

  Executable<Cpu> executable(ctx, graph, good);
  const AnyTensor x = floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto evaluate = [&](const TensorMap& inputs) {
    return [&ctx, &executable, inputs] { executable.evaluate(ctx, inputs); };
  };
  const std::vector<float> before = values_of(ctx, executable.evaluate(ctx, {{"x", x}}));
  CHECK(error_of<tenon::ValueError>(evaluate({})) == "evaluate: input 'x' is missing");
  CHECK(error_of<tenon::ValueError>(evaluate({{"x", x}, {"y", x}})) == "graph: there is no input 'y'");
  CHECK(error_of<tenon::ValueError>(evaluate({{"x", x}, {"w", good.at("w")}})) == "graph: there is no input 'w'");
  CHECK(error_of<tenon::ShapeError>(evaluate({{"x", x.permute({1, 0})}})) ==
        "evaluate: input 'x' is float32 [3, 2], but the graph has float32 [2, 3]");
  CHECK(error_of<tenon::DTypeError>(evaluate({{"x", wholes(ctx, {2, 3}, {1, 2, 3, 4, 5, 6})}})) ==
        "evaluate: input 'x' is int64 [2, 3], but the graph has float32 [2, 3]");
  executable.run(ctx);
  CHECK(values_of(ctx, executable.result()) == before);  // nothing of the refused ones was taken
}

TEST_CASE("executable: an unused constant must be given, and an unused input too", "[graph]") {
  Context<Cpu> ctx(1);
  const Graph graph = parse_script(
      "$1 = InputTensor(x, float32, [1]); $2 = InputTensor(y, float32, [1]); $3 = ConstantTensor(c, float32, [1]);"
      "result = $1;");
  const auto compile = [&] { Executable<Cpu> executable(ctx, graph, {}); };
  CHECK(error_of<tenon::ValueError>(compile) == "compile: constant 'c' is missing");
  const AnyTensor one = floats(ctx, {1}, {1});
  Executable<Cpu> executable(ctx, graph, {{"c", one}});
  CHECK(error_of<tenon::ValueError>([&] {
          executable.evaluate(ctx, {{"x", one}});
        }) == "evaluate: input 'y' is missing");
  CHECK(values_of(ctx, executable.evaluate(ctx, {{"x", one}, {"y", one}})) == std::vector<float>{1});
}

TEST_CASE("executable: a graph without a result is refused", "[graph]") {
  Context<Cpu> ctx(1);
  Builder b;
  b.input("x", DType::float32, {1});
  CHECK(error_of<tenon::ValueError>([&] { Executable<Cpu> executable(ctx, b.graph(), {}); }) ==
        "graph: no result was set");
  CHECK(error_of<tenon::ValueError>([&] { Executable<Cpu> executable(ctx, Graph(), {}); }) ==
        "graph: no result was set");
}

TEST_CASE("executable: the memory budget holds before anything is allocated", "[graph]") {
  Context<Cpu> ctx(1);
  // Far more than any machine has, so that an allocation would fail in another way.
  const Graph graph = parse_script("$1 = BufferTensor(b, float32, [1000000, 1000000, 1000]); result = $1;");
  const auto compile = [&] { Executable<Cpu> executable(ctx, graph, {}, {.memory_budget = std::size_t{1} << 30}); };
  CHECK(error_of<tenon::Error>(compile) ==
        "compile: the graph needs 4000000000000000 bytes, 4000000000000000 of them for constants and buffers, and the "
        "budget is 1073741824");

  const Graph small = parse_script(layer);
  Executable<Cpu> executable(ctx, small, layer_constants(ctx));
  const std::size_t needed = executable.bytes();
  CHECK_NOTHROW(Executable<Cpu>(ctx, small, layer_constants(ctx), {.memory_budget = needed}));
  CHECK_THROWS_AS(Executable<Cpu>(ctx, small, layer_constants(ctx), {.memory_budget = needed - 1}), tenon::Error);
}

TEST_CASE("executable: constants are used where they are, or copied", "[graph]") {
  Context<Cpu> ctx(1);
  const Graph graph = parse_script(layer);
  TensorMap constants = layer_constants(ctx);
  const AnyTensor x = floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  Executable<Cpu> shared(ctx, graph, constants);
  CHECK(shared.plan().persistent_bytes == 0);
  const std::vector<float> expected = values_of(ctx, shared.evaluate(ctx, {{"x", x}}));
  constants["w"] = floats(ctx, {2, 3}, {1, 0, 1, 0, 1, 1}).permute({1, 0});
  Executable<Cpu> copied(ctx, graph, constants);
  CHECK(copied.plan().persistent_bytes == tenon::graph::MemoryPlan::alignment);
  constants.clear();  // what is shared lives on
  CHECK(values_of(ctx, copied.evaluate(ctx, {{"x", x}})) == expected);
  CHECK(values_of(ctx, shared.evaluate(ctx, {{"x", x}})) == expected);
}

TEST_CASE("executable: inputs of any strides", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> executable(ctx, parse_script(layer), layer_constants(ctx));
  const std::vector<float> expected{4.5F, 0, 10.5F, 0};
  CHECK(values_of(ctx, executable.evaluate(ctx, {{"x", floats(ctx, {3, 2}, {1, 4, 2, 5, 3, 6}).permute({1, 0})}})) ==
        expected);
  const AnyTensor wide = floats(ctx, {2, 6}, {1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9});
  CHECK(values_of(ctx, executable.evaluate(ctx, {{"x", wide.slice(1, 0, 6, 2)}})) == expected);
}

TEST_CASE("executable: buffers are kept, read, and set back", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> executable(ctx, parse_script(cache), {});
  CHECK(values_of(ctx, executable.buffer("rows_so_far")) == std::vector<float>(6, 0.0F));
  executable.evaluate(ctx, cache_inputs(ctx, {1, 2}, 0, 1, 0));
  CHECK(values_of(ctx, executable.result()) == std::vector<float>{1, 2, 0, 0, 0, 0});
  executable.evaluate(ctx, cache_inputs(ctx, {3, 4}, 2, 3, 1));
  CHECK(values_of(ctx, executable.result()) == std::vector<float>{1, 2, 1, 0, 1, 4});
  CHECK(values_of(ctx, executable.buffer("rows_so_far")) == std::vector<float>{1, 2, 0, 0, 3, 4});
  executable.reset_buffers(ctx);
  CHECK(values_of(ctx, executable.buffer("rows_so_far")) == std::vector<float>(6, 0.0F));
  for (const char* name : {"rows", "nothing"}) {
    CHECK(error_of<tenon::ValueError>([&] { static_cast<void>(executable.buffer(name)); }) ==
          "graph: there is no buffer '" + std::string(name) + "'");
  }
}

TEST_CASE("executable: a place or prefix out of range names its inputs and changes no buffer", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> executable(ctx, parse_script(cache), {});
  executable.evaluate(ctx, cache_inputs(ctx, {1, 2}, 1, 2, 2));
  const std::vector<float> before{0, 0, 1, 2, 0, 0};
  struct Case {
    std::int64_t begin, end, prefix;
    const char* text;
  };
  constexpr std::int64_t most = INT64_MAX;
  const std::vector<Case> cases{
      {-1, 0, 1, "replace_slice: [-1, 0) does not name 1 rows of 3"},
      {3, 4, 1, "replace_slice: [3, 4) does not name 1 rows of 3"},
      {1, 1, 1, "replace_slice: [1, 1) does not name 1 rows of 3"},
      {0, 2, 1, "replace_slice: [0, 2) does not name 1 rows of 3"},
      {1, 0, 1, "replace_slice: [1, 0) does not name 1 rows of 3"},
      {most, most, 1, "replace_slice: [9223372036854775807, 9223372036854775807) does not name 1 rows of 3"},
      {INT64_MIN, most, 1, "replace_slice: [-9223372036854775808, 9223372036854775807) does not name 1 rows of 3"},
      {0, 1, 3, "sliced_softmax: prefix is 3, not within 0 and the 2 columns"},
      {0, 1, -1, "sliced_softmax: prefix is -1, not within 0 and the 2 columns"}};
  for (const Case& wrong : cases) {
    CAPTURE(wrong.begin, wrong.end, wrong.prefix);
    const std::string inputs = wrong.text[0] == 'r' ? "inputs 'begin' and 'end'" : "input 'prefix'";
    CHECK(error_of<tenon::ValueError>([&] {
            executable.evaluate(ctx, cache_inputs(ctx, {7, 8}, wrong.begin, wrong.end, wrong.prefix));
          }) == wrong.text + (", given by the " + inputs));
    CHECK(values_of(ctx, executable.buffer("rows_so_far")) == before);
  }
  executable.evaluate(ctx, cache_inputs(ctx, {7, 8}, 0, 1, 0));  // and it goes on
  CHECK(values_of(ctx, executable.buffer("rows_so_far")) == std::vector<float>{7, 8, 1, 2, 0, 0});
}

TEST_CASE("executable: a place that is computed is checked where it is used", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> executable(ctx, parse_script(R"(
    $1 = InputTensor(x, int64, [1]);
    $2 = ConstantTensor(one, int64, [1]);
    $3 = SumNode($1, $2);
    $4 = BufferTensor(b, int64, [3]);
    $5 = ReplaceSliceNode($4, $2, $1, $3);
    $6 = SumNode($3, $2);
    $7 = ReplaceSliceNode($4, $2, $3, $6);
    result = $7;)"),
                             {{"one", whole(ctx, 1)}});
  CHECK(error_of<tenon::ValueError>([&] {
          executable.evaluate(ctx, {{"x", whole(ctx, 3)}});
        }) == "replace_slice: [3, 4) does not name 1 rows of 3");
  CHECK(bytes_of(ctx, executable.buffer("b")) == bytes_of(ctx, wholes(ctx, {3}, {0, 0, 0})));
  executable.evaluate(ctx, {{"x", whole(ctx, 1)}});
  CHECK(bytes_of(ctx, executable.result()) == bytes_of(ctx, wholes(ctx, {3}, {0, 1, 1})));
}

TEST_CASE("executable: a prefix that the graph itself writes is checked when it is there", "[graph]") {
  Context<Cpu> ctx(1);
  // The input says 9, which is out of range, and the graph replaces it by 1.
  const Graph graph = parse_script(R"(
    $1 = InputTensor(prefix, int64, [1]);
    $2 = ConstantTensor(zero, int64, [1]);
    $3 = ConstantTensor(one, int64, [1]);
    $4 = ReplaceSliceNode($1, $3, $2, $3);
    $5 = InputTensor(x, float32, [2]);
    $6 = SlicedSoftmaxNode($5, $1);
    result = $6;)");
  for (const auto& [name, passes] : pass_settings()) {
    CAPTURE(name);
    Executable<Cpu> executable(ctx, graph, {{"zero", whole(ctx, 0)}, {"one", whole(ctx, 1)}}, {.passes = passes});
    executable.evaluate(ctx, {{"prefix", whole(ctx, 9)}, {"x", floats(ctx, {2}, {5, 6})}});
    CHECK(values_of(ctx, executable.result()) == std::vector<float>{1, 6});
  }
}

TEST_CASE("executable: results that are tensors or views of them", "[graph]") {
  Context<Cpu> ctx(1);
  const AnyTensor x = floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  for (const auto& [name, passes] : pass_settings()) {
    CAPTURE(name);
    Executable<Cpu> input(ctx, parse_script("$1 = InputTensor(x, float32, [2, 3]); result = $1;"), {},
                          {.passes = passes});
    CHECK(values_of(ctx, input.evaluate(ctx, {{"x", x}})) == std::vector<float>{1, 2, 3, 4, 5, 6});
    Executable<Cpu> constant(
        ctx, parse_script("$1 = ConstantTensor(x, float32, [2, 3]); $2 = PermuteNode($1, [1, 0]); result = $2;"),
        {{"x", x}}, {.passes = passes});
    CHECK(values_of(ctx, constant.evaluate(ctx, {})) == std::vector<float>{1, 4, 2, 5, 3, 6});
    CHECK(constant.result().sizes() == std::vector<std::int64_t>{3, 2});
    CHECK(constant.steps() == 1);  // the copy that the caller may write into
    Executable<Cpu> rows(
        ctx,
        parse_script("$1 = InputTensor(x, float32, [2, 3]); $2 = SumNode($1, $1); $3 = SliceNode($2, 1, 2);"
                     "result = $3;"),
        {}, {.passes = passes});
    CHECK(values_of(ctx, rows.evaluate(ctx, {{"x", x}})) == std::vector<float>{8, 10, 12});
  }
}

TEST_CASE("executable: a second thread that evaluates meanwhile is refused", "[graph]") {
  Context<Cpu> ctx(1);
  Builder b;
  const Value x = b.input("x", DType::float32, {256, 256});
  Value y = x;
  for (int i = 0; i < 8; ++i) y = matmul(y, x);
  Executable<Cpu> executable(ctx, b.finish(y), {});
  const AnyTensor zeros = tenon::zeros<float>(ctx, {256, 256});
  std::atomic<bool> stop{false};
  std::thread other([&] {
    Context<Cpu> own(1);
    while (!stop) {
      try {
        executable.evaluate(own, {{"x", zeros}});
      } catch (const tenon::ValueError&) {
        // Refused, as the first thread may be.
      }
    }
  });
  std::string text;
  while (text.empty()) {
    try {
      executable.run(ctx);
    } catch (const tenon::ValueError& error) {
      text = error.what();
    }
  }
  stop = true;
  other.join();
  CHECK(text == "graph: this executable is being evaluated by another thread; compile one for each thread");
  CHECK_NOTHROW(executable.run(ctx));
}

TEST_CASE("executable: executables that share constants run in threads of their own", "[graph]") {
  Context<Cpu> ctx(1);
  const TensorMap constants = layer_constants(ctx);
  const AnyTensor x = floats(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      Context<Cpu> own(1);
      Executable<Cpu> executable(own, parse_script(layer), constants);
      for (int i = 0; i < 100; ++i) {
        const AnyTensor& result = executable.evaluate(own, {{"x", x}});
        good += values_of(own, result) == std::vector<float>{4.5F, 0, 10.5F, 0} ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(good == 400);
}

TEST_CASE("executable: evaluating allocates nothing", "[graph]") {
  for (const int threads : {1, 2}) {
    Context<Cpu> ctx(threads);
    std::int64_t measured = 0;
    for (std::uint32_t seed = 1; measured < 200; ++seed) {
      const RandomGraph source(seed);
      Executable<Cpu> executable(ctx, source.graph(),
                                 to_tensors(ctx, source.graph(), source.elements(NodeKind::constant_tensor, seed)));
      const TensorMap inputs = to_tensors(ctx, source.graph(), source.elements(NodeKind::input_tensor, seed));
      executable.evaluate(ctx, inputs);  // scratch memory of the context gets its size
      const std::int64_t before = allocations;
      executable.evaluate(ctx, inputs);
      executable.run(ctx);
      const std::int64_t after = allocations;
      CAPTURE(seed, threads, print(executable.graph()));
      CHECK(after == before);
      ++measured;
    }
  }
}

TEST_CASE("executable: graphs 10,000 nodes deep", "[graph]") {
  constexpr int depth = 10000;
  Context<Cpu> ctx(1);
  const AnyTensor one = floats(ctx, {1, 2}, {1, 1});
  const auto compare = [&](const Graph& graph, const TensorMap& inputs, const std::vector<float>& expected) {
    for (const PassOptions& passes : {PassOptions{}, PassOptions::none()}) {
      Executable<Cpu> executable(ctx, graph, {}, {.passes = passes});
      CHECK(values_of(ctx, executable.evaluate(ctx, inputs)) == expected);
    }
  };
  SECTION("sums") {
    Builder b;
    const Value x = b.input("x", DType::float32, {1, 2});
    Value y = x;
    for (int i = 0; i < depth; ++i) y = y + x;
    compare(b.finish(y), {{"x", one}}, {depth + 1, depth + 1});
  }
  SECTION("activations of sums that are used twice") {
    Builder b;
    Value y = b.input("x", DType::float32, {1, 2});
    const Value minus = b.input("minus", DType::float32, {1, 1});
    for (int i = 0; i < depth / 2; ++i) y = relu(y + y * minus);
    compare(b.finish(y), {{"x", one}, {"minus", floats(ctx, {1, 1}, {-1})}}, {0, 0});
  }
  SECTION("views") {
    Builder b;
    const Value x = b.input("x", DType::float32, {1, 2});
    Value y = x;
    for (int i = 0; i < depth / 2; ++i) y = y.permute({1, 0}).reshape({1, 2});
    compare(b.finish(y), {{"x", floats(ctx, {1, 2}, {3, 4})}}, {3, 4});
    Value z = x;
    for (int i = 0; i < depth; ++i) z = z.slice(0, 1);
    compare(b.finish(z), {{"x", floats(ctx, {1, 2}, {3, 4})}}, {3, 4});
  }
  SECTION("writes") {
    Builder b;
    const Value x = b.input("x", DType::float32, {1, 2});
    const Value begin = b.input("begin", DType::int64, {1});
    const Value end = b.input("end", DType::int64, {1});
    Value y = b.buffer("y", DType::float32, {2, 2});
    for (int i = 0; i < depth; ++i) y = y.replace_slice(x, begin, end);
    compare(b.finish(y), {{"x", one}, {"begin", whole(ctx, 1)}, {"end", whole(ctx, 2)}}, {0, 0, 1, 1});
  }
  SECTION("products") {
    Builder b;
    const Value w = b.input("w", DType::float32, {2, 2});
    Value y = b.input("x", DType::float32, {1, 2});
    for (int i = 0; i < depth; ++i) y = matmul(y, w);
    compare(b.finish(y), {{"x", floats(ctx, {1, 2}, {3, 4})}, {"w", floats(ctx, {2, 2}, {0, 1, 1, 0})}}, {3, 4});
  }
}

TEST_CASE("graph: a result that is a part of a constant is a copy of it", "[graph]") {
  Context<Cpu> ctx(1);
  tenon::graph::Builder b;
  const Graph network = b.finish(b.constant("w", tenon::DType::float32, {3, 2}).permute({1, 0}).slice(0, 1));
  const auto w = tenon::from_list<float>(ctx, {3, 2}, {1, 2, 3, 4, 5, 6});
  AnyTensor result;
  {
    Executable<Cpu> executable(ctx, network, {{"w", w}});
    result = executable.evaluate(ctx, {});
  }
  const auto elements = result.as<float, 2>();  // the executable is gone, and its memory is not
  CHECK((elements(0, 0) == 1 && elements(0, 1) == 3 && elements(0, 2) == 5));
  elements(0, 0) = 9;
  CHECK(w(0, 0) == 1);
}

TEST_CASE("graph: tensors that together exceed the address space are refused before anything is allocated", "[graph]") {
  Context<Cpu> ctx(1);
  tenon::graph::Builder b;
  const auto zero = b.input("zero", tenon::DType::int64, {1});
  const auto one = b.input("one", tenon::DType::int64, {1});
  auto sum = b.input("row", tenon::DType::float32, {1, 1073741823});
  for (const char* name : {"a", "b", "c", "d"}) {  // the sum of their bytes would be a small number
    const auto buffer = b.buffer(name, tenon::DType::float32, {1073741824, 1073741823});
    sum = sum + buffer.replace_slice(sum, zero, one).slice(0, 1);
  }
  const auto rest = b.buffer("rest", tenon::DType::float32, {4294967296});
  const Graph network = b.finish(sum + rest.slice(0, 1073741823).reshape({1, 1073741823}));
  CHECK_THROWS_AS(Executable<Cpu>(ctx, network, {}, {.passes = {}, .memory_budget = 1 << 20, .backend = {}}),
                  tenon::Error);
}

TEST_CASE("graph: a place that lies in the memory that is written is read before it", "[graph]") {
  Context<Cpu> ctx(1);
  tenon::graph::Builder b;
  const auto s = b.buffer("s", tenon::DType::int64, {6});
  const auto rows = b.input("rows", tenon::DType::int64, {3});
  const auto zero = b.input("zero", tenon::DType::int64, {1});
  const auto three = b.input("three", tenon::DType::int64, {1});
  const auto filled = s.replace_slice(rows, zero, three);
  const Graph network = b.finish(filled.replace_slice(rows, filled.slice(0, 1), filled.slice(1, 2)));
  Executable<Cpu> executable(ctx, network, {});
  const auto whole = [&](std::int64_t value) { return tenon::full<std::int64_t>(ctx, {1}, value); };
  const auto given = tenon::from_list<std::int64_t>(ctx, {3}, {1, 4, 7});
  const auto result =
      executable.evaluate(ctx, {{"rows", given}, {"zero", whole(0)}, {"three", whole(3)}}).as<const std::int64_t, 1>();
  CHECK((result(0) == 1 && result(1) == 1 && result(2) == 4 && result(3) == 7 && result(4) == 0));
}

TEST_CASE("executable: an input that lies in the memory of another one is refused", "[graph]") {
  Context<Cpu> ctx(1);
  Executable<Cpu> run(ctx, parse_script(R"(
$1 = InputTensor(a, float32, [2]);
$2 = InputTensor(b, float32, [2]);
$3 = InputTensor(at, int64, [1]);
$4 = InputTensor(end, int64, [1]);
$5 = SliceNode($1, 0, 1);
$6 = ReplaceSliceNode($2, $5, $3, $4);
result = $6;
)"),
                      {});
  const AnyTensor a = floats(ctx, {2}, {1, 2});
  const AnyTensor b = floats(ctx, {2}, {3, 4});
  TensorMap inputs{{"a", a}, {"b", b}, {"at", whole(ctx, 1)}, {"end", whole(ctx, 2)}};
  CHECK(values_of(ctx, run.evaluate(ctx, inputs)) == std::vector<float>{3, 1});
  const auto refusal = [&](const char* name, const AnyTensor& tensor) {
    TensorMap changed = inputs;
    changed.insert_or_assign(name, tensor);
    return error_of<tenon::ValueError>([&] { run.evaluate(ctx, changed); });
  };
  CHECK(refusal("a", run.result()) ==
        "evaluate: input 'a' is given a tensor in the memory of input 'b'; give it a copy");
  CHECK(refusal("b", run.input("a")) ==
        "evaluate: input 'b' is given a tensor in the memory of input 'a'; give it a copy");
  inputs.insert_or_assign("b", run.input("b"));  // itself, as the last run left it
  CHECK(values_of(ctx, run.evaluate(ctx, inputs)) == std::vector<float>{3, 1});
}

TEST_CASE("graph: a write into a copy that a reshape of a buffer needs is refused", "[graph]") {
  const auto refusal = [](const char* order) {
    std::string script = R"(
$1 = BufferTensor(kept, float32, [2, 3]);
$3 = ReshapeNode($2, [6]);
$4 = ReshapeNode($3, [3, 2]);
$5 = InputTensor(row, float32, [1, 2]);
$6 = InputTensor(at, int64, [1]);
$7 = InputTensor(end, int64, [1]);
$8 = ReplaceSliceNode($4, $5, $6, $7);
result = $8;
)";
    script.insert(script.find("$3"), "$2 = PermuteNode($1, " + std::string(order) + ");\n");
    Context<Cpu> ctx(1);
    return error_of<tenon::ValueError>([&] { Executable<Cpu>(ctx, parse_script(script), {}); });
  };
  CHECK(refusal("[0, 1]") == "no error");
  CHECK(refusal("[1, 0]") ==
        "graph: $8 = ReplaceSliceNode: the first operand is a copy of 'kept', because a ReshapeNode of it is no view, "
        "and "
        "the buffer would not see the write");
}

TEST_CASE("graph: a program must load all its operands", "[graph]") {
  const auto refusal = [](const char* statement) {
    std::string script = "$1 = InputTensor(a, float32, [2, 2]);\n$2 = InputTensor(b, float32, [2, 2]);\n$3 = ";
    script.append(statement).append(";\nresult = $3;\n");
    return error_of<tenon::ValueError>([&] { static_cast<void>(parse_script(script)); });
  };
  CHECK(refusal("PointwiseNode([0, 1, sum], $1, $2)") == "no error");
  CHECK_THAT(refusal("PointwiseNode([1, relu], $1, $2)"), ContainsSubstring("does not load its operand 0"));
  CHECK_THAT(refusal("PointwiseNode([0, relu], $1, $2)"), ContainsSubstring("takes 1 operands, but there are 2"));
  CHECK_THAT(refusal("MatMulPointwiseNode([1, relu], $1, $2, $1)"), ContainsSubstring("does not load its operand 0"));
}
