// How each family of chat templates lays out a conversation, and how a family is recognised in a Jinja template.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/text/jinja_outline.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The three ways to write a turn. `plain`: ChatML, tools unknown. `tools`: ChatML with tool calls. `deepseek`: the
/// full-width markers of DeepSeek-R1.
enum class ChatStyle : std::uint8_t { plain, tools, deepseek };

/// What happens to reasoning in earlier answers of the assistant, up to and including the last `</think>`.
enum class ThinkHistory : std::uint8_t {
  keep,
  drop,              ///< cut off
  drop_unless_last,  ///< cut off with the newlines that follow, in all but the last message
  drop_with_newlines
};

/// A template as data: families differ in these fields only.
struct ChatLayout {
  ChatStyle style = ChatStyle::plain;
  std::optional<std::string> default_system;  ///< used where the chat does not start with a system message
  bool primes_thinking = false;               ///< the generation prompt opens the reasoning block
  ThinkHistory history = ThinkHistory::keep;

  bool operator==(const ChatLayout&) const = default;
};

inline constexpr std::string_view plain_system_prompt = "You are a helpful assistant.";
inline constexpr std::string_view qwen_system_prompt =
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.";

inline constexpr std::string_view tools_intro =
    "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
    "You are provided with function signatures within <tools></tools> XML tags:\n<tools>";
inline constexpr std::string_view tools_outro =
    "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
    "<tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n"
    "</tool_call><|im_end|>\n";

/// A name that a user can give, and what it stands for.
struct NamedLayout {
  std::string_view name;
  ChatLayout layout;
};

inline ChatLayout chat_layout(ChatStyle style, std::optional<std::string_view> system, bool primes_thinking = false,
                              ThinkHistory history = ThinkHistory::keep) {
  ChatLayout layout{style, std::nullopt, primes_thinking, history};
  if (system) layout.default_system = std::string(*system);
  return layout;
}

/// Text between `before` and `after`, if it starts and ends with them.
inline std::optional<std::string> enclosed(const std::string& text, std::string_view before, std::string_view after) {
  if (text.size() < before.size() + after.size() || !text.starts_with(before) || !text.ends_with(after)) return {};
  return text.substr(before.size(), text.size() - before.size() - after.size());
}

inline std::optional<ChatLayout> recognise_plain(const JinjaOutline& outline, bool default_system) {
  if (!outline.contains("'<|im_start|>'+message.role+'\n'+message.content+'<|im_end|>\n'")) return {};
  ChatLayout layout{ChatStyle::plain, std::nullopt, false, ThinkHistory::keep};
  if (!default_system) return layout;
  if (!outline.contains("ifloop.firstandmessages[0].role!='system'")) return {};
  for (const JinjaTag& tag : outline.tags()) {
    if (const auto text = tag.literal()) {
      layout.default_system = enclosed(*text, "<|im_start|>system\n", "<|im_end|>\n");
      return layout.default_system ? std::optional(layout) : std::nullopt;
    }
  }
  return {};
}

inline std::optional<ChatLayout> recognise_tools(const JinjaOutline& outline, bool default_system) {
  for (const std::string_view part :
       {std::string_view("'<|im_start|>'+message.role"), std::string_view("tool|tojson"),
        std::string_view("tool_call.arguments|tojson"), std::string_view("'\n<tool_response>\n'"),
        std::string_view("'\n</tool_response>'"), tools_intro, tools_outro}) {
    if (!outline.contains(part)) return {};
  }
  ChatLayout layout{ChatStyle::tools, std::nullopt, false, ThinkHistory::keep};
  const auto defaults = outline.literals_after_else();
  if (!default_system) return defaults.size() == 1 && defaults[0].empty() ? std::optional(layout) : std::nullopt;
  if (defaults.size() != 2 || enclosed(defaults[1], "<|im_start|>system\n", "<|im_end|>\n") != defaults[0]) return {};
  layout.default_system = defaults[0];
  return layout;
}

inline std::optional<ChatLayout> recognise_deepseek(const JinjaOutline& outline) {
  for (const std::string_view part :
       {"'<｜User｜>'+message.content", "'<｜Assistant｜>'+content+'<｜end▁of▁sentence｜>'",
        "content.split('</think>')[-1]", "'<｜tool▁outputs▁end｜>'+message.content+'<｜end▁of▁sentence｜>'",
        "setns.system_prompt=message.content"}) {
    if (!outline.contains(part)) return {};
  }
  return ChatLayout{ChatStyle::deepseek, std::nullopt, false, ThinkHistory::drop};
}

/// The layout of a Jinja template, or nothing if it is of no known family. Families are told apart by the sequence of
/// block tags and by the scaffold that the tags print, so white space, quotes, and another default system prompt do not
/// matter, while a template with one more rule is not taken for its simpler ancestor.
inline std::optional<ChatLayout> recognise_chat_layout(std::string_view jinja) {
  const auto outline = JinjaOutline::read(jinja);
  if (!outline || outline->tags().empty()) return {};
  for (const std::string_view filter : {"|trim", ".strip(", ".replace(", "raise_exception", "strftime_now"}) {
    if (outline->contains(filter)) return {};
  }
  std::string skeleton = outline->skeleton();
  if (skeleton.starts_with("isx") && outline->contains("setadd_generation_prompt=false")) skeleton.erase(0, 3);

  std::optional<ChatLayout> layout;
  std::string assistant = "<|im_start|>assistant\n";
  if (skeleton == "foix" || skeleton == "fixoix") {
    layout = recognise_plain(*outline, skeleton == "fixoix");
  } else if (skeleton == "iilxfolilxxfieixfisxoeixixxoix") {
    layout = recognise_tools(*outline, true);
  } else if (const bool keeps_last = skeleton == "iilxfolixxfiesisxesisxixfisxoeixixxoix";
             keeps_last || skeleton == "iilxfolixxfiesesixfisxoeixixxoix") {
    if (!outline->contains("setcontent=message.content.split('</think>')[-1].lstrip('\n')")) return {};
    layout = recognise_tools(*outline, false);
    if (layout) layout->history = keeps_last ? ThinkHistory::drop_unless_last : ThinkHistory::drop_with_newlines;
  } else if (skeleton == "sfisxofisxisfislxoxiislsisxxxisislxxoixix") {
    assistant = "<｜Assistant｜>";
    layout = recognise_deepseek(*outline);
  }
  if (!layout) return {};

  std::optional<std::string> prompt;
  for (const JinjaTag& tag : outline->tags()) {
    if (tag.is_output) prompt = tag.literal();
  }
  if (prompt != assistant && prompt != assistant + "<think>\n") return {};
  layout->primes_thinking = prompt != assistant;
  return layout;
}

}  // namespace detail
TENON_NAMESPACE_END
