// The llm benchmark: that its report is complete and its arithmetic is right. No speed is tested here.
#include <algorithm>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <programs/process.hpp>

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
  check({"--shape", "tiny-qwen2", "--device", "cuda"}, 2, "cuda");
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
