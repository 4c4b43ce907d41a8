// What has been said: the messages of a chat, and how they are edited and saved.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <tenon/text/chat_message.hpp>
#include <vector>

namespace chat {

/// Questions and answers in turn, after a system message if there is one.
class Conversation {
 public:
  explicit Conversation(const std::optional<std::string>& system = std::nullopt) {
    if (system) set_system(*system);
  }

  const std::vector<tenon::ChatMessage>& messages() const noexcept { return messages_; }

  void ask(std::string_view question) { add("user", question); }
  void answer(std::string_view text) { add("assistant", text); }

  /// Takes back the last question, with its answer if there is one, and returns it; nothing where none was asked.
  std::optional<std::string> undo();

  /// Forgets everything but the system message.
  void reset();

  /// The system message that was given, if any.
  std::optional<std::string> system() const;
  /// Puts another one in its place; what was said stays.
  void set_system(std::string_view text);

  /// The messages as JSON, a list of {role, content}, where the file's name ends in .json, and as text elsewhere. The
  /// file is written as a whole or not at all. Throws tenon::FileError.
  void save(const std::filesystem::path& file) const;

 private:
  void add(std::string_view role, std::string_view text);

  std::vector<tenon::ChatMessage> messages_;
};

}  // namespace chat
