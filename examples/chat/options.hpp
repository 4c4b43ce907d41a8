// The command line of the chat program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/device.hpp"

namespace chat {

/// What the user asked for. An empty optional means: as the model's own files say, or the program's default.
struct Options {
  std::filesystem::path model;
  program::Device device;
  std::string dtype = "auto";
  std::optional<std::string> chat_template;

  std::optional<std::string> prompt;
  std::optional<std::string> system;
  bool raw = false;
  bool stats = false;

  std::optional<std::int64_t> max_new_tokens;
  std::optional<double> temperature;
  std::optional<std::int64_t> top_k;
  std::optional<double> top_p;
  std::optional<double> min_p;
  std::optional<double> repetition_penalty;
  std::optional<std::uint64_t> seed;
  bool greedy = false;
  std::vector<std::string> stop;

  int threads = 0;
  std::optional<std::int64_t> context;
};

/// Reads the command line. Prints and returns nothing for --help and --version; throws UsageError for wrong use.
std::optional<Options> parse_options(int argc, const char* const* argv);

}  // namespace chat
