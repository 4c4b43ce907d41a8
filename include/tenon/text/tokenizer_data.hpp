// The tables behind a Tokenizer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/added_tokens.hpp>
#include <tenon/text/bpe.hpp>
#include <tenon/text/byte_level.hpp>
#include <tenon/text/normalizer.hpp>
#include <tenon/text/pre_tokenizer.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Everything that a tokenizer.json says, in the form that encoding and decoding use. Constant after loading, and shared
/// by all copies of a Tokenizer on all threads.
struct TokenizerData {
  struct TokenFlags {
    bool added = false;
    bool special = false;
    bool literal = false;  ///< of a byte-level vocabulary, yet spelled in characters that stand for no byte
  };

  std::string name;  ///< the file, for messages
  BpeModel model;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  AddedTokenFinder raw_tokens;         ///< found before normalisation
  AddedTokenFinder normalized_tokens;  ///< found after it
  AddedTokenFinder plain_tokens;       ///< those of the latter that are not special
  std::vector<TokenFlags> flags;       ///< by id
  TokenTable decoded;                  ///< by id, not indexed; unused by byte-level models, which have it in the model
  std::unordered_map<std::string, std::uint32_t> unindexed;  ///< spelling to id of tokens that BPE must not find
  std::size_t leading_spaces = 0;                            ///< to drop from decoded text
  std::vector<std::int64_t> prefix;                          ///< ids that the post-processor puts before a text
  std::vector<std::int64_t> suffix;                          ///< and after it

  std::string_view token_bytes(std::size_t id) const { return model.byte_level ? model.table[id] : decoded[id]; }

  std::string spelling(std::size_t id) const {
    const std::string_view text = model.table[id];
    return model.byte_level && !flags[id].literal ? spell_bytes(text) : std::string(text);
  }

  /// The id of a token by its spelling in tokenizer.json, or TokenTable::none.
  std::uint32_t find(const std::string& spelled) const {
    const auto found = unindexed.find(spelled);
    if (found != unindexed.end()) return found->second;
    if (!model.byte_level) return model.table.find(spelled);
    std::string bytes;
    return append_bytes_of_spelling(bytes, spelled) ? model.table.find(bytes) : TokenTable::none;
  }
};

}  // namespace detail

TENON_NAMESPACE_END
