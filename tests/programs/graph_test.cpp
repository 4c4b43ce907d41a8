// The graph program, run as its users run it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <programs/cuda.hpp>
#include <programs/process.hpp>
#include <support/temporary_folder.hpp>

namespace {

using tenon_test::Finished;
namespace fs = std::filesystem;

Finished graph(std::vector<std::string> arguments, const std::string& output_file = {}) {
  arguments.insert(arguments.begin(), TENON_TEST_PROGRAMS "/graph");
  return tenon_test::run_program(
      arguments, {.input = {}, .output_file = output_file, .environment = {}, .obey_permissions = false});
}

const std::string mnist = TENON_TEST_DATA "/../../examples/graphs/mnist.tg";

constexpr std::string_view layer = R"($1 = InputTensor(x, float32, [2, 3]);
$2 = ConstantTensor(w, float32, [3, 2]);
$3 = MatMulNode($1, $2);
$4 = ReLUNode($3);
result = $4;
)";

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// A .safetensors file with one float32 tensor.
std::string safetensors(const std::string& name, const std::string& shape, const std::vector<float>& values) {
  const std::string data = bytes_of(values);
  const std::string header = "{\"" + name + "\":{\"dtype\":\"F32\",\"shape\":" + shape + ",\"data_offsets\":[0," +
                             std::to_string(data.size()) + "]}}";
  return bytes_of(std::vector<std::uint64_t>{header.size()}) + header + data;
}

void check_refused(const Finished& finished, int exit_code, const std::string& mentioned) {
  CAPTURE(finished.errors, mentioned);
  CHECK(finished.exit_code == exit_code);
  CHECK(finished.errors.starts_with("graph: "));
  CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  CHECK(finished.errors.find(mentioned) != std::string::npos);
}

}  // namespace

TEST_CASE("graph program: given tensors, from raw files, safetensors and numbers", "[graph]") {
  const tenon_test::TemporaryFolder folder;
  const std::string script = folder.write("layer.tg", layer).string();
  const std::string x = folder.write("x.bin", bytes_of(std::vector<float>{1, 2, 3, 4, 5, -6})).string();
  const std::string w = folder.write("w.safetensors", safetensors("w", "[3,2]", {1, 0, 0, 1, 1, 1})).string();
  const Finished files = graph({script, "--input", "x=" + x, "--input", "w=" + w, "--threads", "1"});
  CAPTURE(files.output, files.errors);
  CHECK(files.exit_code == 0);
  CHECK(files.errors.empty());
  CHECK(files.output == "float32 cpu tensor of shape (2, 2), strides (2, 1)\n[[4, 5],\n [0, 0]]\n");
  const Finished numbers = graph({script, "--fill", "x=2", "--fill", "w=0.5"});
  CHECK(numbers.output == "float32 cpu tensor of shape (2, 2), strides (2, 1)\n[[3, 3],\n [3, 3]]\n");
}

TEST_CASE("graph program: random tensors are those of the seed", "[graph]") {
  const tenon_test::TemporaryFolder folder;
  const std::string script = folder.write("layer.tg", layer).string();
  const std::string first = graph({script, "--seed", "1"}).output;
  CHECK(first.starts_with("float32 cpu tensor of shape (2, 2)"));
  CHECK(graph({script, "--seed", "1", "--threads", "2"}).output == first);
  CHECK(graph({script, "--seed", "2"}).output != first);
  CHECK(graph({script}).output == graph({script, "--seed", "0"}).output);
}

TEST_CASE("graph program: the script of the shape of MNIST, and long results are shortened", "[graph]") {
  const Finished finished = graph({mnist, "--time", "2"});
  CAPTURE(finished.output, finished.errors);
  CHECK(finished.exit_code == 0);
  CHECK(finished.errors.empty());
  CHECK(finished.output.starts_with("float32 cpu tensor of shape (128, 10), strides (10, 1)\n"));
  CHECK(finished.output.find("...") != std::string::npos);
  CHECK(finished.output.find("\ncompile   ") != std::string::npos);
  CHECK(finished.output.find(" 2 steps, ") != std::string::npos);
  CHECK(finished.output.find("(median of 2, ") != std::string::npos);
}

TEST_CASE("graph program: --print, --passes, --plan and --dot", "[graph]") {
  const tenon_test::TemporaryFolder folder;
  const std::string script = folder.write("layer.tg", layer).string();
  const Finished printed = graph({script, "--print"});
  CHECK(printed.output.starts_with("# the graph\n" + std::string(layer) + "\nfloat32 cpu tensor"));
  const Finished passes = graph({script, "--passes"});
  CHECK(passes.output.find("# after the pass: views, which changed nothing\n") != std::string::npos);
  CHECK(passes.output.find("# after the pass: matmul fusion\n") != std::string::npos);
  CHECK(passes.output.find("$3 = MatMulPointwiseNode([0, relu], $1, $2);\nresult = $3;\n") != std::string::npos);
  const Finished plan = graph({script, "--plan"});
  CHECK(plan.output.starts_with("# the graph after all passes\n"));
  CHECK(plan.output.find("\n# memory\n$1 InputTensor 'x': bytes 0 to 256, from $1 to the end\n") != std::string::npos);
  const Finished dot = graph({script, "--dot", "--print"});
  CHECK(dot.exit_code == 0);
  CHECK(dot.output.starts_with("digraph"));
  CHECK(dot.output.find("tensor of shape") == std::string::npos);
}

TEST_CASE("graph program: wrong use is exit code 2 and failure 1, each with one line", "[graph]") {
  const tenon_test::TemporaryFolder folder;
  const std::string script = folder.write("layer.tg", layer).string();
  const std::string five = folder.write("five.bin", bytes_of(std::vector<float>{1, 2, 3, 4, 5})).string();
  const std::string seven = folder.write("seven.bin", bytes_of(std::vector<float>(7))).string();
  const std::string other = folder.write("w.safetensors", safetensors("w", "[2,3]", {1, 0, 0, 1, 1, 1})).string();
  check_refused(graph({}), 2, "SCRIPT");
  check_refused(graph({script, "--frobnicate"}), 2, "--frobnicate");
  for (const auto& wrong : tenon_test::wrong_devices) {
    CAPTURE(wrong.value);
    check_refused(graph({script, "--device", wrong.value}), 2, wrong.mentioned);
  }
  for (const std::string wrong : {"0", "-1", "1.5", "x"}) check_refused(graph({script, "--time", wrong}), 2, "--time");
  for (const std::string wrong : {"-1", "x", "18446744073709551616"}) {
    check_refused(graph({script, "--seed", wrong}), 2, "--seed");
  }
  check_refused(graph({script, "--threads", "0"}), 2, "--threads");
  for (const std::string wrong : {"x", "=x", "x="}) {
    check_refused(graph({script, "--input", wrong}), 2, "is not NAME=FILE");
    check_refused(graph({script, "--fill", wrong}), 2, "is not NAME=NUMBER");
  }
  for (const std::string wrong : {"x=1x", "x=nan", "x=1e999"}) {
    check_refused(graph({script, "--fill", wrong}), 2, "is not a finite number");
  }
  check_refused(graph({script, "--fill", "x=1", "--input", "x=" + five}), 2, "given twice");
  check_refused(graph({script, "--print=5"}), 2, "--print takes no value");
  check_refused(graph({script, "--fill", "x=1e300"}), 1, "too large for float32");
  check_refused(graph({script, "--cudnn"}), 2, "--cudnn");

  check_refused(graph({"/nowhere.tg"}), 1, "/nowhere.tg");
  check_refused(graph({folder.path().string()}), 1, folder.path().string());
  check_refused(graph({folder.write("bad.tg", "$1 = Frobnicate($2);").string()}), 1, "bad.tg:1:6: ");
  check_refused(graph({script, "--fill", "y=1"}), 1, "has no input and no constant 'y'");
  check_refused(graph({script, "--input", "x=/nowhere.bin"}), 1, "/nowhere.bin");
  check_refused(graph({script, "--input", "x=" + five}), 1, "has 20 bytes, not the 24 of 'x', float32 [2, 3]");
  check_refused(graph({script, "--input", "x=" + seven}), 1, "has more bytes than the 24 of 'x', float32 [2, 3]");
  check_refused(graph({script, "--input", "w=" + other}), 1,
                "compile: constant 'w' is float32 [2, 3], but the graph has float32 [3, 2]");
  check_refused(graph({script, "--input", "x=" + other}), 1, "holds no tensor 'x'");
  const std::string cache = folder
                                .write("cache.tg",
                                       "$1 = InputTensor(rows, float32, [1, 2]); $2 = InputTensor(begin, int64, [1]);"
                                       "$3 = InputTensor(end, int64, [1]); $4 = BufferTensor(b, float32, [3, 2]);"
                                       "$5 = ReplaceSliceNode($4, $1, $2, $3); result = $5;")
                                .string();
  check_refused(graph({cache, "--fill", "begin=3", "--fill", "end=4"}), 1, "replace_slice: [3, 4)");
  check_refused(graph({cache, "--fill", "begin=3"}), 1, "given by the inputs 'begin' and 'end'; random, for lack of");
  check_refused(graph({cache, "--fill", "begin=0.5"}), 1, "whole numbers");
  check_refused(graph({cache, "--fill", "begin=9007199254740993"}), 1, "whole numbers below 2^53");
  CHECK(graph({cache, "--fill", "begin=2", "--fill", "end=3", "--fill", "rows=7"}).output ==
        "float32 cpu tensor of shape (3, 2), strides (2, 1)\n[[0, 0],\n [0, 0],\n [7, 7]]\n");
  for (const auto& arguments : {std::vector<std::string>{"--help"}, std::vector<std::string>{script}}) {
    if (!fs::exists("/dev/full")) break;
    check_refused(graph(arguments, "/dev/full"), 1, "standard output");
  }
  const Finished help = graph({"--help"});
  CHECK(help.exit_code == 0);
  for (const std::string word : {"--print", "--passes", "--plan", "--dot", "--time", "--device", "--seed", "--input",
                                 "--fill", "--threads", "--cudnn", "little-endian", ".safetensors"}) {
    CAPTURE(word);
    CHECK(help.output.find(word) != std::string::npos);
  }
}

namespace {

/// What graph can do on a GPU.
tenon_test::CudaSupport cuda_support() {
  static const tenon_test::CudaSupport support = tenon_test::cuda_support(graph({mnist, "--device", "cuda"}));
  return support;
}

}  // namespace

TEST_CASE("graph program: says in one line what is missing for --device cuda", "[graph][cuda]") {
  const Finished finished = graph({mnist, "--device", "cuda:4096"});
  switch (cuda_support()) {
    case tenon_test::CudaSupport::none: return check_refused(finished, 2, "this build has no CUDA");
    case tenon_test::CudaSupport::no_device: return check_refused(finished, 1, "cuda: ");
    default: check_refused(finished, 1, "there is no device 4096");
  }
}

TEST_CASE("graph program: a GPU gives the same", "[graph][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  const tenon_test::TemporaryFolder folder;
  const std::string script = folder.write("layer.tg", layer).string();
  const Finished finished = graph({script, "--fill", "x=2", "--fill", "w=0.5", "--device", "cuda", "--time", "3"});
  CAPTURE(finished.output, finished.errors);
  CHECK(finished.exit_code == 0);
  CHECK(finished.output.starts_with("float32 cpu tensor of shape (2, 2), strides (2, 1)\n[[3, 3],\n [3, 3]]\n"));
  CHECK(finished.output.find("(cuda:0)\n") != std::string::npos);
}
