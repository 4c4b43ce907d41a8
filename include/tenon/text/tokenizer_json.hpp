// Reading tokenizer.json. The vocabulary and the merges, nearly all of the file, go straight into flat arrays; the rest
// becomes a small JSON document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// A piece of `TokenizerJson::text`.
struct TextRange {
  std::size_t offset = 0;
  std::size_t length = 0;
};

/// The content of a tokenizer.json, its fields not yet checked.
struct TokenizerJson {
  struct VocabEntry {
    TextRange token;
    std::uint64_t id = 0;
  };
  struct MergeEntry {
    TextRange left;
    TextRange right;
  };
  std::string name;     ///< the file, for messages
  nlohmann::json rest;  ///< everything but model.vocab and model.merges
  std::string text;     ///< what the ranges refer to
  std::vector<VocabEntry> vocab;
  std::vector<MergeEntry> merges;
  bool has_vocab = false;
  bool has_merges = false;

  std::string_view operator[](TextRange range) const {
    return std::string_view(text).substr(range.offset, range.length);
  }
  [[noreturn]] void fail(const std::string& what) const { throw FormatError("'" + name + "': " + what); }
};

/// The event handler that nlohmann::json drives. Merges are read in both spellings, "a b" and ["a", "b"].
class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(TokenizerJson& out) : out_(out) {}

  bool null() { return value(nullptr); }
  bool boolean(bool flag) { return value(flag); }
  bool number_integer(std::int64_t number) { return value(number); }
  bool number_float(double number, const std::string&) { return value(number); }
  bool binary(nlohmann::json::binary_t&) { return false; }  // JSON text has none

  bool number_unsigned(std::uint64_t number) {
    if (part_ != Part::vocab) return value(number);
    out_.vocab.push_back({token_, number});
    return true;
  }

  bool string(std::string& text) {
    if (part_ == Part::merges) {
      const std::size_t space = text.find(' ');
      if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) {
        fail_merge("is not two tokens with one space between them");
      }
      const std::size_t offset = keep(text).offset;
      out_.merges.push_back({{offset, space}, {offset + space + 1, text.size() - space - 1}});
      return true;
    }
    if (part_ == Part::pair) {
      if (pair_count_ >= 2) fail_merge("is not a pair of strings");
      pair_[pair_count_++] = keep(text);
      return true;
    }
    return value(std::move(text));
  }

  bool key(std::string& name) {
    if (part_ == Part::vocab) {
      token_ = keep(name);
    } else {
      keys_.back() = std::move(name);
    }
    return true;
  }

  bool start_object(std::size_t) {
    if (part_ == Part::rest && at_model_field("vocab")) {
      if (std::exchange(out_.has_vocab, true)) out_.fail("the field model.vocab is there twice");
      part_ = Part::vocab;
      return true;
    }
    return open(nlohmann::json::object());
  }

  bool end_object() {
    if (part_ == Part::vocab) {
      part_ = Part::rest;
      return true;
    }
    return close();
  }

  bool start_array(std::size_t) {
    if (part_ == Part::rest && at_model_field("merges")) {
      if (std::exchange(out_.has_merges, true)) out_.fail("the field model.merges is there twice");
      part_ = Part::merges;
      return true;
    }
    if (part_ == Part::merges) {
      part_ = Part::pair;
      pair_count_ = 0;
      return true;
    }
    return open(nlohmann::json::array());
  }

  bool end_array() {
    if (part_ == Part::pair) {
      if (pair_count_ != 2) fail_merge("is not a pair of strings");
      out_.merges.push_back({pair_[0], pair_[1]});
      part_ = Part::merges;
      return true;
    }
    if (part_ == Part::merges) {
      part_ = Part::rest;
      return true;
    }
    return close();
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) {
    out_.fail("malformed JSON near byte " + std::to_string(position));
  }

 private:
  enum class Part { rest, vocab, merges, pair };
  static constexpr std::size_t max_depth = 64;

  bool at_model_field(std::string_view field) const {
    return keys_.size() == 2 && keys_[0] == "model" && keys_[1] == field;
  }

  TextRange keep(const std::string& text) {
    const TextRange range{out_.text.size(), text.size()};
    out_.text += text;
    return range;
  }

  [[noreturn]] void fail_merge(const std::string& what) const {
    out_.fail("merge " + std::to_string(out_.merges.size()) + " " + what);
  }

  template <class Value>
  bool value(Value&& item) {
    if (part_ == Part::vocab) {
      out_.fail("the id of token '" + shortened(out_[token_]) + "' is not a non-negative integer");
    }
    if (part_ != Part::rest) fail_merge("is not a string or a pair of strings");
    place(nlohmann::json(std::forward<Value>(item)));
    return true;
  }

  nlohmann::json* place(nlohmann::json item) {
    if (open_.empty()) {
      out_.rest = std::move(item);
      return &out_.rest;
    }
    nlohmann::json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(item));
      return &parent.back();
    }
    return &(parent[keys_.back()] = std::move(item));
  }

  bool open(nlohmann::json container) {
    if (part_ == Part::vocab) {
      out_.fail("the id of token '" + shortened(out_[token_]) + "' is not a non-negative integer");
    }
    if (part_ != Part::rest) fail_merge("is not a string or a pair of strings");
    if (open_.size() == max_depth) out_.fail("the JSON is nested too deeply");
    open_.push_back(place(std::move(container)));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  TokenizerJson& out_;
  Part part_ = Part::rest;
  TextRange token_;
  TextRange pair_[2];
  std::size_t pair_count_ = 0;
  std::vector<nlohmann::json*> open_;  // containers being read; each parent holds still while its child is open
  std::vector<std::string> keys_;      // the current key in each of them; empty in arrays
};

/// Parses `json`; `name` stands for the file in messages. Throws FormatError if it is not JSON or not an object.
inline TokenizerJson parse_tokenizer_json(std::string_view json, const std::string& name) {
  check_json_text(json, name, JsonLimits{});
  TokenizerJson result;
  result.name = name;
  result.text.reserve(json.size() / 2);
  TokenizerJsonReader reader(result);
  nlohmann::json::sax_parse(json.data(), json.data() + json.size(), &reader);
  if (!result.rest.is_object()) result.fail("not a JSON object");
  return result;
}

/// A JSON object together with its path in the file, for readers of fields that complain in one sentence.
class TokenizerFields {
 public:
  TokenizerFields(const TokenizerJson& file, const nlohmann::json& object, std::string path)
      : file_(&file), object_(&object), path_(std::move(path)) {
    if (!object.is_object()) file.fail("the field " + shortened(path_) + " is not an object");
  }

  const std::string& path() const { return path_; }
  std::string path(const std::string& key) const { return path_.empty() ? key : path_ + "." + key; }
  [[noreturn]] void fail(const std::string& what) const { file_->fail(what); }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    file_->fail("the field " + shortened(path(key)) + " " + what);
  }

  /// The value, or null if the field is missing or JSON's null.
  const nlohmann::json* find(const std::string& key) const {
    const auto found = object_->find(key);
    return found == object_->end() || found->is_null() ? nullptr : &*found;
  }

  TokenizerFields object(const std::string& key) const { return {*file_, require(key), path(key)}; }

  /// The elements of an array, each an object.
  std::vector<TokenizerFields> objects(const std::string& key) const {
    const nlohmann::json& array = require(key);
    if (!array.is_array()) fail(key, "is not an array");
    std::vector<TokenizerFields> result;
    for (std::size_t i = 0; i < array.size(); ++i) {
      result.emplace_back(*file_, array[i], path(key) + "[" + std::to_string(i) + "]");
    }
    return result;
  }

  std::string string(const std::string& key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_string()) fail(key, "is not a string");
    return value.get<std::string>();
  }

  bool boolean(const std::string& key, bool fallback) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) fail(key, "is not true or false");
    return value->get<bool>();
  }

  std::uint64_t integer(const std::string& key) const {
    const nlohmann::json& value = require(key);
    if (!value.is_number_unsigned()) fail(key, "is not a non-negative integer");
    return value.get<std::uint64_t>();
  }

 private:
  const nlohmann::json& require(const std::string& key) const {
    const nlohmann::json* value = find(key);
    if (value == nullptr) fail(key, "is missing");
    return *value;
  }

  const TokenizerJson* file_;
  const nlohmann::json* object_;
  std::string path_;
};

}  // namespace detail

TENON_NAMESPACE_END
