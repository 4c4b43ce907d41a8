// Byte-pair encoding: one piece of text to token ids.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/token_table.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// The merges: a pair of ids to its rank and the id it becomes. Open addressing with linear probing.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;
    std::uint32_t id;
  };
  static constexpr std::uint32_t no_rank = 0xFFFFFFFFu;

  void reserve(std::size_t count) {
    std::size_t capacity = 16;
    while (capacity * 2 < count * 3) capacity *= 2;
    slots_.assign(capacity, Slot{empty, {no_rank, 0}});
  }

  /// A pair given twice keeps its last rank, as in Hugging Face tokenizers. At most as many as `reserve` was told.
  void set(std::uint32_t left, std::uint32_t right, Merge merge) {
    const std::uint64_t key = std::uint64_t{left} << 32 | right;
    Slot& slot = slots_[slot_of(key)];
    slot = {key, merge};
  }

  /// The merge of a pair; rank `no_rank` if it has none.
  Merge find(std::uint32_t left, std::uint32_t right) const {
    return slots_[slot_of(std::uint64_t{left} << 32 | right)].merge;
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t key;
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t key) const {
    const std::size_t mask = slots_.size() - 1;
    std::size_t slot = static_cast<std::size_t>(mix_bits(key)) & mask;
    while (slots_[slot].key != key && slots_[slot].key != empty) slot = (slot + 1) & mask;
    return slot;
  }
  std::vector<Slot> slots_;
};

/// A BPE model. Constant after loading but for a byte per token, set atomically, that remembers whether the token's own
/// text encodes to just that token: so threads share it without locks.
struct BpeModel {
  static constexpr std::string_view word_marker = "\xE2\x96\x81";  ///< U+2581, SentencePiece's visible space

  TokenTable table;  ///< byte-level: the bytes of each token; else its text. Only tokens of the vocabulary are indexed.
  MergeTable merges;
  bool byte_level = false;
  bool byte_fallback = false;
  bool ignore_merges = false;
  bool fuse_unk = false;
  std::uint32_t unk = TokenTable::none;
  std::array<std::uint32_t, 256> byte_symbols{};  ///< byte-level: the token of each byte; else of each ASCII character
  std::array<std::uint32_t, 256> fallback_symbols{};  ///< the tokens <0x00> to <0xFF>
  bool has_all_fallbacks = false;
  /// Whether no token holds the marker after another character: then no merge crosses the start of a word, and words
  /// are encoded one by one though the text comes in one piece.
  bool words_are_separate = false;
  mutable std::unique_ptr<std::atomic<std::uint8_t>[]> is_whole;  ///< 0 not known yet, 1 yes, 2 no

  /// Appends the ids of `piece`, which is valid UTF-8 unless the model is byte-level, and not empty.
  void encode(std::string_view piece, std::vector<std::int64_t>& out) const {
    if (ignore_merges) {
      const std::uint32_t whole = table.find(piece);
      if (whole != TokenTable::none) {
        out.push_back(whole);
        return;
      }
    }
    while (words_are_separate && !piece.empty()) {
      std::size_t end = 0;
      while (piece.substr(end, word_marker.size()) == word_marker) end += word_marker.size();
      end = std::min(piece.find(word_marker, end), piece.size());
      encode_word(piece.substr(0, end), out);
      piece.remove_prefix(end);
    }
    if (!piece.empty()) encode_word(piece, out);
  }

  /// Decides `words_are_separate`; called once the table is complete.
  void inspect_vocabulary() {
    words_are_separate = !byte_level && table.find(word_marker) != TokenTable::none;
    for (std::size_t id = 0; words_are_separate && id < table.size(); ++id) {
      const std::string_view text = table[id];
      std::size_t at = text.find(word_marker, 1);
      for (; at != std::string_view::npos; at = text.find(word_marker, at + 1)) {
        if (at < word_marker.size() || text.substr(at - word_marker.size(), word_marker.size()) != word_marker) break;
      }
      words_are_separate = at == std::string_view::npos;
    }
  }

 private:
  static constexpr std::size_t short_limit = 40;

  void encode_word(std::string_view word, std::vector<std::int64_t>& out) const {
    const std::uint32_t whole = table.find(word);
    if (whole == TokenTable::none) {
      merge(word, out);
      return;
    }
    std::uint8_t state = is_whole[whole].load(std::memory_order_relaxed);
    if (state == 1) {
      out.push_back(whole);
      return;
    }
    const std::size_t before = out.size();
    merge(word, out);
    if (state == 0) {
      state = out.size() == before + 1 && out[before] == static_cast<std::int64_t>(whole) ? 1 : 2;
      is_whole[whole].store(state, std::memory_order_relaxed);
    }
  }

  void merge(std::string_view piece, std::vector<std::int64_t>& out) const {
    if (piece.size() <= short_limit) {
      std::array<std::uint32_t, short_limit> symbols;
      const std::size_t count = split_symbols(piece, symbols.data());
      merge_short(symbols.data(), count, out);
    } else {
      std::vector<std::uint32_t> symbols(piece.size());
      symbols.resize(split_symbols(piece, symbols.data()));
      merge_long(symbols, out);
    }
  }

  /// Writes the first symbols of `piece`, at most one for each byte. A character that the vocabulary lacks becomes its
  /// bytes' tokens, or the unknown token, or nothing, as the model says.
  std::size_t split_symbols(std::string_view piece, std::uint32_t* symbols) const {
    std::size_t count = 0;
    bool pending_unk = false;
    for (std::size_t i = 0; i < piece.size();) {
      const auto lead = static_cast<unsigned char>(piece[i]);
      std::size_t length = 1;
      std::uint32_t symbol;
      if (byte_level || lead < 0x80) {
        symbol = byte_symbols[lead];
      } else {
        length = decode_utf8(piece, i).length;
        symbol = table.find(piece.substr(i, length));
      }
      if (symbol != TokenTable::none) {
        if (pending_unk) symbols[count++] = unk;
        pending_unk = false;
        symbols[count++] = symbol;
      } else if (byte_fallback && (has_all_fallbacks || can_fall_back(piece.substr(i, length)))) {
        for (std::size_t k = 0; k < length; ++k) {
          symbols[count++] = fallback_symbols[static_cast<unsigned char>(piece[i + k])];
        }
      } else if (unk != TokenTable::none) {
        if (pending_unk && !fuse_unk) symbols[count++] = unk;
        pending_unk = true;
      }
      i += length;
    }
    if (pending_unk) symbols[count++] = unk;
    return count;
  }

  bool can_fall_back(std::string_view character) const {
    return std::all_of(character.begin(), character.end(), [&](char byte) {
      return fallback_symbols[static_cast<unsigned char>(byte)] != TokenTable::none;
    });
  }

  /// Quadratic in `count`, with a constant that beats the queue for words.
  void merge_short(std::uint32_t* symbols, std::size_t count, std::vector<std::int64_t>& out) const {
    std::array<MergeTable::Merge, short_limit> pairs;
    for (std::size_t i = 0; i + 1 < count; ++i) pairs[i] = merges.find(symbols[i], symbols[i + 1]);
    while (count > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < count; ++i) {
        if (pairs[i].rank < pairs[best].rank) best = i;
      }
      if (pairs[best].rank == MergeTable::no_rank) break;
      symbols[best] = pairs[best].id;
      --count;
      for (std::size_t i = best + 1; i < count; ++i) {
        symbols[i] = symbols[i + 1];
        pairs[i - 1] = pairs[i];
      }
      if (best + 1 < count) pairs[best] = merges.find(symbols[best], symbols[best + 1]);
      if (best > 0) pairs[best - 1] = merges.find(symbols[best - 1], symbols[best]);
    }
    out.insert(out.end(), symbols, symbols + count);
  }

  /// The same by a queue of pairs, lowest rank and then leftmost first: n log n for pieces of any length.
  void merge_long(std::vector<std::uint32_t>& symbols, std::vector<std::int64_t>& out) const {
    struct Candidate {
      std::uint64_t order;  // rank, then position
      std::uint32_t left;
      std::uint32_t right;
      std::uint32_t id;
      bool operator<(const Candidate& other) const { return order > other.order; }
    };
    constexpr std::uint32_t end = 0xFFFFFFFFu;
    constexpr std::uint32_t gone = TokenTable::none;
    const std::size_t count = symbols.size();
    std::vector<std::uint32_t> next(count);
    std::vector<std::uint32_t> previous(count);
    std::vector<Candidate> initial;
    const auto candidate = [&](std::size_t position, std::size_t follower, std::vector<Candidate>* bulk, auto& queue) {
      const MergeTable::Merge found = merges.find(symbols[position], symbols[follower]);
      if (found.rank == MergeTable::no_rank) return;
      const Candidate entry{std::uint64_t{found.rank} << 32 | position, symbols[position], symbols[follower], found.id};
      if (bulk != nullptr) {
        bulk->push_back(entry);
      } else {
        queue.push(entry);
      }
    };
    std::priority_queue<Candidate> none_yet;
    for (std::size_t i = 0; i < count; ++i) {
      next[i] = i + 1 < count ? static_cast<std::uint32_t>(i + 1) : end;
      previous[i] = i > 0 ? static_cast<std::uint32_t>(i - 1) : end;
      if (i + 1 < count) candidate(i, i + 1, &initial, none_yet);
    }
    std::priority_queue<Candidate> queue(std::less<Candidate>(), std::move(initial));
    while (!queue.empty()) {
      const Candidate top = queue.top();
      queue.pop();
      const auto position = static_cast<std::uint32_t>(top.order);
      const std::uint32_t follower = next[position];
      if (symbols[position] != top.left || follower == end || symbols[follower] != top.right) continue;  // outdated
      symbols[position] = top.id;
      symbols[follower] = gone;
      next[position] = next[follower];
      if (next[position] != end) {
        previous[next[position]] = position;
        candidate(position, next[position], nullptr, queue);
      }
      if (previous[position] != end) candidate(previous[position], position, nullptr, queue);
    }
    for (const std::uint32_t symbol : symbols) {
      if (symbol != gone) out.push_back(symbol);
    }
  }
};

}  // namespace detail

TENON_NAMESPACE_END
