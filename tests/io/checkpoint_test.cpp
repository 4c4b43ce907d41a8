#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <nlohmann/json.hpp>

#include <tenon/io/checkpoint.hpp>
#include <tenon/io/save_safetensors.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::AnyTensor;
using tenon::Checkpoint;
using tenon::DType;
using tenon::FileError;
using tenon::FormatError;
using tenon::open_checkpoint;
using tenon_test::slurp;
using tenon_test::TemporaryFolder;

const std::filesystem::path golden = std::filesystem::path(TENON_TEST_DATA) / "golden";
const std::string index_name = "model.safetensors.index.json";

std::string shard_name(int i) { return "model-0000" + std::to_string(i) + "-of-00004.safetensors"; }

/// A copy of the sharded checkpoint that a test may spoil.
class ShardedCopy : public TemporaryFolder {
 public:
  ShardedCopy() {
    const auto original = golden / "qwen2-sharded-f16";
    for (int i = 1; i <= 4; ++i) copy(original / shard_name(i));
    copy(original / index_name);
  }
  /// Changes the index with `edit(json)`.
  template <class Edit>
  void edit_index(Edit&& edit) const {
    nlohmann::json index = nlohmann::json::parse(slurp(path() / index_name));
    edit(index);
    write(index_name, index.dump());
  }
};

void write_one(const std::filesystem::path& path, const std::vector<std::string>& names) {
  static const std::vector<float> values{1.0f, 2.0f};
  std::map<std::string, AnyTensor> tensors;
  for (const std::string& name : names) {
    tensors.emplace(name, AnyTensor::from_external(DType::float32, {2},
                                                   reinterpret_cast<const std::byte*>(values.data()), nullptr));
  }
  tenon::save_safetensors(path, tensors);
}

}  // namespace

TEST_CASE("a sharded checkpoint opens with every tensor of its index", "[checkpoint]") {
  const auto folder = golden / "qwen2-sharded-f16";
  const Checkpoint checkpoint = open_checkpoint(folder);
  const nlohmann::json index = nlohmann::json::parse(slurp(folder / index_name));
  CHECK(checkpoint.size() == index.at("weight_map").size());
  CHECK(checkpoint.names().size() == checkpoint.size());
  CHECK(checkpoint.files().size() == 4);
  CHECK(checkpoint.total_bytes() == index.at("metadata").at("total_size").get<std::uint64_t>());
  std::int64_t parameters = 0;
  for (const auto& [name, file] : index.at("weight_map").items()) {
    REQUIRE(checkpoint.contains(name));
    CHECK(checkpoint.file_of(name).filename() == file.get<std::string>());
    const AnyTensor tensor = checkpoint.tensor(name);
    CHECK(tensor.dtype() == DType::float16);
    CHECK(tensor.sizes() == checkpoint.info(name).shape);
    parameters += tensor.numel();
  }
  CHECK(parameters == index.at("metadata").at("total_parameters").get<std::int64_t>());
  CHECK_FALSE(checkpoint.contains("absent"));
  CHECK_THROWS_AS(checkpoint.tensor("absent"), FormatError);
  CHECK_THROWS_WITH(checkpoint.info("absent"),
                    ContainsSubstring("'absent'") && ContainsSubstring("'" + folder.string() + "'"));
}

TEST_CASE("a checkpoint of one file opens without an index", "[checkpoint]") {
  const Checkpoint checkpoint = open_checkpoint(golden / "qwen2-untied-bf16");
  CHECK(checkpoint.files().size() == 1);
  CHECK(checkpoint.tensor("lm_head.weight").sizes() == std::vector<std::int64_t>{320, 64});
  CHECK(checkpoint.tensor("model.norm.weight").dtype() == DType::bfloat16);
}

TEST_CASE("tensors outlive their checkpoint", "[checkpoint]") {
  AnyTensor tensor;
  {
    Checkpoint first = open_checkpoint(golden / "qwen2-untied-bf16");
    const Checkpoint moved = std::move(first);
    tensor = moved.tensor("model.norm.weight");
  }
  const auto typed = tensor.as<const tenon::bfloat16, 1>();
  REQUIRE(tensor.sizes() == std::vector<std::int64_t>{64});
  float sum = 0.0f;
  for (std::int64_t i = 0; i < 64; ++i) sum += float(typed.data()[i]);
  CHECK(sum != 0.0f);
}

TEST_CASE("F8: a missing shard is an error that lists what is missing", "[checkpoint]") {
  const ShardedCopy folder;
  std::filesystem::remove(folder.path() / shard_name(3));
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FileError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()),
                    ContainsSubstring("'" + folder.path().string() + "' lacks '" + shard_name(3) + "'") &&
                        ContainsSubstring("'model.layers."));
  std::filesystem::remove(folder.path() / shard_name(1));
  CHECK_THROWS_WITH(open_checkpoint(folder.path()),
                    ContainsSubstring("'" + shard_name(1) + "', '" + shard_name(3) + "'"));
}

TEST_CASE("F8: shards that were swapped are an error", "[checkpoint]") {
  const ShardedCopy folder;
  std::filesystem::rename(folder.path() / shard_name(1), folder.path() / "other");
  std::filesystem::rename(folder.path() / shard_name(2), folder.path() / shard_name(1));
  std::filesystem::rename(folder.path() / "other", folder.path() / shard_name(2));
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring(shard_name(1) + "' does not hold the tensors") &&
                                                        ContainsSubstring("'model.embed_tokens.weight'") &&
                                                        ContainsSubstring("are files swapped?"));
}

TEST_CASE("F8: a shard in the place of another is an error", "[checkpoint]") {
  const ShardedCopy folder;
  std::filesystem::copy_file(folder.path() / shard_name(1), folder.path() / shard_name(2),
                             std::filesystem::copy_options::overwrite_existing);
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring(shard_name(2)));
}

TEST_CASE("F9: a truncated shard is an error that names it", "[checkpoint]") {
  const ShardedCopy folder;
  const auto shard = folder.path() / shard_name(2);
  std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 2);
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()),
                    ContainsSubstring(shard_name(2)) && ContainsSubstring("incomplete"));
}

TEST_CASE("tensors that the index leaves out or gives elsewhere are an error", "[checkpoint]") {
  const ShardedCopy folder;
  SECTION("left out") {
    folder.edit_index([](nlohmann::json& index) { index["weight_map"].erase("lm_head.weight"); });
    CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring("does not list for it: 'lm_head.weight'"));
  }
  SECTION("not there") {
    folder.edit_index([](nlohmann::json& index) { index["weight_map"]["ghost.weight"] = shard_name(4); });
    CHECK_THROWS_WITH(open_checkpoint(folder.path()),
                      ContainsSubstring("missing 'ghost.weight'") && !ContainsSubstring("swapped"));
  }
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
}

TEST_CASE("an index must name plain files", "[checkpoint]") {
  for (const std::string& name : std::vector<std::string>{"../x.safetensors", "/etc/passwd", "..", ".", "", "a/b",
                                                          "a\\b", "C:x", std::string("a\0b", 3)}) {
    CAPTURE(name);
    const ShardedCopy folder;
    folder.edit_index([&](nlohmann::json& index) { index["weight_map"]["lm_head.weight"] = name; });
    CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
    CHECK_THROWS_WITH(open_checkpoint(folder.path()),
                      ContainsSubstring("'lm_head.weight'") && ContainsSubstring("not a plain file name"));
  }
}

TEST_CASE("an index of another form is an error that names it", "[checkpoint]") {
  const TemporaryFolder folder;
  for (const char* text : {"{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":1}})", "[1]",
                           "{", "", R"({"weight_map":{"a":"x","a":"y"}})"}) {
    CAPTURE(text);
    folder.write(index_name, text);
    CHECK_THROWS_AS(open_checkpoint(folder.path()), FormatError);
    CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring(index_name));
  }
}

TEST_CASE("two files with one name in common do not make a checkpoint", "[checkpoint]") {
  const TemporaryFolder folder;
  write_one(folder.path() / "a.safetensors", {"x", "y"});
  write_one(folder.path() / "b.safetensors", {"z", "y"});
  std::vector<tenon::SafetensorsFile> files;
  files.emplace_back(folder.path() / "a.safetensors");
  files.emplace_back(folder.path() / "b.safetensors");
  CHECK_THROWS_WITH(Checkpoint(folder.path(), files), ContainsSubstring("tensor 'y' is in both"));
}

TEST_CASE("folders without weights are named", "[checkpoint]") {
  const TemporaryFolder folder;
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FileError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring("has neither 'model.safetensors'"));
  CHECK_THROWS_AS(open_checkpoint(folder.path() / "absent"), FileError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path() / "absent"), ContainsSubstring("there is no such file or folder"));
  const auto file = folder.write("file", "x");
  CHECK_THROWS_AS(open_checkpoint(file), FileError);
  CHECK_THROWS_WITH(open_checkpoint(file), ContainsSubstring("a model is a folder"));
  std::filesystem::create_symlink("nowhere", folder.path() / "model.safetensors");
  CHECK_THROWS_AS(open_checkpoint(folder.path()), FileError);
  CHECK_THROWS_WITH(open_checkpoint(folder.path()), ContainsSubstring("model.safetensors'"));
}
