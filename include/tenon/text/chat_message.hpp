// What a chat is made of: messages, tool calls, and the segments of a rendered prompt.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN

/// A call of a function that the assistant made. `arguments` keeps the order of its keys.
struct ToolCall {
  std::string name = {};
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::string type = "function";
};

/// One turn of a chat. Roles are "system", "user", "assistant" and "tool". An assistant that only calls tools has no
/// content, which some templates tell apart from empty content.
struct ChatMessage {
  std::string role = {};
  std::optional<std::string> content = {};
  std::vector<ToolCall> tool_calls = {};
};

/// A piece of a rendered prompt. In scaffold, which the template wrote, control tokens are recognised
/// (`parse_special`); in content, which people and models wrote, they never are: `<|im_end|>` typed by a user stays the
/// ten characters that it is.
struct PromptSegment {
  std::string text;
  bool parse_special = false;

  bool operator==(const PromptSegment&) const = default;
};

/// The whole prompt as one string: for people to read, and for comparison with other software.
inline std::string to_string(const std::vector<PromptSegment>& segments) {
  std::string text;
  for (const PromptSegment& segment : segments) text += segment.text;
  return text;
}

/// Reads messages in the form of the chat-completion protocol: a list of objects with `role`, `content` and, for an
/// assistant, `tool_calls` (with or without the `function` wrapper). Throws FormatError that names the message.
inline std::vector<ChatMessage> parse_messages(const nlohmann::ordered_json& list) {
  if (!list.is_array()) throw FormatError("chat messages must be a JSON list");
  std::vector<ChatMessage> messages;
  for (const auto& item : list) {
    const std::string where = "chat message " + std::to_string(messages.size());
    const auto text = [&](const nlohmann::ordered_json& object, const char* key) {
      const auto field = object.find(key);
      if (field == object.end() || !field->is_string()) throw FormatError(where + " has no text '" + key + "'");
      return field->get<std::string>();
    };
    if (!item.is_object()) throw FormatError(where + " is not a JSON object");
    ChatMessage message;
    message.role = text(item, "role");
    if (item.contains("content") && !item["content"].is_null()) message.content = text(item, "content");
    if (const auto calls = item.find("tool_calls"); calls != item.end() && !calls->is_null()) {
      if (!calls->is_array()) throw FormatError(where + ": 'tool_calls' must be a list");
      for (const auto& entry : *calls) {
        if (!entry.is_object()) throw FormatError(where + ": a tool call is not a JSON object");
        const auto wrapped = entry.find("function");
        const auto& function = wrapped != entry.end() && wrapped->is_object() ? *wrapped : entry;
        ToolCall call;
        call.name = text(function, "name");
        if (const auto arguments = function.find("arguments"); arguments != function.end()) {
          if (detail::nested_deeper_than(*arguments, JsonLimits{}.max_depth)) {
            throw FormatError(where + ": the arguments of a tool call are nested too deep");
          }
          call.arguments = *arguments;
        }
        if (entry.contains("type")) call.type = text(entry, "type");
        message.tool_calls.push_back(std::move(call));
      }
    }
    messages.push_back(std::move(message));
  }
  return messages;
}

TENON_NAMESPACE_END
