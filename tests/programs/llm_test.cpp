// The llm benchmark: that its report is complete and its arithmetic is right. No speed is tested here.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <programs/cuda.hpp>
#include <programs/process.hpp>
#include <support/temporary_folder.hpp>

namespace {

using tenon_test::Finished;

Finished llm(std::vector<std::string> arguments, const std::string& output_file = {}) {
  arguments.insert(arguments.begin(), TENON_TEST_PROGRAMS "/llm");
  return tenon_test::run_program(
      arguments, {.input = {}, .output_file = output_file, .environment = {}, .obey_permissions = false});
}

const std::vector<std::string> quick{"--prompt",  "8", "--generate",    "2",  "--repeat", "2",
                                     "--threads", "1", "--read-buffer", "16", "--json"};

}  // namespace

TEST_CASE("llm: the report of a shape adds up", "[llm]") {
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    std::vector<std::string> arguments{"--shape", "tiny-qwen2", "--dtype", dtype, "--batch", "2"};
    arguments.insert(arguments.end(), quick.begin(), quick.end());
    const Finished finished = llm(arguments);
    CAPTURE(finished.errors);
    REQUIRE(finished.exit_code == 0);
    const auto report = nlohmann::json::parse(finished.output);
    const double element = dtype == "f32" ? 4 : 2;
    CHECK(report["parameters"] == 2658624);  // of the checkpoint of this shape
    CHECK(report["memory"]["weight_bytes"].get<double>() == element * 2658624);
    CHECK(report["prefill"]["all_seconds"].size() == 2);
    const double seconds = report["prefill"]["seconds"];
    CHECK(report["prefill"]["tokens_per_second"].get<double>() == Catch::Approx(2 * 8 / seconds));
    const double per_token = report["decode"]["seconds_per_token"];
    CHECK(report["decode"]["seconds"].get<double>() == Catch::Approx(4 * per_token));
    // 6 layers of 2 * 192² + 2 * 192 * 64 + 3 * 192 * 512, and the projection to 1536: every matrix once.
    const double matrices = 6.0 * (2 * 192 * 192 + 2 * 192 * 64 + 3 * 192 * 512) + 1536.0 * 192;
    CHECK(report["decode"]["weight_bytes_per_token"].get<double>() == element * matrices);
    CHECK(report["decode"]["cache_bytes_per_token"].get<double>() == Catch::Approx(9.5 * 2 * 6 * 64 * element));
    CHECK(report["decode"]["bytes_per_second"].get<double>() ==
          Catch::Approx((element * matrices + 9.5 * 2 * 6 * 64 * element) / per_token));
    CHECK(report["decode"]["share_of_read_bandwidth"].get<double>() ==
          Catch::Approx(report["decode"]["bytes_per_second"].get<double>() /
                        report["limits"]["read_bytes_per_second"].get<double>()));
    CHECK(report["memory"]["peak_resident_bytes"].get<double>() > element * 2658624);
    CHECK(report["limits"]["multiply_add_operations_per_second"].get<double>() > 0);
  }
}

TEST_CASE("llm: a folder is measured in the type of its checkpoint", "[llm]") {
  std::vector<std::string> arguments{"--model", TENON_TEST_MODEL};
  arguments.insert(arguments.end(), quick.begin(), quick.end());
  const Finished finished = llm(arguments);
  CAPTURE(finished.errors);
  REQUIRE(finished.exit_code == 0);
  const auto report = nlohmann::json::parse(finished.output);
  CHECK(report["dtype"] == "bfloat16");
  CHECK(report["memory"]["weight_bytes"] == 2 * 2658624);
  arguments.pop_back();  // without --json, for people
  CHECK(llm(arguments).output.find("% of the read bandwidth") != std::string::npos);
}

TEST_CASE("llm: wrong use is exit code 2, failure 1, one line each", "[llm]") {
  const auto check = [](const std::vector<std::string>& arguments, int exit_code, const std::string& mentioned) {
    const Finished finished = llm(arguments);
    CAPTURE(finished.errors);
    CHECK(finished.exit_code == exit_code);
    CHECK(finished.output.empty());
    CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
    CHECK(finished.errors.find(mentioned) != std::string::npos);
  };
  check({}, 2, "--shape");
  check({"--shape", "qwen9"}, 2, "qwen2.5-0.5b");
  check({"--shape", "tiny-qwen2", "--model", "x"}, 2, "--model");
  for (const auto& wrong : tenon_test::wrong_devices) {
    CAPTURE(wrong.value);
    check({"--shape", "tiny-qwen2", "--device", wrong.value}, 2, wrong.mentioned);
  }
  check({"--shape", "tiny-qwen2", "--no-graphs"}, 2, "--no-graphs");
  check({"--shape", "tiny-qwen2", "--no-dependent-launch"}, 2, "--no-dependent-launch");
  check({"--model", TENON_TEST_MODEL, "--write-model", "x"}, 2, "--write-model");
  check({"--shape", "tiny-qwen2", "--write-model", "/dev/null/x"}, 1, "/dev/null/x");
  check({"--shape", "tiny-qwen2", "--prompt", "0"}, 2, "--prompt");
  check({"--model", "/nowhere"}, 1, "/nowhere");
  check({"--shape", "tiny-qwen2", "--prompt", "2000", "--threads", "1"}, 1, "context length");
  if (std::filesystem::exists("/dev/full")) {
    std::vector<std::string> arguments{"--shape", "tiny-qwen2"};
    arguments.insert(arguments.end(), quick.begin(), quick.end());
    const Finished full = llm(arguments, "/dev/full");
    CHECK(full.exit_code == 1);
    CHECK(full.errors == "llm: cannot write to standard output\n");
  }
  const Finished help = llm({"--help"});
  CHECK(help.exit_code == 0);
  CHECK(help.output.find("--batch") != std::string::npos);
}

TEST_CASE("llm: --write-model makes a folder of the weights of a shape, and the ids of runs can be compared", "[llm]") {
  const tenon_test::TemporaryFolder folder;
  const std::string shape = GENERATE(as<std::string>{}, "tiny-qwen2", "stories-260k");
  const std::string model = (folder.path() / "model").string();
  const std::string dump = (folder.path() / "ids.txt").string();
  const Finished written = llm({"--shape", shape, "--dtype", "f16", "--write-model", model, "--threads", "1"});
  CAPTURE(written.errors);
  CHECK(written.exit_code == 0);
  CHECK(written.output.empty());
  const auto report = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), quick.begin(), quick.end());
    const Finished finished = llm(arguments);
    CAPTURE(finished.errors);
    REQUIRE(finished.exit_code == 0);
    return nlohmann::json::parse(finished.output);
  };
  const auto from_folder = report({"--model", model, "--dump-ids", dump});
  const auto from_shape = report({"--shape", shape, "--dtype", "f16"});
  CHECK(from_folder["dtype"] == "float16");
  CHECK(from_folder["parameters"] == from_shape["parameters"]);
  CHECK(from_folder["ids"] == from_shape["ids"]);
  CHECK(from_folder["ids"]["count"] == 3);  // one with the prompt, and two more
  CHECK(from_folder["ids"]["equal_in_all_repetitions"] == true);
  std::ifstream file(dump);
  std::vector<std::int64_t> ids;
  for (std::int64_t id = 0; file >> id;) ids.push_back(id);
  CHECK(ids.size() == 3);
}

namespace {

/// What llm can do on a GPU.
tenon_test::CudaSupport cuda_support() {
  static const tenon_test::CudaSupport support = tenon_test::cuda_support(
      llm({"--shape", "tiny-qwen2", "--device", "cuda", "--repeat", "1", "--prompt", "1", "--generate", "1"}));
  return support;
}

/// The report of a run on a GPU with few repetitions and a small buffer.
nlohmann::json report_on_gpu(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"--device", "cuda", "--prompt", "40", "--generate", "30", "--repeat", "2",
                                     "--read-buffer", "256", "--json"});
  const Finished finished = llm(arguments);
  CAPTURE(finished.errors);
  REQUIRE(finished.exit_code == 0);
  CHECK(finished.errors.empty());
  return nlohmann::json::parse(finished.output);
}

}  // namespace

TEST_CASE("llm: says in one line what is missing for --device cuda", "[llm][cuda]") {
  const Finished finished = llm({"--shape", "tiny-qwen2", "--device", "cuda:4096"});
  CAPTURE(finished.errors);
  CHECK(finished.output.empty());
  CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  CHECK(finished.exit_code == (cuda_support() == tenon_test::CudaSupport::none ? 2 : 1));
  const char* mentioned = cuda_support() == tenon_test::CudaSupport::none        ? "this build has no CUDA"
                          : cuda_support() == tenon_test::CudaSupport::no_device ? "cuda: "
                                                                                 : "there is no device 4096";
  CHECK(finished.errors.find(mentioned) != std::string::npos);
}

TEST_CASE("llm: the report of a GPU adds up", "[llm][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    CAPTURE(dtype);
    const auto report = report_on_gpu({"--shape", "tiny-qwen2", "--dtype", dtype, "--batch", "2"});
    const double element = dtype == "f32" ? 4 : 2;
    CHECK(report["device"] == "cuda:0");
    CHECK(!report["device_name"].get<std::string>().empty());
    CHECK(report["parameters"] == 2658624);
    CHECK(!report.contains("start"));
    CHECK(report["memory"]["weight_bytes"].get<double>() == element * 2658624);
    CHECK(report["prefill"]["all_seconds"].size() == 2);
    CHECK(report["prefill"]["tokens_per_second"].get<double>() ==
          Catch::Approx(2 * 40 / report["prefill"]["seconds"].get<double>()));
    CHECK(report["prefill"]["share_of_product"].get<double>() ==
          Catch::Approx(report["prefill"]["operations_per_second"].get<double>() /
                        report["limits"]["product_operations_per_second"].get<double>()));
    const double per_token = report["decode"]["seconds_per_token"];
    CHECK(report["decode"]["seconds"].get<double>() == Catch::Approx(2 * 30 * per_token));
    const double matrices = 6.0 * (2 * 192 * 192 + 2 * 192 * 64 + 3 * 192 * 512) + 1536.0 * 192;
    CHECK(report["decode"]["weight_bytes_per_token"].get<double>() == element * matrices);
    CHECK(report["decode"]["share_of_read_bandwidth"].get<double>() ==
          Catch::Approx(report["decode"]["bytes_per_second"].get<double>() /
                        report["limits"]["read_bytes_per_second"].get<double>()));
    CHECK(report["limits"]["read_bytes_per_second"].get<double>() > 1e10);
    CHECK(report["limits"]["product_operations_per_second"].get<double>() > 1e11);
    CHECK(report["ids"]["count"] == 2 * 31);
  }
}

TEST_CASE("llm: a folder on a GPU, with the time that it takes to start", "[llm][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  const auto report = report_on_gpu({"--model", TENON_TEST_MODEL});
  CHECK(report["dtype"] == "bfloat16");
  const double seconds = report["start"]["seconds"];
  CHECK(seconds >= report["start"]["device_seconds"].get<double>() + report["start"]["weights_seconds"].get<double>());
  CHECK(report["start"]["first_token_seconds"].get<double>() > 0);
  const Finished for_people = llm({"--model", TENON_TEST_MODEL, "--device", "cuda", "--repeat", "1"});
  for (const char* line :
       {"model     ", "\nlimits    ", "\nprefill   ", "\ndecode    ", "\nmemory    ", "\nstart     "}) {
    CAPTURE(line);
    CHECK(for_people.output.find(line) != std::string::npos);
  }
}

TEST_CASE("llm: on a GPU the ids are the same with and without graphs and dependent launch", "[llm][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  for (const std::string dtype : {"f32", "f16", "bf16"}) {
    const std::vector<std::string> base{"--model", TENON_TEST_MODEL, "--dtype", dtype};
    const auto with = [&](const std::vector<std::string>& more) {
      std::vector<std::string> arguments = base;
      arguments.insert(arguments.end(), more.begin(), more.end());
      return report_on_gpu(arguments);
    };
    const auto standard = with({});
    CAPTURE(dtype, standard["ids"].dump());
    CHECK(standard["graphs"] == true);
    CHECK(standard["ids"]["equal_in_all_repetitions"] == true);
    const auto no_graphs = with({"--no-graphs"});
    CHECK(no_graphs["graphs"] == false);
    CHECK(no_graphs["ids"] == standard["ids"]);
    const auto no_dependent_launch = with({"--no-dependent-launch"});
    CHECK(no_dependent_launch["dependent_launch"] == false);
    CHECK(no_dependent_launch["ids"] == standard["ids"]);
    CHECK(with({"--no-graphs", "--no-dependent-launch"})["ids"] == standard["ids"]);
  }
}
