// Copies of the shipped model with something changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <support/temporary_folder.hpp>

namespace tenon_test {

/// A folder of its own, removed at the end, with a copy of the shipped model in `model()`.
class ModelCopy {
 public:
  ModelCopy() {
    std::filesystem::create_directory(model());
    folder_.copy_all(TENON_TEST_MODEL, model());
  }

  /// A folder for whatever else a test writes.
  const std::filesystem::path& root() const { return folder_.path(); }
  std::filesystem::path model() const { return root() / "tiny-copy"; }

  std::string read(const std::string& name) const { return slurp(model() / name); }
  void write(const std::string& name, std::string_view content) const { folder_.write("tiny-copy/" + name, content); }
  void edit(const std::string& name, const std::function<void(nlohmann::ordered_json&)>& change) const {
    auto document = nlohmann::ordered_json::parse(read(name));
    change(document);
    write(name, document.dump());
  }

  /// Takes away every stop id and lets the model run for 60000 tokens: an answer that does not end by itself.
  void make_endless() const {
    edit("config.json", [](auto& config) {
      config["max_position_embeddings"] = 60000;
      config.erase("eos_token_id");
    });
    edit("generation_config.json", [](auto& config) { config.erase("eos_token_id"); });
    edit("tokenizer_config.json", [](auto& config) { config.erase("eos_token"); });
  }

  /// Makes every logit NaN, by way of the final norm (bfloat16).
  void break_numbers() const {
    std::string file = read("model.safetensors");
    std::uint64_t header_size = 0;
    std::memcpy(&header_size, file.data(), sizeof header_size);
    const std::size_t data = 8 + static_cast<std::size_t>(header_size);
    const auto header = nlohmann::json::parse(file.substr(8, data - 8));
    const auto offsets = header.at("model.norm.weight").at("data_offsets");
    for (auto at = offsets[0].get<std::size_t>(); at < offsets[1].get<std::size_t>(); at += 2) {
      file[data + at] = '\xC0';
      file[data + at + 1] = '\x7F';
    }
    write("model.safetensors", file);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace tenon_test
