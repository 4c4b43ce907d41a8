// From the fields of a tokenizer.json to the tables of a Tokenizer: vocabulary, merges, added tokens. Whatever would
// change the ids and is not known is refused by name.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/text/tokenizer_data.hpp>
#include <tenon/text/tokenizer_json.hpp>
#include <tenon/text/tokenizer_steps.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// Ids must be below this: sixteen times the largest vocabulary known, and it bounds what a hostile file can allocate.
inline constexpr std::uint64_t max_token_ids = std::uint64_t{1} << 22;

inline std::uint32_t checked_token_id(const TokenizerJson& file, std::uint64_t id, std::string_view token) {
  if (id >= max_token_ids) {
    file.fail("the id " + std::to_string(id) + " of token '" + shortened(token) + "' is too large");
  }
  return static_cast<std::uint32_t>(id);
}

inline std::vector<AddedToken> read_added_tokens(const TokenizerJson& file, const TokenizerFields& root) {
  std::vector<AddedToken> tokens;
  if (root.find("added_tokens") == nullptr) return tokens;
  for (const TokenizerFields& fields : root.objects("added_tokens")) {
    AddedToken token;
    token.content = fields.string("content");
    token.id = checked_token_id(file, fields.integer("id"), token.content);
    token.special = fields.boolean("special", false);
    token.normalized = fields.boolean("normalized", !token.special);
    token.lstrip = fields.boolean("lstrip", false);
    token.rstrip = fields.boolean("rstrip", false);
    token.single_word = fields.boolean("single_word", false);
    if (token.content.empty()) fields.fail("content", "is empty");
    tokens.push_back(std::move(token));
  }
  return tokens;
}

inline void build_vocabulary(TokenizerData& data, const TokenizerJson& file, const std::vector<AddedToken>& added) {
  if (!file.has_vocab || file.vocab.empty()) file.fail("the field model.vocab is missing or empty");
  std::size_t id_count = 0;
  for (const TokenizerJson::VocabEntry& entry : file.vocab) {
    id_count = std::max<std::size_t>(id_count, checked_token_id(file, entry.id, file[entry.token]) + std::size_t{1});
  }
  for (const AddedToken& token : added) id_count = std::max<std::size_t>(id_count, token.id + std::size_t{1});
  TokenTable& table = data.model.table;
  table.reserve(id_count, file.vocab.size(), file.text.size());
  data.flags.resize(id_count);
  data.model.is_whole = std::make_unique<std::atomic<std::uint8_t>[]>(id_count);
  std::string bytes;
  for (const TokenizerJson::VocabEntry& entry : file.vocab) {
    const std::string_view spelling = file[entry.token];
    const auto id = static_cast<std::uint32_t>(entry.id);
    std::string_view text = spelling;
    if (data.model.byte_level) {
      bytes.clear();
      data.flags[id].literal = !append_bytes_of_spelling(bytes, spelling);
      if (!data.flags[id].literal) text = bytes;
    }
    if (!table.set(id, text)) file.fail("two tokens have the id " + std::to_string(id));
    const bool is_new = data.flags[id].literal ? data.unindexed.emplace(spelling, id).second : table.index(id);
    if (!is_new) file.fail("the token '" + shortened(spelling) + "' is there twice");
  }
}

inline void build_merges(TokenizerData& data, const TokenizerJson& file) {
  if (file.merges.empty()) file.fail("the field model.merges is missing or empty, so that no text could be merged");
  data.model.merges.reserve(file.merges.size());
  const TokenTable& table = data.model.table;
  std::string text;
  for (std::size_t i = 0; i < file.merges.size(); ++i) {
    const std::string_view left = file[file.merges[i].left];
    const std::string_view right = file[file.merges[i].right];
    std::size_t middle = left.size();
    std::uint32_t ids[3];
    text.clear();
    bool indexed = true;
    if (data.model.byte_level) {
      indexed = append_bytes_of_spelling(text, left);
      middle = text.size();
      indexed = indexed && append_bytes_of_spelling(text, right);
    } else {
      text.append(left).append(right);
    }
    const std::string_view whole = text;
    if (indexed) {
      ids[0] = table.find(whole.substr(0, middle));
      ids[1] = table.find(whole.substr(middle));
      ids[2] = table.find(whole);
    } else {  // never applies to byte-level text, yet must be consistent
      ids[0] = data.find(std::string(left));
      ids[1] = data.find(std::string(right));
      ids[2] = data.find(std::string(left) + std::string(right));
    }
    if (ids[0] == TokenTable::none || ids[1] == TokenTable::none || ids[2] == TokenTable::none) {
      file.fail("merge " + std::to_string(i) + " ('" + shortened(left) + "' with '" + shortened(right) +
                "') names a token that is not in the vocabulary");
    }
    data.model.merges.set(ids[0], ids[1], {static_cast<std::uint32_t>(i), ids[2]});
  }
}

inline void build_model(TokenizerData& data, const TokenizerJson& file, const TokenizerFields& root,
                        const std::vector<AddedToken>& added) {
  const TokenizerFields fields = root.object("model");
  if (fields.find("type") != nullptr && fields.string("type") != "BPE") {
    file.fail("the model type '" + shortened(fields.string("type")) + "' is not supported, only BPE is");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (fields.find(key) != nullptr && !fields.string(key).empty()) fields.fail(key, "is set, which is not supported");
  }
  const nlohmann::json* dropout = fields.find("dropout");
  if (dropout != nullptr && *dropout != 0.0) fields.fail("dropout", "is set, which is not supported");
  BpeModel& model = data.model;
  model.byte_fallback = fields.boolean("byte_fallback", false);
  model.fuse_unk = fields.boolean("fuse_unk", false);
  model.ignore_merges = fields.boolean("ignore_merges", false);
  build_vocabulary(data, file, added);
  model.inspect_vocabulary();
  build_merges(data, file);
  if (fields.find("unk_token") != nullptr) {
    model.unk = data.find(fields.string("unk_token"));
    if (model.unk == TokenTable::none) fields.fail("unk_token", "is not in the vocabulary");
  }
  bool has_all_bytes = true;
  model.has_all_fallbacks = model.byte_fallback;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char symbol = static_cast<char>(static_cast<unsigned char>(byte));
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", static_cast<unsigned>(byte));
    model.byte_symbols[byte] = model.table.find(std::string_view(&symbol, 1));
    model.fallback_symbols[byte] = model.byte_fallback ? model.table.find(name) : TokenTable::none;
    has_all_bytes = has_all_bytes && model.byte_symbols[byte] != TokenTable::none;
    model.has_all_fallbacks = model.has_all_fallbacks && model.fallback_symbols[byte] != TokenTable::none;
  }
  if (model.byte_level && model.byte_fallback && !has_all_bytes) {
    fields.fail("byte_fallback", "is set for a byte-level vocabulary that lacks some bytes, which is not supported");
  }
}

inline void build_added_tokens(TokenizerData& data, const TokenizerJson& file, const std::vector<AddedToken>& added) {
  std::size_t total = 0;
  for (const AddedToken& token : added) {
    const std::uint32_t known = data.find(token.content);
    const std::string id = std::to_string(token.id);
    if (known != TokenTable::none && known != token.id) {
      file.fail("the added token '" + shortened(token.content) + "' has the id " + id + ", but also " +
                std::to_string(known));
    }
    if (known == TokenTable::none) {
      std::string bytes;
      const bool literal = data.model.byte_level && !append_bytes_of_spelling(bytes, token.content);
      if (!data.model.table.set(token.id, data.model.byte_level && !literal ? bytes : token.content)) {
        file.fail("the added token '" + shortened(token.content) + "' has the id " + id + ", which '" +
                  shortened(data.spelling(token.id)) + "' has already");
      }
      data.flags[token.id].literal = literal;
      data.unindexed.emplace(token.content, token.id);
    }
    data.flags[token.id].added = true;
    data.flags[token.id].special = token.special;
    std::string storage;
    if (!token.normalized) {
      data.raw_tokens.add(token.content, token);
    } else {
      const std::string pattern(data.normalizer.apply(token.content, storage));
      total += pattern.size();
      if (total > max_expanded_bytes) file.fail("the normalizer makes the added tokens too long");
      data.normalized_tokens.add(pattern, token);
      if (!token.special) data.plain_tokens.add(pattern, token);
    }
  }
  data.raw_tokens.build();
  data.normalized_tokens.build();
  data.plain_tokens.build();
}

/// All of it. Throws FormatError naming the file.
inline std::shared_ptr<const TokenizerData> build_tokenizer(const TokenizerJson& file) {
  auto data = std::make_shared<TokenizerData>();
  data->name = file.name;
  const TokenizerFields root(file, file.rest, "");
  try {
    build_normalizer(*data, root);
    build_pre_tokenizer(*data, root);
    const std::vector<AddedToken> added = read_added_tokens(file, root);
    build_model(*data, file, root, added);
    build_added_tokens(*data, file, added);
    build_post_processor(*data, root);
    build_decoder(*data, root);
  } catch (const ValueError& error) {  // a regular expression, or steps that blow up a token
    file.fail(error.what());
  }
  return data;
}

}  // namespace detail

TENON_NAMESPACE_END
