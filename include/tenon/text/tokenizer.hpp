// The tokenizer: text to token ids and back, driven by a Hugging Face tokenizer.json.
//
//   const auto tokenizer = tenon::Tokenizer::from_folder("path/to/model");
//   std::vector<std::int64_t> ids = tokenizer.encode("Hello");
//   std::string text = tokenizer.decode(ids);
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/json.hpp>
#include <tenon/text/tokenizer_build.hpp>
#include <tenon/text/tokenizer_data.hpp>
#include <tenon/text/tokenizer_json.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

/// What `Tokenizer::encode` does besides splitting text into tokens.
struct EncodeOptions {
  /// Recognise control tokens such as `<|im_end|>` in the text. Set it to false for everything that a user typed: then
  /// no added token that is special, or that is matched before normalisation (as all control tokens are, also those
  /// that a model forgot to mark special), can come out of the text; it is encoded as the ordinary characters it is.
  bool parse_special = true;
  /// Add what the post-processor adds around the text (for LLaMA 2 the BOS token). Set it to false for the output of a
  /// chat template, which holds its own BOS.
  bool add_special_tokens = true;
};

/// A byte-level or SentencePiece-style BPE tokenizer, read from tokenizer.json. Constant after loading; copies share
/// the tables, and any number of threads may use one object, or copies of it, at once.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws FileError if it cannot be read, and FormatError
  /// naming the file and the field if it is malformed or asks for a step that is not known.
  static Tokenizer from_file(const std::filesystem::path& path);

  /// The tokenizer.json of a model folder.
  static Tokenizer from_folder(const std::filesystem::path& folder) { return from_file(folder / "tokenizer.json"); }

  /// The same from the text of a tokenizer.json; `name` stands for the file in error messages.
  static Tokenizer from_json(std::string_view json, const std::string& name = "tokenizer.json");

  /// The ids of `text`. Invalid UTF-8 is replaced by U+FFFD first, one for each maximal invalid part. Time grows as
  /// n log n at worst, whatever the text.
  std::vector<std::int64_t> encode(std::string_view text, EncodeOptions options = {}) const;

  /// The text of `ids`, always valid UTF-8: what is not becomes U+FFFD, one for each maximal invalid part, and nothing
  /// else does. (Hugging Face tokenizers replaces a whole run of byte-fallback tokens, each byte by one, if any byte in
  /// it is invalid; that could not be streamed.) Ids at or above the vocabulary, which
  /// models with a padded output layer can emit, decode to nothing; a negative id throws IndexError.
  std::string decode(std::span<const std::int64_t> ids, bool skip_special_tokens = false) const;

  /// The bytes that the token stands for in decoded text, before UTF-8 repair: `decode(ids)` is the concatenation of
  /// these, less `leading_spaces_stripped()` at the front, repaired. Byte-fallback tokens give their byte. Empty for ids
  /// at or above the vocabulary; IndexError for negative ones. The view lives as long as the tokenizer or a copy of it.
  std::string_view token_bytes(std::int64_t id) const;

  /// How many spaces at the very start of decoded text are dropped if present (1 for LLaMA 2, which adds one when
  /// encoding; else 0).
  std::size_t leading_spaces_stripped() const;

  /// The id of a token as tokenizer.json spells it ("Ġthe", "▁the", "<|im_end|>"), if there is one.
  std::optional<std::int64_t> token_to_id(std::string_view token) const;

  /// The token as tokenizer.json spells it; empty for ids that name none, IndexError for negative ones.
  std::string id_to_token(std::int64_t id) const;

  /// Whether the token is marked special, so that `skip_special_tokens` drops it. False for ids that name none.
  bool is_special(std::int64_t id) const;

  /// Whether the token is one of the added tokens, special or not.
  bool is_added(std::int64_t id) const;

  /// One more than the largest id. A model may have more rows than this.
  std::int64_t vocab_size() const;

 private:
  explicit Tokenizer(std::shared_ptr<const detail::TokenizerData> data) : data_(std::move(data)) {}
  static std::size_t checked_index(std::int64_t id);
  std::shared_ptr<const detail::TokenizerData> data_;
};

inline Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  return from_json(read_text_file(path, JsonLimits{}.max_bytes), path.string());
}

inline Tokenizer Tokenizer::from_json(std::string_view json, const std::string& name) {
  return Tokenizer(detail::build_tokenizer(detail::parse_tokenizer_json(json, name)));
}

inline std::vector<std::int64_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const detail::TokenizerData& data = *data_;
  if (text.size() >= std::numeric_limits<std::uint32_t>::max()) {
    throw ValueError("a text of " + std::to_string(text.size()) + " bytes is too long to tokenize at once");
  }
  std::string repaired;
  if (!is_valid_utf8(text)) {
    repaired = repair_utf8(text);
    text = repaired;
  }
  std::vector<std::int64_t> ids;
  ids.reserve(text.size() / 4 + 8);
  const auto put_token = [&](std::uint32_t id) { ids.push_back(id); };
  const auto put_piece = [&](std::string_view piece) { data.model.encode(piece, ids); };
  const detail::AddedTokenFinder& after = options.parse_special ? data.normalized_tokens : data.plain_tokens;
  std::string storage;
  const auto put_raw = [&](std::string_view part) {
    const std::string_view normalized = data.normalizer.apply(part, storage);
    after.run(normalized, put_token, [&](std::string_view rest) {
      const bool at_start = part.data() == text.data() && rest.data() == normalized.data();
      data.pre_tokenizer.run(rest, at_start, put_piece);
    });
  };
  if (options.add_special_tokens) ids = data.prefix;
  try {
    if (options.parse_special) {
      data.raw_tokens.run(text, put_token, put_raw);
    } else if (!text.empty()) {
      put_raw(text);
    }
  } catch (const ValueError& error) {  // a pattern or a step of the file that cannot cope with this text
    throw ValueError("'" + data.name + "': " + error.what());
  }
  if (options.add_special_tokens) ids.insert(ids.end(), data.suffix.begin(), data.suffix.end());
  return ids;
}

inline std::string Tokenizer::decode(std::span<const std::int64_t> ids, bool skip_special_tokens) const {
  std::string bytes;
  for (const std::int64_t id : ids) {
    if (!(skip_special_tokens && is_special(id))) bytes += token_bytes(id);
  }
  std::size_t start = 0;
  while (start < data_->leading_spaces && start < bytes.size() && bytes[start] == ' ') ++start;
  bytes.erase(0, start);
  return is_valid_utf8(bytes) ? bytes : repair_utf8(bytes);
}

inline std::string_view Tokenizer::token_bytes(std::int64_t id) const {
  const std::size_t index = checked_index(id);
  return index < data_->flags.size() ? data_->token_bytes(index) : std::string_view();
}

inline std::size_t Tokenizer::leading_spaces_stripped() const { return data_->leading_spaces; }

inline std::optional<std::int64_t> Tokenizer::token_to_id(std::string_view token) const {
  const std::uint32_t id = data_->find(std::string(token));
  return id == detail::TokenTable::none ? std::nullopt : std::optional<std::int64_t>(id);
}

inline std::string Tokenizer::id_to_token(std::int64_t id) const {
  const std::size_t index = checked_index(id);
  return index < data_->flags.size() ? data_->spelling(index) : std::string();
}

inline bool Tokenizer::is_special(std::int64_t id) const {
  const std::size_t index = checked_index(id);
  return index < data_->flags.size() && data_->flags[index].special;
}

inline bool Tokenizer::is_added(std::int64_t id) const {
  const std::size_t index = checked_index(id);
  return index < data_->flags.size() && data_->flags[index].added;
}

inline std::int64_t Tokenizer::vocab_size() const { return static_cast<std::int64_t>(data_->flags.size()); }

inline std::size_t Tokenizer::checked_index(std::int64_t id) {
  if (id < 0) throw IndexError("the token id " + std::to_string(id) + " is negative");
  return static_cast<std::size_t>(id);
}

TENON_NAMESPACE_END
