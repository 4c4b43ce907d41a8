// The pre-tokenisation steps of a tokenizer.json: a text into the pieces that BPE never merges across.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/ascii_split.hpp>
#include <tenon/text/regex.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// What becomes of the matches of a Split step: a piece of their own, dropped, joined to a neighbour, or joined to
/// adjacent ones of their kind.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// One step: split at the matches of a pattern, or put a space before pieces that do not begin with one.
struct PreTokenizerStep {
  std::shared_ptr<const Regex> regex;  ///< null for the space
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;           ///< exchange the roles of matches and the text between them
  std::size_t ascii_digits = 0;  ///< not 0: `ascii_split` with this many digits answers for `regex` where it can
};

/// All steps in order. Constant after loading; `run` may be called from many threads.
class PreTokenizer {
 public:
  void add(PreTokenizerStep step) { steps_.push_back(std::move(step)); }

  /// Calls `sink(piece)` for each piece of valid UTF-8 `text`, in order; no piece is empty.
  template <class Sink>
  void run(std::string_view text, Sink&& sink) const {
    std::vector<std::optional<RegexMatcher>> matchers(steps_.size());
    run_step(0, text, matchers, sink);
  }

 private:
  using Matchers = std::vector<std::optional<RegexMatcher>>;

  template <class Sink>
  void run_step(std::size_t index, std::string_view text, Matchers& matchers, Sink& sink) const {
    if (text.empty()) return;
    if (index == steps_.size()) {
      sink(text);
      return;
    }
    const PreTokenizerStep& step = steps_[index];
    if (!step.regex) {
      add_space(index, text, matchers, sink);
      return;
    }
    if (step.behavior == SplitBehavior::isolated) {  // then `invert` changes nothing
      each_part(index, text, matchers, [&](std::size_t start, std::size_t end, bool) {
        run_step(index + 1, text.substr(start, end - start), matchers, sink);
      });
      return;
    }
    join_parts(index, text, matchers, sink);
  }

  template <class Sink>
  void add_space(std::size_t index, std::string_view text, Matchers& matchers, Sink& sink) const {
    if (text[0] == ' ') {
      run_step(index + 1, text, matchers, sink);
    } else {
      const std::string spaced = " " + std::string(text);
      run_step(index + 1, spaced, matchers, sink);
    }
  }

  /// Calls `part(start, end, is_match)` for matches and the text between them, in order, none of them empty.
  template <class Part>
  void each_part(std::size_t index, std::string_view text, Matchers& matchers, Part&& part) const {
    const PreTokenizerStep& step = steps_[index];
    std::size_t position = 0;  // everything before it has been handed out
    std::size_t from = 0;      // where to search on
    while (from < text.size()) {
      std::size_t start = from;
      std::size_t end = step.ascii_digits != 0 ? ascii_split(text, from, step.ascii_digits) : 0;
      if (end == 0) {
        if (!matchers[index]) matchers[index].emplace(*step.regex);
        if (!matchers[index]->find(text, from, start, end)) break;
      }
      if (start > position) part(position, start, false);
      if (end > start) part(start, end, true);
      position = end;
      from = end;
      if (end == start && end < text.size()) from += decode_utf8(text, end).length;
    }
    if (position < text.size()) part(position, text.size(), false);
  }

  template <class Sink>
  void join_parts(std::size_t index, std::string_view text, Matchers& matchers, Sink& sink) const {
    const PreTokenizerStep& step = steps_[index];
    std::size_t open_start = 0;
    std::size_t open_end = 0;
    bool open_matched = false;
    const auto flush = [&] {
      run_step(index + 1, text.substr(open_start, open_end - open_start), matchers, sink);
      open_start = open_end;
    };
    each_part(index, text, matchers, [&](std::size_t start, std::size_t end, bool is_match) {
      const bool matched = is_match != step.invert;
      bool joins = false;
      switch (step.behavior) {
        case SplitBehavior::merged_with_previous: joins = matched && !open_matched; break;
        case SplitBehavior::merged_with_next: joins = !matched && open_matched; break;
        case SplitBehavior::contiguous: joins = matched == open_matched; break;
        case SplitBehavior::isolated:
        case SplitBehavior::removed: break;
      }
      if (!joins && open_end > open_start) flush();
      if (step.behavior == SplitBehavior::removed && matched) {
        open_start = open_end = end;
        return;
      }
      if (!joins) open_start = start;
      open_end = end;
      open_matched = matched;
    });
    if (open_end > open_start) flush();
  }

  std::vector<PreTokenizerStep> steps_;
};

}  // namespace detail

TENON_NAMESPACE_END
