// Both kinds of tokenizers.
#include "llama2/text.hpp"

#include <system_error>
#include <utility>

#include <tenon/core/error.hpp>
#include <tenon/text/llama2c_tokenizer.hpp>
#include <tenon/text/text_stream.hpp>
#include <tenon/text/tokenizer.hpp>

namespace llama2 {
namespace {

/// As llama2.c's `run` encodes and prints. A text ends with BOS, which separates the texts that its models were trained on.
class Llama2cText final : public Text {
 public:
  Llama2cText(const std::filesystem::path& path, std::int64_t vocab_size) : tokenizer_(path, vocab_size) {}

  [[nodiscard]] std::vector<std::int64_t> encode(const std::string& prompt) const override {
    return tokenizer_.encode(prompt);
  }
  std::string next(std::int64_t previous, std::int64_t id) override {
    return std::string(tenon::Llama2cTokenizer::printable(tokenizer_.decode(previous, id)));
  }
  [[nodiscard]] bool ends(std::int64_t id) const override { return id == tenon::Llama2cTokenizer::bos_id; }

 private:
  tenon::Llama2cTokenizer tokenizer_;
};

class JsonText final : public Text {
 public:
  explicit JsonText(const std::filesystem::path& path)
      : tokenizer_(tenon::Tokenizer::from_file(path)), stream_(tokenizer_) {
    const std::vector<std::int64_t> ids = encode("");
    if (ids.empty() || !tokenizer_.is_special(ids.front())) {
      throw tenon::FormatError("'" + path.string() + "' puts no special token before a text, and LLaMA 2 needs one");
    }
  }

  [[nodiscard]] std::vector<std::int64_t> encode(const std::string& prompt) const override {
    return tokenizer_.encode(prompt, {.parse_special = false, .add_special_tokens = true});
  }
  std::string next(std::int64_t, std::int64_t id) override { return stream_.push(id); }
  std::string rest() override { return stream_.flush(); }
  [[nodiscard]] bool ends(std::int64_t id) const override { return tokenizer_.is_special(id); }

 private:
  tenon::Tokenizer tokenizer_;
  tenon::TextStream stream_;
};

}  // namespace

std::unique_ptr<Text> open_text(const std::filesystem::path& path, const std::filesystem::path& model,
                                std::int64_t vocab_size) {
  std::error_code ignored;
  const std::filesystem::path own = model / "tokenizer.json";
  if (path.empty() && std::filesystem::exists(own, ignored)) return std::make_unique<JsonText>(own);
  if (path.extension() == ".json") return std::make_unique<JsonText>(path);
  return std::make_unique<Llama2cText>(path.empty() ? "tokenizer.bin" : path, vocab_size);
}

}  // namespace llama2
