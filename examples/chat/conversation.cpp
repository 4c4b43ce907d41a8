#include "chat/conversation.hpp"

#include <nlohmann/json.hpp>
#include <tenon/io/atomic_file.hpp>
#include <utility>

namespace chat {

std::optional<std::string> Conversation::undo() {
  for (std::size_t i = messages_.size(); i-- > 0;) {
    if (messages_[i].role != "user") continue;
    std::optional<std::string> question = std::move(messages_[i].content);
    messages_.resize(i);
    return question;
  }
  return std::nullopt;
}

void Conversation::reset() {
  const auto kept = system();
  messages_.clear();
  if (kept) set_system(*kept);
}

std::optional<std::string> Conversation::system() const {
  if (messages_.empty() || messages_.front().role != "system") return std::nullopt;
  return messages_.front().content;
}

void Conversation::set_system(std::string_view text) {
  if (!system()) messages_.insert(messages_.begin(), tenon::ChatMessage{"system", std::nullopt, {}});
  messages_.front().content = std::string(text);
}

void Conversation::save(const std::filesystem::path& file) const {
  std::string text;
  if (file.extension() == ".json") {
    auto list = nlohmann::ordered_json::array();
    for (const auto& message : messages_) {
      list.push_back({{"role", message.role}, {"content", message.content.value_or("")}});
    }
    // Bytes that are no UTF-8 can come from a terminal, and JSON has no place for them.
    text = list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  } else {
    for (const auto& message : messages_) text += message.role + ":\n" + message.content.value_or("") + "\n\n";
  }
  tenon::write_file_atomically(file, text);
}

void Conversation::add(std::string_view role, std::string_view text) {
  messages_.push_back(tenon::ChatMessage{std::string(role), std::string(text), {}});
}

}  // namespace chat
