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
#include <tenon/text/normalizer.hpp>
#include <tenon/text/regex.hpp>
#include <tenon/text/utf8.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// What becomes of the matches of a Split step: a piece of their own, dropped, joined to a neighbour, or joined to
/// adjacent ones of their kind.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// One step: split at the matches of a pattern, put a space before pieces that do not begin with one, or make spaces
/// visible as SentencePiece does.
struct PreTokenizerStep {
  enum class Kind { split, prefix_space, visible_space };
  enum class Prepend { never, first, always };
  Kind kind = Kind::split;
  std::shared_ptr<const Regex> regex;  ///< split: the pattern
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;               ///< exchange the roles of matches and the text between them
  std::size_t ascii_digits = 0;      ///< not 0: `ascii_split` with this many digits answers for `regex` where it can
  std::string marker = {};           ///< visible_space: what stands for a space
  Prepend prepend = Prepend::never;  ///< visible_space: which pieces must begin with it; `first` is the start of a text
};

/// All steps in order. Constant after loading; `run` may be called from many threads.
class PreTokenizer {
 public:
  void add(PreTokenizerStep step) { steps_.push_back(std::move(step)); }

  /// Calls `sink(piece)` for each piece of valid UTF-8 `text`, in order; no piece is empty. `at_start` says whether
  /// nothing, not even an added token, stands before `text`. Throws ValueError as `Normalizer::apply` does.
  template <class Sink>
  void run(std::string_view text, bool at_start, Sink&& sink) const {
    Work work{std::vector<std::optional<RegexMatcher>>(steps_.size()), expansion_limit(text.size())};
    run_step(0, text, at_start, work, sink);
  }

 private:
  struct Work {
    std::vector<std::optional<RegexMatcher>> matchers;  // by step
    std::size_t limit;                                  // bytes of a piece
  };

  template <class Sink>
  void run_step(std::size_t index, std::string_view text, bool at_start, Work& work, Sink& sink) const {
    if (text.empty()) return;
    if (index == steps_.size()) {
      sink(text);
      return;
    }
    const PreTokenizerStep& step = steps_[index];
    if (step.kind == PreTokenizerStep::Kind::prefix_space) {
      const std::string spaced = text[0] == ' ' ? std::string() : " " + std::string(text);
      run_step(index + 1, spaced.empty() ? text : spaced, at_start, work, sink);
    } else if (step.kind == PreTokenizerStep::Kind::visible_space) {
      const std::string visible = mark_spaces(step, text, at_start, work.limit);
      run_step(index + 1, visible, at_start, work, sink);
    } else if (step.behavior == SplitBehavior::isolated) {  // then `invert` changes nothing
      each_part(index, text, work, [&](std::size_t start, std::size_t end, bool) {
        run_step(index + 1, text.substr(start, end - start), at_start && start == 0, work, sink);
      });
    } else {
      join_parts(index, text, at_start, work, sink);
    }
  }

  static std::string mark_spaces(const PreTokenizerStep& step, std::string_view text, bool at_start,
                                 std::size_t limit) {
    std::string out;
    const bool wanted = step.prepend == PreTokenizerStep::Prepend::always ||
                        (step.prepend == PreTokenizerStep::Prepend::first && at_start);
    if (wanted && text[0] != ' ' && text.substr(0, step.marker.size()) != step.marker) out += step.marker;
    for (const char c : text) {
      if (c == ' ') {
        check_expansion(out.size() + step.marker.size(), limit);
        out += step.marker;
      } else {
        out += c;
      }
    }
    return out;
  }

  /// Calls `part(start, end, is_match)` for matches and the text between them, in order, none of them empty.
  template <class Part>
  void each_part(std::size_t index, std::string_view text, Work& work, Part&& part) const {
    const PreTokenizerStep& step = steps_[index];
    std::size_t position = 0;  // everything before it has been handed out
    std::size_t from = 0;      // where to search on
    while (from < text.size()) {
      std::size_t start = from;
      std::size_t end = step.ascii_digits != 0 ? ascii_split(text, from, step.ascii_digits) : 0;
      if (end == 0) {
        std::optional<RegexMatcher>& matcher = work.matchers[index];
        if (!matcher) matcher.emplace(*step.regex);
        if (!matcher->find(text, from, start, end)) break;
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
  void join_parts(std::size_t index, std::string_view text, bool at_start, Work& work, Sink& sink) const {
    const PreTokenizerStep& step = steps_[index];
    std::size_t open_start = 0;
    std::size_t open_end = 0;
    bool open_matched = false;
    const auto flush = [&] {
      const std::string_view joined = text.substr(open_start, open_end - open_start);
      run_step(index + 1, joined, at_start && open_start == 0, work, sink);
      open_start = open_end;
    };
    each_part(index, text, work, [&](std::size_t start, std::size_t end, bool is_match) {
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
