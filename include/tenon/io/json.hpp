// JSON files from strangers: bounded parsing, and fields that say which file and which name is wrong.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>

TENON_NAMESPACE_BEGIN

/// What a JSON text may cost. The depth bounds every recursive walk over the result.
struct JsonLimits {
  /// Far above the largest tokenizer.json in use, and small enough for memory.
  std::size_t max_bytes = std::size_t{256} << 20;
  int max_depth = 128;
  bool reject_duplicate_keys = true;  ///< two values under one name have no agreed meaning
};

namespace detail {

/// Text from a file for a message: at most about `limit` bytes, never cut inside a UTF-8 character, and with control
/// characters spelled out, so that a message stays one line and cannot steer a terminal.
inline std::string shortened(std::string_view text, std::size_t limit = 120) {
  const bool cut = text.size() > limit;
  if (cut) {
    while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0u) == 0x80u) --limit;
    text = text.substr(0, limit);
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (code < 0x20 || code == 0x7f) {
      result += {'\\', 'x', digits[code >> 4], digits[code & 0xfu]};
    } else {
      result += c;
    }
  }
  return cut ? result + "…" : result;
}

/// Whether lists and objects lie within each other more than `most` levels deep. Not recursive, so that it can stand in
/// front of a recursive walk, as copying a document is one.
template <class Json>
bool nested_deeper_than(const Json& value, int most) {
  std::vector<std::pair<const Json*, int>> open{{&value, 1}};
  while (!open.empty()) {
    const auto [node, depth] = open.back();
    open.pop_back();
    if (!node->is_structured()) continue;
    if (depth > most) return true;
    for (const Json& child : *node) {
      if (child.is_structured()) open.emplace_back(&child, depth + 1);
    }
  }
  return false;
}

/// The parser's message without its prefix: "line 1, column 2: syntax error …".
inline std::string json_reason(const nlohmann::json::exception& error) {
  std::string text = error.what();
  for (const std::string_view prefix : {"] ", "parse error at ", "parse error: "}) {
    if (const std::size_t at = text.find(prefix); at != std::string::npos && at < 64) text.erase(0, at + prefix.size());
  }
  return shortened(text, 240);
}

/// For everything that the grammar, or a limit, forbids.
[[noreturn]] inline void throw_json(std::string_view name, const std::string& what) {
  throw FormatError("'" + std::string(name) + "' is not valid JSON: " + what);
}

/// The checks that the parser leaves out, for a text that is about to be parsed.
inline void check_json_text(std::string_view text, std::string_view name, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    throw FormatError("'" + std::string(name) + "' has " + std::to_string(text.size()) +
                      " bytes of JSON, and at most " + std::to_string(limits.max_bytes) + " are read");
  }
  // The parser takes a zero byte for the end and would silently drop what follows.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    throw_json(name, "there is a zero byte at offset " + std::to_string(at));
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) throw_json(name, "it is empty");
}

}  // namespace detail

/// Parses `text`; `name` stands for it in messages. A UTF-8 byte order mark is skipped. Throws FormatError.
inline nlohmann::json parse_json(std::string_view text, std::string_view name, const JsonLimits& limits = {}) {
  using Event = nlohmann::json::parse_event_t;
  detail::check_json_text(text, name, limits);
  // The parser itself is iterative: only depth and names need watching, and both are known as it goes.
  std::vector<std::unordered_set<std::string>> keys;  // one set for each object that is open
  const auto watch = [&](int depth, Event event, nlohmann::json& value) {
    switch (event) {
      case Event::object_start:
      case Event::array_start:
        if (depth >= limits.max_depth) {
          detail::throw_json(name, "it is nested more than " + std::to_string(limits.max_depth) + " levels deep");
        }
        if (event == Event::object_start) keys.emplace_back();
        break;
      case Event::object_end: keys.pop_back(); break;
      case Event::key:
        if (limits.reject_duplicate_keys && !keys.back().insert(value.get_ref<const std::string&>()).second) {
          detail::throw_json(name, "the key '" + detail::shortened(value.get_ref<const std::string&>()) +
                                       "' appears twice in one object");
        }
        break;
      default: break;
    }
    return true;
  };
  try {
    return nlohmann::json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    detail::throw_json(name, detail::json_reason(error));
  }
}

/// Reads and parses a file. Throws FileError if it cannot be read and FormatError if it is not JSON.
inline nlohmann::json read_json_file(const std::filesystem::path& path, const JsonLimits& limits = {}) {
  return parse_json(read_text_file(path, limits.max_bytes), path.string(), limits);
}

/// Reads typed fields of one JSON object; every error names the file and the field. It refers to `value` and owns only
/// the text for messages. Absent and null are the same, as in the files of Hugging Face.
class JsonFields {
 public:
  /// `prefix` is the way to a nested object, for example "rope_parameters.". Throws if `value` is no object.
  JsonFields(const nlohmann::json& value, std::string file, std::string prefix = {})
      : value_(&value), file_(std::move(file)), prefix_(std::move(prefix)) {
    if (value.is_object()) return;
    throw FormatError("'" + file_ + "': " + (prefix_.empty() ? "the file" : "field '" + prefix_ + "'") +
                      " must be a JSON object, but is " + describe(value));
  }

  /// The name that stands for the file in messages.
  [[nodiscard]] const std::string& file() const noexcept { return file_; }

  /// The value, or nullptr if it is absent or null.
  [[nodiscard]] const nlohmann::json* find(const char* key) const {
    const auto found = value_->find(key);
    return found == value_->end() || found->is_null() ? nullptr : &*found;
  }

  /// True if the key is there, with null as its value too.
  [[nodiscard]] bool contains(const char* key) const { return value_->contains(key); }

  // Getters: `optional_…` gives nothing for an absent or null field, the others throw. A value of the wrong kind always
  // throws FormatError; nothing is converted, so 896.0 and "896" are no integers, and 1 is not true.

  [[nodiscard]] std::optional<std::int64_t> optional_integer(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return std::nullopt;
    return as_integer(*found, key);
  }
  [[nodiscard]] std::int64_t integer(const char* key) const { return as_integer(require(key), key); }

  [[nodiscard]] std::optional<double> optional_number(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return std::nullopt;
    return as_number(*found, key);
  }
  [[nodiscard]] double number(const char* key) const { return as_number(require(key), key); }

  [[nodiscard]] std::optional<bool> optional_boolean(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return std::nullopt;
    if (!found->is_boolean()) wrong(key, "true or false", *found);
    return found->get<bool>();
  }

  [[nodiscard]] std::optional<std::string> optional_string(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return std::nullopt;
    if (!found->is_string()) wrong(key, "a string", *found);
    return found->get<std::string>();
  }
  [[nodiscard]] std::string string(const char* key) const {
    const nlohmann::json& found = require(key);
    if (!found.is_string()) wrong(key, "a string", found);
    return found.get<std::string>();
  }

  /// An integer, a list of integers, or nothing.
  [[nodiscard]] std::vector<std::int64_t> integer_list(const char* key) const {
    std::vector<std::int64_t> result;
    const nlohmann::json* found = find(key);
    if (found == nullptr) return result;
    if (!found->is_array()) return {as_integer(*found, key)};
    for (const nlohmann::json& item : *found) result.push_back(as_integer(item, key));
    return result;
  }

  /// A list of strings, or nothing.
  [[nodiscard]] std::vector<std::string> string_list(const char* key) const {
    std::vector<std::string> result;
    const nlohmann::json* found = find(key);
    if (found == nullptr) return result;
    if (!found->is_array()) wrong(key, "a list of strings", *found);
    for (const nlohmann::json& item : *found) {
      if (!item.is_string()) wrong(key, "a list of strings", item);
      result.push_back(item.get<std::string>());
    }
    return result;
  }

  /// A nested object; it refers to the same document, which must live on.
  [[nodiscard]] std::optional<JsonFields> optional_object(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) return std::nullopt;
    if (!found->is_object()) wrong(key, "a JSON object", *found);
    return JsonFields(*found, file_, prefix_ + key + ".");
  }

  /// Throws FormatError: "'file': field 'key' what".
  [[noreturn]] void fail(const char* key, const std::string& what) const {
    throw FormatError("'" + file_ + "': field '" + prefix_ + key + "' " + what);
  }

  /// Throws FormatError: the field must be `expected`, but is `got`.
  [[noreturn]] void wrong(const char* key, const char* expected, const nlohmann::json& got) const {
    fail(key, std::string("must be ") + expected + ", but is " + describe(got));
  }

  /// A value for a message: its text, or its kind where the text would be long.
  static std::string describe(const nlohmann::json& value) {
    if (value.is_object()) return "an object";
    if (value.is_array()) return "a list of " + std::to_string(value.size());
    return detail::shortened(value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), 60);
  }

 private:
  [[nodiscard]] const nlohmann::json& require(const char* key) const {
    const nlohmann::json* found = find(key);
    if (found == nullptr) fail(key, "is missing");
    return *found;
  }

  [[nodiscard]] std::int64_t as_integer(const nlohmann::json& value, const char* key) const {
    if (!value.is_number_integer()) wrong(key, "an integer", value);
    if (value.is_number_unsigned() &&
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) {
      wrong(key, "an integer of 64 bits", value);
    }
    return value.get<std::int64_t>();
  }

  [[nodiscard]] double as_number(const nlohmann::json& value, const char* key) const {
    if (!value.is_number()) wrong(key, "a number", value);
    return value.get<double>();
  }

  const nlohmann::json* value_;
  std::string file_;
  std::string prefix_;
};

TENON_NAMESPACE_END
