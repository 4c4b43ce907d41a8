// The benchmarks of operators: which devices they take. No speed is tested here.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include <programs/cuda.hpp>
#include <programs/process.hpp>

namespace {

using tenon_test::CudaSupport;
using tenon_test::Finished;

Finished operators(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), TENON_TEST_PROGRAMS "/operators");
  return tenon_test::run_program(arguments);
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// What operators can do on a GPU.
CudaSupport cuda_support() {
  static const CudaSupport support =
      tenon_test::cuda_support(operators({"--device", "cuda", "--benchmark_list_tests=true"}));
  return support;
}

}  // namespace

TEST_CASE("operators: lists the benchmarks of the CPU, with and without --device cpu", "[operators]") {
  const Finished standard = operators({"--benchmark_list_tests=true"});
  CHECK(standard.exit_code == 0);
  CHECK(contains(standard.output, "rms_norm/float32/2048x4864"));
  CHECK(contains(standard.output, "rms_norm_loop/float32/2048x4864"));
  CHECK(operators({"--device", "cpu", "--benchmark_list_tests=true"}).output == standard.output);
  CHECK(operators({"--benchmark_list_tests=true", "--device=cpu"}).output == standard.output);
}

TEST_CASE("operators: what is no device is one line and exit code 2", "[operators]") {
  std::vector<std::vector<std::string>> cases{{"--device"}, {"--device=tpu"}};
  for (const auto& wrong : tenon_test::wrong_devices) cases.push_back({"--device", wrong.value});
  for (const auto& arguments : cases) {
    const Finished finished = operators(arguments);
    CAPTURE(arguments, finished.errors);
    CHECK(finished.exit_code == 2);
    CHECK(finished.output.empty());
    CHECK(finished.errors.starts_with("operators: --device "));
    CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  }
}

TEST_CASE("operators: says in one line what is missing for --device cuda", "[operators][cuda]") {
  const Finished finished = operators({"--device", "cuda:4096", "--benchmark_list_tests=true"});
  CAPTURE(finished.errors);
  CHECK(finished.output.empty());
  CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  CHECK(finished.exit_code == (cuda_support() == CudaSupport::none ? 2 : 1));
  CHECK(contains(finished.errors, cuda_support() == CudaSupport::none        ? "this build has no CUDA"
                                  : cuda_support() == CudaSupport::no_device ? "cuda: "
                                                                             : "there is no device 4096"));
}

TEST_CASE("operators: on a GPU rates stand beside limits of the card", "[operators][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  const Finished list = operators({"--device", "cuda", "--benchmark_list_tests=true"});
  for (const char* name : {"linear/bfloat16/m=1 qkv_proj 2048x1536", "linear_cublaslt/float32/m=2048 ",
                           "self_attention/float16/decode at 2048", "rearrange_memcpy/", "embedding/"}) {
    CAPTURE(name);
    CHECK(contains(list.output, name));
  }
  CHECK(!contains(list.output, "_loop"));
  const Finished finished =
      operators({"--device=cuda", "--benchmark_min_time=0.001",
                 "--benchmark_filter=rms_norm/bfloat16/1x1536|argmax/float32/1x|linear.*/bfloat16/m=128 o_proj"});
  CAPTURE(finished.output, finished.errors);
  CHECK(finished.exit_code == 0);
  CHECK(contains(finished.output, "copy_share="));
  CHECK(contains(finished.output, "read_share="));
  CHECK(contains(finished.output, "product_share="));
  CHECK(!contains(finished.output, "ERROR"));
}
