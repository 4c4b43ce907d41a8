// Chat templates: a conversation to the text that a model was trained on.
//
//   const auto chat = tenon::ChatTemplate::from_folder("path/to/model");
//   const auto segments = chat.render({{.role = "user", .content = "Hello"}});
//   const auto ids = tenon::encode_prompt(tokenizer, segments);        // text/encode_prompt.hpp
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/json.hpp>
#include <tenon/io/tokenizer_config.hpp>
#include <tenon/text/chat_layout.hpp>
#include <tenon/text/chat_message.hpp>
#include <tenon/text/chat_render.hpp>

TENON_NAMESPACE_BEGIN

/// One family of chat templates with its parameters. Checkpoints carry templates as Jinja programs; tenon does not run
/// them but recognises the family, and renders with a typed builder that keeps scaffold and content apart. Constant
/// after construction: any number of threads may use one object.
class ChatTemplate {
 public:
  /// The template of a checkpoint folder: chat_template.jinja, or `chat_template` in tokenizer_config.json. With
  /// `override_name` the named template is taken, whatever the folder says; the BOS token still is the folder's.
  /// Throws FileError for a folder that is not there, FormatError where the template is absent or unknown, and
  /// ValueError for an unknown name.
  static ChatTemplate from_folder(const std::filesystem::path& folder,
                                  std::optional<std::string_view> override_name = std::nullopt) {
    std::error_code error;
    if (!std::filesystem::is_directory(folder, error)) {
      throw FileError("model folder '" + folder.string() + "' is not a folder that can be read");
    }
    const TokenizerConfig config = read_tokenizer_config(folder);
    if (override_name) {
      ChatTemplate chosen = by_name(*override_name);
      if (config.bos_token) chosen.bos_token_ = *config.bos_token;
      return chosen;
    }
    if (!config.chat_template) {
      std::string found;
      for (const std::string& name : config.chat_template_names) {
        found += (found.empty() ? " named 'default' among " : ", ") + detail::shortened(name);
      }
      throw FormatError("'" + folder.string() + "' has no chat template" + found + "; " + known_names());
    }
    return from_jinja(*config.chat_template, config.bos_token.value_or(""), folder.string());
  }

  /// Recognises a Jinja template; `source` stands for it in the message of the FormatError for an unknown one.
  static ChatTemplate from_jinja(std::string_view jinja, std::string bos_token = {},
                                 const std::string& source = "chat_template") {
    auto layout = detail::recognise_chat_layout(jinja);
    if (!layout) throw FormatError("'" + source + "' has a chat template of an unknown kind; " + known_names());
    std::string name;
    for (const detail::NamedLayout& known : layouts()) {
      // The family is what counts; its member with the same default system prompt is the better name.
      const bool family = known.layout.style == layout->style &&
                          known.layout.default_system.has_value() == layout->default_system.has_value();
      if (family && (name.empty() || known.layout == *layout)) name = known.name;
    }
    return ChatTemplate(std::move(name), std::move(*layout), std::move(bos_token));
  }

  /// Throws ValueError, listing the names, for one that is not among them.
  static ChatTemplate by_name(std::string_view name) {
    for (detail::NamedLayout& known : layouts()) {
      if (known.name != name) continue;
      const bool deepseek = known.layout.style == detail::ChatStyle::deepseek;
      return ChatTemplate(std::string(name), std::move(known.layout), deepseek ? "<｜begin▁of▁sentence｜>" : "");
    }
    throw ValueError("there is no chat template named '" + detail::shortened(name) + "'; " + known_names());
  }

  /// The names that `by_name` knows.
  static std::vector<std::string> names() {
    std::vector<std::string> result;
    for (const detail::NamedLayout& known : layouts()) result.emplace_back(known.name);
    return result;
  }

  /// The name of the family; a checkpoint with a default system prompt of its own has the name of its relatives.
  const std::string& name() const noexcept { return name_; }

  /// The system prompt that is added to a chat that does not start with one.
  const std::optional<std::string>& default_system() const noexcept { return layout_.default_system; }

  /// Whether the generation prompt ends in an open reasoning block (`<think>` and a newline). Then the answer starts
  /// with thoughts, and its first mark is `</think>`.
  bool primes_thinking() const noexcept { return layout_.primes_thinking; }

  /// Whether the text starts with the BOS token, so that the tokenizer must not add another.
  bool emits_bos() const noexcept { return layout_.style == detail::ChatStyle::deepseek && !bos_token_.empty(); }

  /// Whether definitions of tools appear in the text; elsewhere they are ignored, as in the original templates.
  bool renders_tools() const noexcept { return layout_.style == detail::ChatStyle::tools; }

  /// Renders a chat. `tools` is a JSON list of definitions, or null. `add_generation_prompt` opens the assistant's next
  /// turn. An absent `content` counts as empty, except where the template gives it a meaning of its own (DeepSeek's
  /// tool calls). Reasoning in earlier answers is dropped where the template does so; a cached prefix then ends there.
  ///
  /// Throws ValueError for an empty chat, a role outside system, user, assistant and tool, or tools that are no list.
  std::vector<PromptSegment> render(const std::vector<ChatMessage>& messages,
                                    const nlohmann::ordered_json& tools = nullptr,
                                    bool add_generation_prompt = true) const {
    if (messages.empty()) throw ValueError("a chat must have at least one message");
    for (const ChatMessage& message : messages) {
      const std::string_view role = message.role;
      if (role != "system" && role != "user" && role != "assistant" && role != "tool") {
        throw ValueError("chat role '" + detail::shortened(message.role) +
                         "' is none of system, user, assistant, tool");
      }
    }
    if (!tools.is_null() && !tools.is_array()) throw ValueError("the tools of a chat must be a JSON list");
    detail::PromptBuilder out;
    bool open_turn = add_generation_prompt;
    std::string_view assistant = "<|im_start|>assistant\n";
    switch (layout_.style) {
      case detail::ChatStyle::plain: detail::render_plain(out, layout_, messages); break;
      case detail::ChatStyle::tools: detail::render_tools(out, layout_, messages, tools); break;
      case detail::ChatStyle::deepseek:
        assistant = "<｜Assistant｜>";
        open_turn = !detail::render_deepseek(out, layout_, messages, bos_token_) && add_generation_prompt;
        break;
    }
    if (open_turn) out.scaffold(assistant).scaffold(layout_.primes_thinking ? "<think>\n" : "");
    return out.take();
  }

 private:
  ChatTemplate(std::string name, detail::ChatLayout layout, std::string bos_token)
      : name_(std::move(name)), layout_(std::move(layout)), bos_token_(std::move(bos_token)) {}

  static std::vector<detail::NamedLayout> layouts() {
    using detail::ChatStyle;
    using detail::ThinkHistory;
    return {{"qwen2.5", detail::chat_layout(ChatStyle::tools, detail::qwen_system_prompt)},
            {"qwen2.5-base", detail::chat_layout(ChatStyle::tools, detail::plain_system_prompt)},
            {"qwen2", detail::chat_layout(ChatStyle::plain, detail::plain_system_prompt)},
            {"qwq", detail::chat_layout(ChatStyle::tools, std::nullopt, true, ThinkHistory::drop_unless_last)},
            {"deepseek-r1", detail::chat_layout(ChatStyle::deepseek, std::nullopt, true, ThinkHistory::drop)},
            {"chatml", detail::chat_layout(ChatStyle::plain, std::nullopt)}};
  }

  static std::string known_names() {
    std::string list;
    for (const std::string& name : names()) list += (list.empty() ? "" : ", ") + name;
    return "known templates are " + list +
           "; choose one by name (ChatTemplate::by_name, or --chat-template NAME of the programs)";
  }

  std::string name_;
  detail::ChatLayout layout_;
  std::string bos_token_;
};

TENON_NAMESPACE_END
