// generate_text: a prompt of ids to text, with stop strings, piece by piece.
//
//   tenon::Sequence sequence(ctx, model);
//   const auto answer = tenon::generate_text(sequence, tokenizer, prompt_ids, options,
//                                            [](std::string_view piece) { std::cout << piece << std::flush; return true; });
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/generate/stop.hpp>
#include <tenon/text/text_stream.hpp>
#include <tenon/text/tokenizer.hpp>

TENON_NAMESPACE_BEGIN

/// What to generate, and when the text ends.
struct TextOptions : GenerateOptions {
  /// The text ends before the first of these; see StopStrings. None may be empty.
  std::vector<std::string> stop_strings;
  /// Whether control tokens such as `<|im_end|>` are left out, and whether the text goes on from the prompt's.
  TextStreamOptions stream;
};

/// What came of it. `ids` has every generated token, those of a stop string included, so it may reach beyond `text`.
struct TextResult : GenerateResult {
  std::string text;         ///< valid UTF-8: the pieces that the callback was given, one after the other
  std::string stop_string;  ///< the stop string that ended the text; empty where none did
};

/// Called after every token with the text that it made safe to show: whole characters that are no part of a stop string
/// and cannot become one. Often that is nothing, so that a caller can end generation at any token. Returns true to go
/// on, false to end with FinishReason::cancelled; it is not called again then.
using TextCallback = std::function<bool(std::string_view)>;

/// Generates what follows `prompt`, as text. The sequence reuses what its cache shares with the prompt; see
/// Sequence::generate, whose exceptions these are, and ValueError for an empty stop string. After an exception the
/// sequence stays usable, and the pieces given out so far are all there is of the text.
template <class Model>
TextResult generate_text(Sequence<Model>& sequence, const Tokenizer& tokenizer, std::span<const std::int64_t> prompt,
                         const TextOptions& options, const TextCallback& on_text = {}) {
  TextStream stream(tokenizer, options.stream);
  StopStrings stops(options.stop_strings);
  TextResult result;
  const auto give_out = [&](const std::string& piece) {
    result.text += piece;
    return !on_text || on_text(piece);
  };
  static_cast<GenerateResult&>(result) = sequence.generate(prompt, options, [&](const Sample& sample) {
    const bool go_on = give_out(stops.push(stream.push(sample.id)));
    return go_on && !stops.stopped();
  });
  const bool cut = result.finish_reason == FinishReason::cancelled;  // by the caller, or by a stop string
  if (!cut) {
    std::string tail = stops.push(stream.flush());
    tail += stops.flush();
    if (!tail.empty()) give_out(tail);
  }
  if (stops.stopped()) {
    result.finish_reason = FinishReason::stop;
    result.stop_string = stops.matched();
  }
  return result;
}

TENON_NAMESPACE_END
