// A loaded model together with how it is to answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "chat/conversation.hpp"
#include "chat/model.hpp"
#include "chat/options.hpp"

namespace chat {

class Session {
 public:
  /// Loads the model, with a progress bar where that takes long and standard error is a terminal.
  explicit Session(const Options& options);

  const Options& options() const noexcept { return options_; }
  const ModelFolder& folder() const noexcept { return folder_; }
  const Model& model() const noexcept { return *model_; }
  /// From the first file that is read to the last weight.
  double load_seconds() const noexcept { return load_seconds_; }

  /// Whether an answer begins with thoughts, because the template has opened them.
  bool starts_thinking() const noexcept { return folder_.chat_template && folder_.chat_template->primes_thinking(); }

  /// The ids that ask for the next answer: the whole conversation or, with --raw, its last question as it is.
  std::vector<std::int64_t> prompt_ids(const Conversation& conversation) const;

  /// Answers. Throws tenon::ValueError where the prompt is longer than the context, and what tenon::generate_text
  /// throws; the session stays usable.
  /// With `go_on`, long prompts can be stopped while they are read; see Model::generate.
  tenon::TextResult answer(const std::vector<std::int64_t>& prompt, const tenon::TextCallback& on_text,
                           const std::function<bool()>& go_on = {});

  /// Speed and seed of an answer, and what computed it, in three lines.
  std::string stats(const tenon::TextResult& result) const;

  /// What helps where the context is full, in half a sentence.
  std::string context_advice() const;

  /// Why an answer is shorter than it might be, in one sentence; empty where it ended by itself.
  std::string cut_off_reason(const tenon::TextResult& result) const;

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();  // before anything is read
  Options options_;
  ModelFolder folder_;
  tenon::TextOptions text_options_;
  double load_seconds_ = 0;
  std::unique_ptr<Model> model_;
  std::uint64_t answers_ = 0;
};

}  // namespace chat
