#include "chat/options.hpp"

#include <CLI/CLI.hpp>
#include <limits>
#include <string>
#include <string_view>
#include <tenon/runtime/context.hpp>
#include <tenon/text/chat_template.hpp>
#include <utility>
#include <vector>

#include "chat/errors.hpp"
#include "chat/escapes.hpp"
#include "chat/terminal.hpp"
#include "common/command_line.hpp"
#include "common/program.hpp"

namespace chat {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t largest_count = std::numeric_limits<std::int32_t>::max();

CLI::Validator one_of(const std::vector<std::string>& names) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        std::string list;
        for (const std::string& name : names) {
          if (name == text) return {};
          list += (list.empty() ? "" : ", ") + name;
        }
        return program::in_quotes(text) + " is none of " + list;
      },
      "");
}

std::string template_names() {
  std::string list;
  for (const std::string& name : tenon::ChatTemplate::names()) list += (list.empty() ? "One of " : ", ") + name;
  return list;
}

/// The command line with "--prompt=" as "--prompt" and an empty text: CLI11 would take what comes next as the text.
std::vector<const char*> split_empty_texts(int argc, const char* const* argv) {
  static constexpr std::pair<std::string_view, const char*> texts[] = {
      {"--prompt=", "--prompt"}, {"--system=", "--system"}, {"--stop=", "--stop"}};
  std::vector<const char*> result;
  bool is_text = false;  // what follows an option is no option
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const char* split = nullptr;
    bool takes_next = false;
    for (const auto& [with_sign, name] : texts) {
      if (!is_text && argument == with_sign) split = name;
      if (!is_text && argument == name) takes_next = true;
    }
    result.push_back(split != nullptr ? split : argv[i]);
    if (split != nullptr) result.push_back("");
    is_text = takes_next;
  }
  return result;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  std::string model;
  std::string device = "cpu";
  bool escape = false;
  const std::string version = program::version_text("chat");

  CLI::App app(
      "Chats with a Qwen2 model on this machine.\n\n"
      "On a terminal this is a conversation: /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves. With\n"
      "--prompt, or with text on standard input, the answer and a newline are printed, and nothing else.",
      "chat");
  app.get_formatter()->column_width(28);
  app.set_help_flag("-h,--help", "Print this help and exit")->group("Program");
  app.set_version_flag("--version", version, "Print the version and exit")->group("Program");

  // Adds an option with a value. Where a description has several lines, CLI11 indents them.
  std::string group = "Model";
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help) {
    return app.add_option(name, value, help)->type_name(type)->group(group);
  };
  const auto add_flag = [&](const char* name, bool& value, const char* help) {
    return app.add_flag(name, value, help)->disable_flag_override()->group(group);
  };

#ifdef TENON_EXAMPLE_MODEL
  model = TENON_EXAMPLE_MODEL;
  add("--model", model, "DIR",
      "Folder with config.json, *.safetensors and tokenizer.json;\ndefault: the small model that comes with this "
      "program");
#else
  add("--model", model, "DIR", "Folder with config.json, *.safetensors and tokenizer.json");
#endif
  add("--device", device, "NAME", program::device_help);
  add("--dtype", options.dtype, "NAME", "Compute in f32, f16, bf16 or auto (default: the type of the checkpoint)")
      ->check(one_of({"auto", "f32", "f16", "bf16"}));
  add("--threads", options.threads, "N", program::threads_help)
      ->transform(program::count_within<int>(1, tenon::Context<tenon::Cpu>::max_threads));
  add("--context", options.context, "N",
      "Most tokens of prompt and answer together;\ndefault: what the model allows, but at most 8192")
      ->transform(program::count_within<std::int64_t>(1, largest_count));

  group = "Text";
  add("--prompt", options.prompt, "TEXT",
      "Answer this and exit. Without it, text on standard input that is\nno terminal is the prompt, less one newline "
      "at its end");
  add("--system", options.system, "TEXT", "System prompt; default: that of the model's chat template");
  add("--chat-template", options.chat_template, "NAME",
      "Chat template to use; default: the one in the model folder.\n" + template_names());
  add_flag("--raw", options.raw,
           "Continue the prompt as it is, without a chat template;\non a terminal, each line by itself");
  add_flag("--escape", escape,
           "Read \\n, \\t, \\\\ and \\xNN in --prompt, --system and --stop as newline,\ntab, backslash and byte; "
           "without it a backslash is a backslash");
  add("--stop", options.stop, "TEXT", "End the answer before this text; may be given more than once")
      ->allow_extra_args(false);
  add("--max-new-tokens", options.max_new_tokens, "N",
      "Most tokens in one answer;\ndefault: the model's own limit, or until the context is full")
      ->transform(program::count_within<std::int64_t>(1, largest_count));
  add_flag("--stats", options.stats, "Print speed, reused tokens and seed on standard error");

  group = "Sampling (default: as generation_config.json of the model says; greedy where it does not)";
  add_flag("--greedy", options.greedy, "Always take the most probable token, whatever the options below say");
  add("--temperature", options.temperature, "X", "0 is greedy, 1 is the model's own distribution")
      ->check(program::number_within(0, infinity, "a number not below 0"));
  add("--top-k", options.top_k, "N", "Sample from the N most probable tokens; 0 is off")
      ->transform(program::count_within<std::int64_t>(0, largest_count));
  add("--top-p", options.top_p, "X", "Sample from the fewest tokens with this probability in sum; 1 is off")
      ->check(program::number_within(0, 1, "a number between 0 and 1"));
  add("--min-p", options.min_p, "X", "Drop tokens below this share of the best one's probability; 0 is off")
      ->check(program::number_within(0, 1, "a number between 0 and 1"));
  add("--repetition-penalty", options.repetition_penalty, "X",
      "Above 1, tokens that are in the text already become less probable;\n1 is off")
      ->check(program::number_within(0, infinity, "a number above 0", true));
  add("--seed", options.seed, "N",
      "Equal seeds give equal answers; answer n of a chat uses seed + n - 1;\ndefault: another one each time")
      ->transform(program::count_within<std::uint64_t>(0, ~std::uint64_t{0}));

  app.footer(
      "\nExamples:\n"
      "  chat                                            talk to the small model\n"
      "  chat --prompt \"Tell me a story.\" --greedy       one answer, the same every time\n"
      "  chat --model Qwen2.5-0.5B-Instruct --dtype bf16\n" +
      std::string(program::has_cuda ? "  chat --model Qwen2.5-7B-Instruct --device cuda\n" : "") +
      "  git diff | chat --model Qwen2.5-7B-Instruct --system \"Write a commit message.\"\n\n"
      "Exit codes: 0 success, 1 failure, 2 wrong use.");

  try {
    const auto arguments = split_empty_texts(argc, argv);
    app.parse(static_cast<int>(arguments.size()), arguments.data());
  } catch (const CLI::CallForHelp&) {
    write_all(STDOUT_FILENO, app.help());
    return std::nullopt;
  } catch (const CLI::CallForVersion&) {
    write_all(STDOUT_FILENO, version + "\n");
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw UsageError(program::parse_problem(error) + " (see --help)");
  }

  if (const std::string problem = program::read_device(device, options.device); !problem.empty())
    throw UsageError(problem);
  if (options.raw && options.system) throw UsageError("--raw and --system exclude each other");
  if (options.raw && options.chat_template) throw UsageError("--raw and --chat-template exclude each other");
  if (model.empty()) throw UsageError("--model DIR is missing: the folder of a Qwen2 checkpoint");
  options.model = model;
  if (escape) {
    if (options.prompt) options.prompt = unescape(*options.prompt, "--prompt");
    if (options.system) options.system = unescape(*options.system, "--system");
    for (std::string& stop : options.stop) stop = unescape(stop, "--stop");
  }
  for (const std::string& stop : options.stop) {
    if (stop.empty()) throw UsageError("--stop: the text must not be empty");
  }
  return options;
}

}  // namespace chat
