// The tokenizer of llama2.c: tokenizer.bin, and the ids and texts that its programs make of it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <queue>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/text/token_table.hpp>

TENON_NAMESPACE_BEGIN

/// A vocabulary of llama2.c. Ids 0, 1 and 2 are <unk>, <s> and </s>, ids 3 to 258 are the bytes "<0x00>" to "<0xFF>", the
/// rest are pieces of text with a score each; of pieces with the same text, text is encoded to the first. Copies share their
/// data, which never changes after construction: any number of threads may use it.
class Llama2cTokenizer {
 public:
  static constexpr std::int64_t bos_id = 1;
  static constexpr std::int64_t eos_id = 2;

  /// Reads a file: int32 max_token_length, then for every token its float32 score, its int32 length and its bytes. The file
  /// does not say how many there are: `vocab_size` is the model's, or 0 to take all. Throws FileError if it cannot be read,
  /// and FormatError that names the token if it is malformed, has another number of tokens, or lacks the bytes.
  explicit Llama2cTokenizer(const std::filesystem::path& path, std::int64_t vocab_size = 0)
      : Llama2cTokenizer(FileMap::open(path), vocab_size) {}

  /// The same for bytes that are there already; they are copied.
  explicit Llama2cTokenizer(const FileMap& file, std::int64_t vocab_size = 0);

  [[nodiscard]] std::int64_t vocab_size() const noexcept { return static_cast<std::int64_t>(data_->scores.size()); }

  /// The bytes of a token as the file has them: "<0x0A>" for the byte 10. Throws IndexError for an id out of range.
  [[nodiscard]] std::string_view piece(std::int64_t id) const { return data_->table[checked(id)]; }
  /// Throws IndexError for an id out of range.
  [[nodiscard]] float score(std::int64_t id) const { return data_->scores[checked(id)]; }

  /// Ids of `text`. A space goes before it unless it is empty; code points that are no token become their bytes; then the
  /// adjacent pair whose joined text has the best score is merged, of equal scores the leftmost, until no pair is left. The
  /// ids are those of llama2.c's `encode`, in n log n steps instead of n². Any bytes are taken, well-formed UTF-8 or not.
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text, bool add_bos = true,
                                                 bool add_eos = false) const;

  /// The text of `id` after `previous`, as llama2.c's `decode`: behind BOS a leading space is dropped, and a piece that
  /// begins like "<0x0A" is that byte (the zero byte is no text). Valid while some copy of this object lives. `previous` may
  /// be anything. Throws IndexError for an id out of range.
  [[nodiscard]] std::string_view decode(std::int64_t previous, std::int64_t id) const {
    std::string_view text = piece(id);
    if (previous == bos_id && text.starts_with(' ')) text.remove_prefix(1);
    const int byte = byte_of(text);
    if (byte < 0) return text;
    return std::string_view(data_->bytes).substr(static_cast<std::size_t>(byte), byte == 0 ? 0 : 1);
  }

  /// What llama2.c's `safe_printf` lets through: everything but a single byte that is neither printable ASCII nor white
  /// space. A character that comes as several byte tokens is lost by this rule, as it is in llama2.c.
  [[nodiscard]] static std::string_view printable(std::string_view text) noexcept {
    if (text.size() != 1) return text;
    const auto byte = static_cast<unsigned char>(text[0]);
    const bool prints = (byte >= 0x20 && byte < 0x7F) || (byte >= '\t' && byte <= '\r');
    return prints ? text : std::string_view();
  }

  /// What llama2.c prints for a sequence: BOS has no text, and each other id is decoded behind the one before it. Throws
  /// IndexError for an id out of range.
  [[nodiscard]] std::string decode(std::span<const std::int64_t> ids) const {
    std::string text;
    std::int64_t previous = 0;
    for (const std::int64_t id : ids) {
      const std::string_view next = decode(previous, id);
      if (id != bos_id) text.append(printable(next));
      previous = id;
    }
    return text;
  }

 private:
  static constexpr std::int64_t first_byte_id = 3;
  static constexpr std::int64_t smallest_vocabulary = first_byte_id + 256;

  struct Data {
    detail::TokenTable table;
    std::vector<float> scores;
    std::size_t longest = 0;  // bytes of the longest token
    std::string bytes;        // every byte once
  };

  [[nodiscard]] std::size_t checked(std::int64_t id) const {
    if (id < 0 || id >= vocab_size()) {
      throw IndexError("tokenizer: id " + std::to_string(id) + " is out of range for a vocabulary of " +
                       std::to_string(vocab_size()));
    }
    return static_cast<std::size_t>(id);
  }

  /// llama2.c's sscanf(piece, "<0x%02hhX>"), which does not insist on what stands behind the digits: the byte, or -1.
  static int byte_of(std::string_view text) noexcept {
    const auto digit = [](char c) {
      if (c >= '0' && c <= '9') return c - '0';
      if (c >= 'A' && c <= 'F') return c - 'A' + 10;
      if (c >= 'a' && c <= 'f') return c - 'a' + 10;
      return -1;
    };
    if (!text.starts_with("<0x") || text.size() < 4) return -1;
    const int high = digit(text[3]);
    const int low = text.size() > 4 ? digit(text[4]) : -1;
    return high < 0 || low < 0 ? high : high * 16 + low;
  }

  /// How a file spells a byte: "<0x0A>".
  static std::string byte_piece(unsigned byte) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    return std::string("<0x") + digits[byte >> 4] + digits[byte & 0xFu] + '>';
  }

  [[nodiscard]] std::vector<std::uint32_t> first_symbols(std::string_view text, bool add_bos) const;
  void merge(std::vector<std::uint32_t>& symbols) const;

  std::shared_ptr<const Data> data_;
};

inline Llama2cTokenizer::Llama2cTokenizer(const FileMap& file, std::int64_t vocab_size) {
  const auto fail = [&](const std::string& what) {
    throw FormatError(detail::quoted(file.path()) + " is not a valid llama2.c tokenizer: " + what);
  };
  const std::span<const std::byte> bytes = file.bytes();
  std::size_t at = 0;
  const auto read = [&](auto value, const std::string& what) {
    if (bytes.size() - at < sizeof value) fail("it ends within " + what);
    std::memcpy(&value, bytes.data() + at, sizeof value);
    at += sizeof value;
    return value;
  };
  if (vocab_size < 0) throw ValueError("tokenizer: vocab_size is " + std::to_string(vocab_size));
  const auto max_length = read(std::int32_t{}, "max_token_length");
  if (max_length < 1) fail("max_token_length is " + std::to_string(max_length));

  // Two passes: every token is checked before anything is allocated for it.
  std::vector<std::string_view> pieces;
  auto data = std::make_shared<Data>();
  while (at < bytes.size()) {
    const std::string token = "token " + std::to_string(pieces.size());
    if (vocab_size > 0 && static_cast<std::int64_t>(pieces.size()) == vocab_size) {
      fail("it has more than the " + std::to_string(vocab_size) + " tokens of the model; it may be another model's");
    }
    const auto score = read(float{}, "the score of " + token);
    if (!std::isfinite(score)) fail(token + " has a score that is not finite");
    const auto length = read(std::int32_t{}, "the length of " + token);
    if (length < 1 || length > max_length) {
      fail(token + " has " + std::to_string(length) + " bytes, which is not within 1 and max_token_length " +
           std::to_string(max_length));
    }
    const auto size = static_cast<std::size_t>(length);
    if (bytes.size() - at < size) fail("it ends within the " + std::to_string(length) + " bytes of " + token);
    pieces.emplace_back(reinterpret_cast<const char*>(bytes.data() + at), size);
    if (pieces.back().find('\0') != std::string_view::npos) fail(token + " has a zero byte, which ends a text in C");
    at += size;
    data->scores.push_back(score);
    data->longest = std::max(data->longest, size);
  }
  const auto count = static_cast<std::int64_t>(pieces.size());
  if (vocab_size > 0 && count != vocab_size) {
    fail("it has " + std::to_string(count) + " tokens, and the model has " + std::to_string(vocab_size) +
         "; it may be another model's");
  }
  if (count < smallest_vocabulary) {
    fail("it has " + std::to_string(count) + " tokens, and the bytes alone need " +
         std::to_string(smallest_vocabulary));
  }
  for (std::int64_t id = first_byte_id; id < smallest_vocabulary; ++id) {
    const std::string byte = byte_piece(static_cast<unsigned>(id - first_byte_id));
    if (pieces[static_cast<std::size_t>(id)] != byte) fail("token " + std::to_string(id) + " is not the byte " + byte);
  }
  data->table.reserve(pieces.size(), pieces.size(), bytes.size());
  for (std::uint32_t id = 0; id < pieces.size(); ++id) {
    data->table.set(id, pieces[id]);
    data->table.index(id);
  }
  for (int byte = 0; byte < 256; ++byte) data->bytes.push_back(static_cast<char>(byte));
  data_ = std::move(data);
}

inline std::vector<std::int64_t> Llama2cTokenizer::encode(std::string_view text, bool add_bos, bool add_eos) const {
  std::vector<std::uint32_t> symbols = first_symbols(text, add_bos);
  merge(symbols);
  std::vector<std::int64_t> ids;
  ids.reserve(symbols.size() + 1);
  for (const std::uint32_t symbol : symbols) {
    if (symbol != detail::TokenTable::none) ids.push_back(symbol);
  }
  if (add_eos) ids.push_back(eos_id);
  return ids;
}

inline std::vector<std::uint32_t> Llama2cTokenizer::first_symbols(std::string_view text, bool add_bos) const {
  std::vector<std::uint32_t> symbols;
  symbols.reserve(text.size() + 2);
  const auto add = [&](std::string_view character) {
    const std::uint32_t id = data_->table.find(character);
    if (id != detail::TokenTable::none) {
      symbols.push_back(id);
      return;
    }
    for (const char byte : character) {
      symbols.push_back(static_cast<std::uint32_t>(first_byte_id) + static_cast<unsigned char>(byte));
    }
  };
  if (add_bos) symbols.push_back(static_cast<std::uint32_t>(bos_id));
  if (!text.empty()) add(" ");
  const auto continues = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0u) == 0x80u;
  };
  for (std::size_t i = 0; i < text.size();) {
    // A byte and up to three continuation bytes; llama2.c checks no more than that.
    std::size_t length = 1;
    while (length < 4 && continues(i + length)) ++length;
    add(text.substr(i, length));
    i += length;
  }
  return symbols;
}

/// Leaves TokenTable::none where a symbol was merged into the one before it. A candidate is outdated when a symbol of its
/// pair has changed since; then another was made for the new pair.
inline void Llama2cTokenizer::merge(std::vector<std::uint32_t>& symbols) const {
  struct Candidate {
    float score;
    std::size_t position;
    std::uint32_t left;
    std::uint32_t right;
    std::uint32_t joined;
    bool operator<(const Candidate& other) const {
      return score != other.score ? score < other.score : position > other.position;
    }
  };
  constexpr float lowest_score = -1e10f;  // llama2.c merges above this alone
  constexpr std::uint32_t gone = detail::TokenTable::none;
  const std::size_t count = symbols.size();
  std::string joined;
  const auto candidate = [&](std::size_t position, std::size_t follower, auto&& push) {
    const std::string_view left = data_->table[symbols[position]];
    const std::string_view right = data_->table[symbols[follower]];
    if (left.size() + right.size() > data_->longest) return;
    joined.assign(left).append(right);
    const std::uint32_t id = data_->table.find(joined);
    if (id == gone || !(data_->scores[id] > lowest_score)) return;
    push(Candidate{data_->scores[id], position, symbols[position], symbols[follower], id});
  };
  std::vector<std::size_t> next(count);      // count: there is none
  std::vector<std::size_t> previous(count);  // count: there is none
  std::vector<Candidate> initial;
  for (std::size_t i = 0; i < count; ++i) {
    next[i] = i + 1;
    previous[i] = i > 0 ? i - 1 : count;
    if (i + 1 < count) candidate(i, i + 1, [&](const Candidate& pair) { initial.push_back(pair); });
  }
  std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(initial));
  const auto push = [&](const Candidate& pair) { queue.push(pair); };
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t position = best.position;
    const std::size_t follower = next[position];
    if (symbols[position] != best.left || follower == count || symbols[follower] != best.right) continue;
    symbols[position] = best.joined;
    symbols[follower] = gone;
    next[position] = next[follower];
    if (next[position] != count) {
      previous[next[position]] = position;
      candidate(position, next[position], push);
    }
    if (previous[position] != count) candidate(previous[position], position, push);
  }
}

TENON_NAMESPACE_END
