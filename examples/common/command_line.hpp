// Reading the command lines of the programs. Numbers are decimal, with nothing before or after them.
#pragma once

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include <tenon/runtime/context.hpp>

#include "common/device.hpp"
#include "common/program.hpp"

namespace program {

/// A check for CLI11: the number must be finite and within [low, high], or above `low` where `open`.
inline CLI::Validator number_within(double low, double high, const std::string& allowed, bool open = false) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        double value = 0;
        const bool fits =
            read_number(text, value) && std::isfinite(value) && value <= high && (open ? value > low : value >= low);
        return fits ? std::string() : in_quotes(text) + " is not " + allowed;
      },
      "");
}

/// The same for whole numbers, as a transformation: CLI11 would read what starts with a zero as octal, and wrap what is
/// negative or too large.
template <class T>
CLI::Validator count_within(T low, T high) {
  return CLI::Validator(
      [=](std::string& text) -> std::string {
        T value = 0;
        if (!read_number(text, value) || value < low || value > high) {
          return in_quotes(text) + " is not a whole number between " + std::to_string(low) + " and " +
                 std::to_string(high);
        }
        text = std::to_string(value);
        return {};
      },
      "");
}

/// What is wrong with the command line, in words that name the option.
inline std::string parse_problem(const CLI::ParseError& error) {
  std::string message = error.what();
  constexpr std::string_view flag_with_value = " was given a disallowed flag override";
  if (!message.ends_with(flag_with_value)) return message;
  return "--" + message.substr(0, message.size() - flag_with_value.size()) + " takes no value";
}

/// Whether the program was built with cuDNN, which its CMake target says.
#ifdef TENON_PROGRAM_CUDNN
inline constexpr bool has_cudnn = true;
#else
inline constexpr bool has_cudnn = false;
#endif

inline constexpr const char* threads_help = "Threads to compute with on the CPU; default: one for each physical core";

/// A command line with --help and --version, and options that several programs have. What is wrong with it is one line on
/// standard error and exit code 2.
class CommandLine : public CLI::App {
 public:
  CommandLine(const std::string& description, const std::string& name) : CLI::App(description, name) {
    get_formatter()->column_width(28);
    set_help_flag("-h,--help", "Print this help and exit");
    set_version_flag("--version", version_text(name), "Print the version and exit");
  }

  /// A flag that takes no value.
  void add_switch(const std::string& name, bool& value, const std::string& help) {
    add_flag(name, value, help)->disable_flag_override();
  }
  void add_device(Device& device) {
    add_option("--device", device_, device_help)->type_name("NAME");
    require([this, &device] { return read_device(device_, device); });
  }
  void add_threads(int& threads) {
    add_option("--threads", threads, threads_help)
        ->type_name("N")
        ->transform(count_within(1, tenon::Context<tenon::Cpu>::max_threads));
  }
  /// After add_device.
  void add_cudnn(bool& cudnn, const Device& device) {
    add_switch(
        "--cudnn", cudnn,
        has_cudnn ? "Run parts of the graph with cuDNN" : "Run parts of the graph with cuDNN; this build has none");
    require([&cudnn, &device]() -> std::string {
      if (cudnn && !has_cudnn) return "--cudnn: this build has no cuDNN";
      return cudnn && !device.is_cuda() ? "--cudnn needs --device cuda" : "";
    });
  }

  /// Adds a check of what was read, which says what is wrong with it, or nothing. Checks are made in the order of their
  /// adding, after all options have been read.
  void require(std::function<std::string()> check) { checks_.push_back(std::move(check)); }

  /// Reads the arguments. Returns the exit code where the program ends here: 0 after --help and --version, 2 for wrong use.
  std::optional<int> read(int argc, const char* const* argv) {
    try {
      parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return program::run(get_name(), [&] { return exit(error); });
      return refuse(parse_problem(error));
    }
    for (const auto& check : checks_) {
      if (const std::string problem = check(); !problem.empty()) return refuse(problem);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] int refuse(const std::string& problem) const {
    return fail(get_name(), problem + " (--help lists the options)", 2);
  }

  std::string device_ = "cpu";
  std::vector<std::function<std::string()>> checks_;
};

}  // namespace program
