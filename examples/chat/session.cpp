#include "chat/session.hpp"

#include <chrono>
#include <cstdio>
#include <tenon/text/encode_prompt.hpp>

#include "chat/terminal.hpp"

namespace chat {

Session::Session(const Options& options) : options_(options), folder_(read_model_folder(options)) {
  text_options_ = text_options(options_, folder_);
  ProgressBar bar;
  tenon::LoadProgress progress;
  if (bar.enabled()) progress = [&bar](std::int64_t done, std::int64_t total) { bar.update(done, total); };
  model_ = load_weights(options_, folder_, progress);
  load_seconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
}

std::vector<std::int64_t> Session::prompt_ids(const Conversation& conversation) const {
  const auto& messages = conversation.messages();
  if (!folder_.chat_template) {
    return folder_.tokenizer.encode(messages.back().content.value_or(""), {.parse_special = false});
  }
  return tenon::encode_prompt(folder_.tokenizer, folder_.chat_template->render(messages));
}

tenon::TextResult Session::answer(const std::vector<std::int64_t>& prompt, const tenon::TextCallback& on_text,
                                  const std::function<bool()>& go_on) {
  const auto tokens = static_cast<std::int64_t>(prompt.size());
  if (tokens > model_->context()) {
    throw tenon::ValueError("the prompt has " + std::to_string(tokens) + " tokens, but the context holds " +
                            std::to_string(model_->context()) + "; " + context_advice());
  }
  tenon::TextOptions options = text_options_;
  options.sampling.seed += answers_++;
  return model_->generate(folder_.tokenizer, prompt, options, on_text, go_on);
}

std::string Session::stats(const tenon::TextResult& result) const {
  const auto rate = [](std::int64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
  };
  const auto generated = static_cast<std::int64_t>(result.ids.size());
  const std::int64_t read = result.prompt_tokens - result.reused_tokens;
  char text[512];
  std::snprintf(text, sizeof text,
                "prompt: %lld tokens (%lld reused), %.3f s, %.1f tokens/s\n"
                "answer: %lld tokens, %.3f s, %.1f tokens/s, finish reason %s, ",
                static_cast<long long>(result.prompt_tokens), static_cast<long long>(result.reused_tokens),
                result.prompt_seconds, rate(read, result.prompt_seconds), static_cast<long long>(generated),
                result.generate_seconds, rate(generated, result.generate_seconds),
                std::string(tenon::finish_reason_name(result.finish_reason)).c_str());
  const bool greedy = text_options_.sampling.is_greedy();
  const std::string choice = greedy ? "greedy" : "seed " + std::to_string(text_options_.sampling.seed + answers_ - 1);
  return text + choice + "\nmodel: " + std::string(tenon::dtype_name(model_->dtype())) + ", " + model_->processor() +
         "\n";
}

std::string Session::context_advice() const {
  const std::int64_t positions = folder_.config.max_position_embeddings;
  if (positions == model_->context()) return "the model has no more";
  return "--context N takes up to " + std::to_string(positions);
}

std::string Session::cut_off_reason(const tenon::TextResult& result) const {
  if (result.finish_reason != tenon::FinishReason::length) return {};
  const auto generated = static_cast<std::int64_t>(result.ids.size());
  if (generated == text_options_.max_new_tokens) {
    return "cut off after " + std::to_string(generated) + " tokens; --max-new-tokens N allows more";
  }
  return "cut off: the context of " + std::to_string(model_->context()) + " tokens is full; " + context_advice();
}

}  // namespace chat
