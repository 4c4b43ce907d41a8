// Reading the command lines of chat, verify and llm. Numbers are decimal, with nothing before or after them.
#pragma once

#include <cmath>
#include <string>
#include <string_view>

#include <CLI/CLI.hpp>

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

}  // namespace program
