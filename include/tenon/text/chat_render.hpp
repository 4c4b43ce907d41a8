// Renders a conversation in one of the known layouts, with scaffold and content kept apart.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/text/chat_layout.hpp>
#include <tenon/text/chat_message.hpp>
#include <tenon/text/template_json.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Collects segments; neighbours of one kind become one.
class PromptBuilder {
 public:
  PromptBuilder& scaffold(std::string_view text) { return append(text, true); }
  PromptBuilder& content(std::string_view text) { return append(text, false); }
  std::vector<PromptSegment> take() { return std::move(segments_); }

 private:
  PromptBuilder& append(std::string_view text, bool parse_special) {
    if (text.empty()) return *this;
    if (segments_.empty() || segments_.back().parse_special != parse_special) segments_.push_back({{}, parse_special});
    segments_.back().text += text;
    return *this;
  }

  std::vector<PromptSegment> segments_;
};

/// The content of an assistant's message as later turns see it.
inline std::string_view without_thoughts(std::string_view content, ThinkHistory history, bool last) {
  constexpr std::string_view mark = "</think>";
  if (history == ThinkHistory::keep || (history == ThinkHistory::drop_unless_last && last)) return content;
  if (const std::size_t at = content.rfind(mark); at != std::string_view::npos) content.remove_prefix(at + mark.size());
  if (history != ThinkHistory::drop) content.remove_prefix(std::min(content.find_first_not_of('\n'), content.size()));
  return content;
}

inline void render_plain(PromptBuilder& out, const ChatLayout& layout, const std::vector<ChatMessage>& messages) {
  if (layout.default_system && messages.front().role != "system") {
    out.scaffold("<|im_start|>system\n").content(*layout.default_system).scaffold("<|im_end|>\n");
  }
  for (const ChatMessage& message : messages) {
    out.scaffold("<|im_start|>" + message.role + "\n").content(message.content.value_or("")).scaffold("<|im_end|>\n");
  }
}

inline void render_tool_system(PromptBuilder& out, const ChatLayout& layout, const std::vector<ChatMessage>& messages,
                               const nlohmann::ordered_json& tools) {
  const bool given = messages.front().role == "system";
  if (tools.empty() && !given && !layout.default_system) return;
  out.scaffold("<|im_start|>system\n");
  out.content(given ? messages.front().content.value_or("") : layout.default_system.value_or(""));
  if (tools.empty()) {
    out.scaffold("<|im_end|>\n");
    return;
  }
  out.scaffold(tools_intro);
  for (const auto& tool : tools) out.scaffold("\n").content(template_json(tool));
  out.scaffold(tools_outro);
}

inline void render_tools(PromptBuilder& out, const ChatLayout& layout, const std::vector<ChatMessage>& messages,
                         const nlohmann::ordered_json& tools) {
  render_tool_system(out, layout, messages, tools);
  const auto is_tool = [&](std::size_t i) { return i < messages.size() && messages[i].role == "tool"; };
  for (std::size_t i = messages.front().role == "system" ? 1 : 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    std::string_view text = message.content ? std::string_view(*message.content) : std::string_view();
    if (message.role == "tool") {
      if (i == 0 || !is_tool(i - 1)) out.scaffold("<|im_start|>user");
      out.scaffold("\n<tool_response>\n").content(text).scaffold("\n</tool_response>");
      if (!is_tool(i + 1)) out.scaffold("<|im_end|>\n");
      continue;
    }
    const bool had_text = !text.empty();
    if (message.role == "assistant") text = without_thoughts(text, layout.history, i + 1 == messages.size());
    out.scaffold("<|im_start|>" + message.role);
    if (message.role != "assistant" || message.tool_calls.empty() || had_text) out.scaffold("\n").content(text);
    if (message.role == "assistant") {
      for (const ToolCall& call : message.tool_calls) {
        out.scaffold("\n<tool_call>\n{\"name\": \"").content(call.name).scaffold("\", \"arguments\": ");
        out.content(template_json(call.arguments)).scaffold("}\n</tool_call>");
      }
    }
    out.scaffold("<|im_end|>\n");
  }
}

/// As the original does it: only the last system message counts; calls are closed after the second and each later one;
/// the marks that open the calls and the outputs appear once in a conversation. Returns whether the chat ends in a
/// tool's output, in which case the model goes on without a new turn.
inline bool render_deepseek(PromptBuilder& out, const ChatLayout& layout, const std::vector<ChatMessage>& messages,
                            std::string_view bos_token) {
  out.scaffold(bos_token);
  const ChatMessage* system = nullptr;
  for (const ChatMessage& message : messages) system = message.role == "system" ? &message : system;
  if (system != nullptr) out.content(system->content.value_or(""));
  bool after_tool = false;
  bool first_call = true;
  bool first_output = true;
  for (const ChatMessage& message : messages) {
    const std::string text = message.content.value_or("");
    if (message.role == "user") {
      after_tool = false;
      out.scaffold("<｜User｜>").content(text);
    } else if (message.role == "tool") {
      after_tool = true;
      out.scaffold(first_output ? "<｜tool▁outputs▁begin｜><｜tool▁output▁begin｜>" : "\n<｜tool▁output▁begin｜>");
      out.content(text).scaffold("<｜tool▁output▁end｜>");
      first_output = false;
    } else if (message.role == "assistant" && message.content) {
      if (after_tool) {
        out.scaffold("<｜tool▁outputs▁end｜>").content(text);
      } else {
        out.scaffold("<｜Assistant｜>").content(without_thoughts(text, layout.history, false));
      }
      out.scaffold("<｜end▁of▁sentence｜>");
      after_tool = false;
    } else if (message.role == "assistant") {
      after_tool = false;
      for (const ToolCall& call : message.tool_calls) {
        out.scaffold(first_call ? "<｜Assistant｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"
                                : "\n<｜tool▁call▁begin｜>");
        out.content(call.type).scaffold("<｜tool▁sep｜>").content(call.name).scaffold("\n```json\n");
        out.content(call.arguments.is_string() ? call.arguments.get<std::string>() : template_json(call.arguments));
        out.scaffold("\n```<｜tool▁call▁end｜>");
        if (!first_call) out.scaffold("<｜tool▁calls▁end｜><｜end▁of▁sentence｜>");
        first_call = false;
      }
    }
  }
  if (after_tool) out.scaffold("<｜tool▁outputs▁end｜>");
  return after_tool;
}

}  // namespace detail
TENON_NAMESPACE_END
