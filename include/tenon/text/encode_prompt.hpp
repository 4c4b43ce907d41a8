// A rendered prompt to token ids, with control tokens taken from the scaffold only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/text/chat_message.hpp>
#include <tenon/text/tokenizer.hpp>

TENON_NAMESPACE_BEGIN

/// The ids of a rendered prompt. Added tokens are recognised in scaffold (`parse_special`) and nowhere else. All text
/// between two of them, scaffold and content alike, is encoded as one piece, so that words and white space split as
/// they do in the whole text: for content without control tokens the ids equal those of encoding the prompt as one
/// string. Nothing is added around it: a template that wants a BOS token has written it.
inline std::vector<std::int64_t> encode_prompt(const Tokenizer& tokenizer, std::span<const PromptSegment> segments) {
  std::vector<std::int64_t> ids;
  std::string run;
  const auto encode_run = [&] {
    if (run.empty()) return;
    const auto piece = tokenizer.encode(run, {.parse_special = false, .add_special_tokens = false});
    ids.insert(ids.end(), piece.begin(), piece.end());
    run.clear();
  };
  for (const PromptSegment& segment : segments) {
    if (!segment.parse_special) {
      run += segment.text;
      continue;
    }
    std::size_t done = 0;
    for (const std::int64_t id : tokenizer.encode(segment.text, {.parse_special = true, .add_special_tokens = false})) {
      if (!tokenizer.is_added(id)) continue;
      const std::string token = tokenizer.id_to_token(id);
      const std::size_t at = segment.text.find(token, done);
      if (at == std::string::npos) continue;
      run.append(segment.text, done, at - done);
      encode_run();
      ids.push_back(id);
      done = at + token.size();
    }
    run.append(segment.text, done);
  }
  encode_run();
  return ids;
}

TENON_NAMESPACE_END
