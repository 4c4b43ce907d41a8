// When an answer ends: stop ids, and stop strings found in streamed text.
//
// Stop strings are matched on bytes as the text arrives, so a stop string may span tokens and pieces. Held back is only
// the longest suffix of the text that could still grow into a stop string; everything before it is given out at once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>

TENON_NAMESPACE_BEGIN

/// The sorted union of several lists of ids.
///
/// Checkpoints disagree with themselves: a base model's config.json ends on `<|endoftext|>` while the tokenizer of its
/// instruct sibling ends on `<|im_end|>`. Whoever listens to one list only may never stop, so pass all of them here:
/// generation_config.json, tokenizer, config.json.
inline std::vector<std::int64_t> merge_stop_ids(std::initializer_list<std::span<const std::int64_t>> lists) {
  std::vector<std::int64_t> merged;
  for (const auto& list : lists) merged.insert(merged.end(), list.begin(), list.end());
  std::sort(merged.begin(), merged.end());
  merged.erase(std::unique(merged.begin(), merged.end()), merged.end());
  return merged;
}

/// The ids that end generation. Immutable after construction, so any number of threads may ask it.
class StopIds {
 public:
  /// No id stops.
  StopIds() = default;

  /// Takes ids in any order, repeated or not. Throws ValueError where an id lies outside [0, vocab_size): a wrong
  /// id would otherwise never match, or index past a table.
  StopIds(std::span<const std::int64_t> ids, std::int64_t vocab_size) : ids_(merge_stop_ids({ids})) {
    for (const std::int64_t id : ids_) {
      if (id < 0 || id >= vocab_size) {
        throw ValueError("stop id " + std::to_string(id) + " is outside the vocabulary of " +
                         std::to_string(vocab_size) + " ids");
      }
    }
  }

  bool contains(std::int64_t id) const noexcept { return std::binary_search(ids_.begin(), ids_.end(), id); }
  bool empty() const noexcept { return ids_.empty(); }

  /// The ids, ascending and distinct.
  std::span<const std::int64_t> ids() const noexcept { return ids_; }

 private:
  std::vector<std::int64_t> ids_;
};

/// Finds stop strings in text that arrives in pieces. One object serves one stream; it is not shared between threads.
///
/// The stop string that is complete first wins; of several that end at the same byte, the longest, which leaves the
/// least text. Judged byte by byte, so the result does not depend on how the text is cut into pieces.
class StopStrings {
 public:
  /// No string stops: `push` returns its argument.
  StopStrings() = default;

  /// Throws ValueError for an empty stop string, which would match before the first byte. Repeated strings are fine.
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
    for (const std::string& stop : stops_) {
      if (stop.empty()) throw ValueError("a stop string must not be empty");
    }
  }

  /// Takes the next piece of text and returns what may be shown: all text so far that is neither part of a stop string
  /// nor possibly the start of one. After a stop it returns nothing.
  std::string push(std::string_view piece) {
    if (stopped()) return {};
    std::size_t position = held_.size();
    held_.append(piece);
    for (; position < held_.size(); ++position) {
      const std::string* match = match_ending_at(position + 1);
      if (match == nullptr) continue;
      matched_ = *match;
      held_.resize(position + 1 - match->size());
      return std::exchange(held_, {});
    }
    const std::size_t keep = longest_open_suffix();
    std::string ready = held_.substr(0, held_.size() - keep);
    held_.erase(0, ready.size());
    return ready;
  }

  /// Call at the end of the text: returns what was held back, since it grew into no stop string.
  std::string flush() { return std::exchange(held_, {}); }

  bool stopped() const noexcept { return !matched_.empty(); }

  /// The stop string that ended the text, or nothing.
  const std::string& matched() const noexcept { return matched_; }

  /// Text that is held back at the moment: always a proper prefix of a stop string.
  const std::string& held() const noexcept { return held_; }

  /// Forgets the text and the match, and keeps the stop strings.
  void reset() noexcept {
    held_.clear();
    matched_.clear();
  }

 private:
  const std::string* match_ending_at(std::size_t end) const noexcept {
    const std::string_view text = std::string_view(held_).substr(0, end);
    const std::string* best = nullptr;
    for (const std::string& stop : stops_) {
      if (text.ends_with(stop) && (best == nullptr || stop.size() > best->size())) best = &stop;
    }
    return best;
  }

  std::size_t longest_open_suffix() const noexcept {
    const std::string_view text = held_;
    std::size_t longest = 0;
    for (const std::string& stop : stops_) {
      const std::string_view whole = stop;
      for (std::size_t n = std::min(whole.size() - 1, text.size()); n > longest; --n) {
        if (text.ends_with(whole.substr(0, n))) longest = n;
      }
    }
    return longest;
  }

  std::vector<std::string> stops_;
  std::string held_;
  std::string matched_;
};

TENON_NAMESPACE_END
