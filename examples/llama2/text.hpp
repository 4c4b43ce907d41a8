// Ids and the text that they stand for, whichever tokenizer a model comes with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace llama2 {

class Text {
 public:
  Text() = default;
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;
  virtual ~Text() = default;

  /// The ids of a prompt, which begin with BOS.
  [[nodiscard]] virtual std::vector<std::int64_t> encode(const std::string& prompt) const = 0;
  /// What `id` adds to the text behind `previous`.
  virtual std::string next(std::int64_t previous, std::int64_t id) = 0;
  /// What is left when no more ids come: part of a character.
  virtual std::string rest() { return {}; }
  /// Whether the text ends before this id.
  [[nodiscard]] virtual bool ends(std::int64_t id) const = 0;
};

/// A tokenizer.json where the name ends in .json, else a tokenizer.bin of llama2.c for a vocabulary of that size. An empty
/// path: the tokenizer.json in the folder of the model if there is one, else tokenizer.bin in the current folder.
std::unique_ptr<Text> open_text(const std::filesystem::path& path, const std::filesystem::path& model,
                                std::int64_t vocab_size);

}  // namespace llama2
