// The verify program, run as its users run it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <programs/cuda.hpp>
#include <programs/process.hpp>
#include <support/temporary_folder.hpp>
#include <tenon/io/safetensors.hpp>

namespace {

using tenon_test::Finished;
namespace fs = std::filesystem;

Finished verify(std::vector<std::string> arguments, const std::string& output_file = {}) {
  arguments.insert(arguments.begin(), TENON_TEST_PROGRAMS "/verify");
  return tenon_test::run_program(
      arguments, {.input = {}, .output_file = output_file, .environment = {}, .obey_permissions = false});
}

fs::path golden(const std::string& name) { return fs::path(TENON_TEST_DATA) / "golden" / name; }

/// A copy of a golden folder, removed at the end.
class GoldenCopy {
 public:
  explicit GoldenCopy(const std::string& name) { folder_.copy_all(golden(name)); }
  [[nodiscard]] std::string path() const { return folder_.path().string(); }
  [[nodiscard]] std::string reference() const { return (folder_.path() / "reference.safetensors").string(); }

  /// Adds `amount` to the first element of a float32 tensor.
  void add(const std::string& file, const std::string& tensor, float amount) const {
    const fs::path name = folder_.path() / file;
    const auto offset = static_cast<std::streamoff>(tenon::SafetensorsFile(name).info(tensor).offset);
    std::fstream stream(name, std::ios::binary | std::ios::in | std::ios::out);
    float value = 0;
    stream.seekg(offset).read(reinterpret_cast<char*>(&value), sizeof value);
    value += amount;
    stream.seekp(offset).write(reinterpret_cast<const char*>(&value), sizeof value);
    REQUIRE(stream.flush());
  }

 private:
  tenon_test::TemporaryFolder folder_;
};

void check_refused(const Finished& finished, int exit_code, const std::string& mentioned) {
  CAPTURE(finished.errors);
  CHECK(finished.exit_code == exit_code);
  CHECK(finished.errors.starts_with("verify: "));
  CHECK(std::count(finished.errors.begin(), finished.errors.end(), '\n') == 1);
  CHECK(finished.errors.find(mentioned) != std::string::npos);
}

}  // namespace

TEST_CASE("verify: every golden model is equal to its reference, in every dtype", "[verify]") {
  const std::string name =
      GENERATE(as<std::string>{}, "qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16", "llama-f32");
  for (const std::string dtype : {"f32", "bf16", "f16", "auto"}) {
    const Finished finished = verify(
        {golden(name).string(), (golden(name) / "reference.safetensors").string(), "--dtype", dtype, "--threads", "1"});
    CAPTURE(name, dtype, finished.output, finished.errors);
    CHECK(finished.exit_code == 0);
    CHECK(finished.errors.empty());
    CHECK(finished.output.find("final norm") != std::string::npos);
    CHECK(finished.output.find("\nlogits ") != std::string::npos);
    CHECK(finished.output.find("greedy ids: ") != std::string::npos);
    if (dtype == "f32") CHECK(finished.output.find("greedy ids: 32 of 32 equal\n") != std::string::npos);
  }
}

TEST_CASE("verify: names the first state that is off", "[verify]") {
  const GoldenCopy copy("qwen2-tied-gqa7-f32");
  copy.add("model.safetensors", "model.layers.1.mlp.down_proj.weight", 3.0f);
  for (const std::string dtype : {"f32", "bf16", "f16"}) {
    const Finished finished = verify({copy.path(), copy.reference(), "--dtype", dtype, "--threads", "1"});
    CAPTURE(finished.output);
    CHECK(finished.exit_code == 1);
    CHECK(finished.errors.empty());
    CHECK(finished.output.find("first state that is off: layer 2\n") != std::string::npos);
    CHECK(finished.output.find("NOT equal") != std::string::npos);
  }
}

TEST_CASE("verify: one wrong logit, one wrong id, and a tolerance that nothing meets", "[verify]") {
  const GoldenCopy copy("qwen2-tied-gqa7-f32");
  CHECK(verify({copy.path(), copy.reference(), "--tolerance", "1e-3", "--threads", "1"}).exit_code == 0);
  const Finished strict = verify({copy.path(), copy.reference(), "--tolerance", "1e-12", "--threads", "1"});
  CHECK(strict.exit_code == 1);
  CHECK(strict.output.find("first state that is off: layer 1\n") != std::string::npos);  // the embedding is exact
  copy.add("reference.safetensors", "logits_f32", 3e-4f);
  const Finished finished = verify({copy.path(), copy.reference(), "--threads", "1"});
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK(finished.output.find("first state that is off: logits\n") != std::string::npos);
  CHECK(finished.output.find("greedy ids: 32 of 32 equal\n") != std::string::npos);
}

TEST_CASE("verify: ids that the model does not have are told before anything is compared", "[verify]") {
  const std::string name = GENERATE(as<std::string>{}, "input_ids", "greedy_f32");
  const GoldenCopy copy("qwen2-tied-gqa7-f32");
  const auto offset = static_cast<std::streamoff>(tenon::SafetensorsFile(copy.reference()).info(name).offset);
  const std::int64_t wrong = GENERATE(std::int64_t{-1}, std::int64_t{1} << 40);
  std::fstream(copy.reference(), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(offset)
      .write(reinterpret_cast<const char*>(&wrong), sizeof wrong);
  const Finished finished = verify({copy.path(), copy.reference(), "--threads", "1"});
  check_refused(finished, 1, copy.reference());
  CHECK(finished.errors.find(name) != std::string::npos);
  CHECK(finished.errors.find(std::to_string(wrong)) != std::string::npos);
  CHECK(finished.output.empty());
}

TEST_CASE("verify: wrong use is exit code 2 and failure 1, each with one line", "[verify]") {
  const std::string model = golden("llama-f32").string();
  const std::string reference = model + "/reference.safetensors";
  check_refused(verify({}), 2, "MODEL_DIR");
  check_refused(verify({model}), 2, "REFERENCE");
  check_refused(verify({model, reference, "--dtype", "int8"}), 2, "--dtype");
  for (const auto& wrong : tenon_test::wrong_devices) {
    CAPTURE(wrong.value);
    check_refused(verify({model, reference, "--device", wrong.value}), 2, wrong.mentioned);
  }
  for (const std::string wrong : {"-1", "0", "nan", "inf", "1e999", "1x", " 1", ""}) {
    CAPTURE(wrong);
    check_refused(verify({model, reference, "--tolerance", wrong}), 2, "--tolerance");
  }
  const Finished long_number = verify({model, reference, "--tolerance", "-" + std::string(300, '9')});
  check_refused(long_number, 2, "--tolerance");
  CHECK(long_number.errors.size() < 200);
  for (const std::string wrong : {"0", "0x1", " 1", "1.0", "4294967297"}) {
    CAPTURE(wrong);
    check_refused(verify({model, reference, "--threads", wrong}), 2, "--threads");
  }
  check_refused(verify({model, reference, "--frobnicate"}), 2, "--frobnicate");
  check_refused(verify({"/nowhere", reference}), 1, "/nowhere");
  check_refused(verify({model, "/nowhere.safetensors"}), 1, "/nowhere.safetensors");
  check_refused(verify({model, (golden("qwen2-tied-gqa7-f32") / "reference.safetensors").string()}), 1, "hidden_0_f32");
  check_refused(verify({model, model + "/model.safetensors"}), 1, "input_ids");
  for (const auto& arguments : {std::vector<std::string>{"--help"}, std::vector<std::string>{model, reference}}) {
    if (!fs::exists("/dev/full")) break;
    check_refused(verify(arguments, "/dev/full"), 1, "standard output");
  }
  const Finished help = verify({"--help"});
  CHECK(help.exit_code == 0);
  for (const std::string word :
       {"--device", "--dtype", "--tolerance", "--threads", "input_ids", "write_reference.py"}) {
    CAPTURE(word);
    CHECK(help.output.find(word) != std::string::npos);
  }
}

namespace {

/// What verify can do on a GPU.
tenon_test::CudaSupport cuda_support() {
  static const tenon_test::CudaSupport support = tenon_test::cuda_support(verify(
      {golden("llama-f32").string(), (golden("llama-f32") / "reference.safetensors").string(), "--device", "cuda"}));
  return support;
}

}  // namespace

TEST_CASE("verify: says in one line what is missing for --device cuda", "[verify][cuda]") {
  const std::string model = golden("llama-f32").string();
  const Finished finished = verify({model, model + "/reference.safetensors", "--device", "cuda:4096"});
  switch (cuda_support()) {
    case tenon_test::CudaSupport::none: return check_refused(finished, 2, "this build has no CUDA");
    case tenon_test::CudaSupport::no_device: return check_refused(finished, 1, "cuda: ");
    default: check_refused(finished, 1, "there is no device 4096");
  }
}

TEST_CASE("verify: every golden model on a GPU is equal to its reference", "[verify][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  const std::string name =
      GENERATE(as<std::string>{}, "qwen2-tied-gqa7-f32", "qwen2-untied-bf16", "qwen2-sharded-f16", "llama-f32");
  for (const std::string dtype : {"f32", "auto", "bf16", "f16"}) {
    const Finished finished = verify({golden(name).string(), (golden(name) / "reference.safetensors").string(),
                                      "--dtype", dtype, "--device", "cuda"});
    CAPTURE(name, dtype, finished.output, finished.errors);
    CHECK(finished.exit_code == 0);
    CHECK(finished.errors.empty());
    CHECK(finished.output.find("(cuda:0)\n") != std::string::npos);
    CHECK(finished.output.find("final norm") != std::string::npos);
    CHECK(finished.output.find("\nlogits ") != std::string::npos);
    CHECK(finished.output.find("greedy ids: ") != std::string::npos);
    if (dtype == "f32") CHECK(finished.output.find("greedy ids: 32 of 32 equal\n") != std::string::npos);
  }
}

TEST_CASE("verify: on a GPU it names the first state that is off, too", "[verify][cuda]") {
  TENON_NEEDS_CUDA_PROGRAM(cuda_support());
  const GoldenCopy copy("qwen2-tied-gqa7-f32");
  copy.add("model.safetensors", "model.layers.1.mlp.down_proj.weight", 3.0f);
  const Finished finished = verify({copy.path(), copy.reference(), "--device", "cuda"});
  CAPTURE(finished.output);
  CHECK(finished.exit_code == 1);
  CHECK(finished.output.find("first state that is off: layer 2\n") != std::string::npos);
}
