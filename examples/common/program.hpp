// What the programs have in common.
#pragma once

#include <charconv>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/core/version.hpp>

namespace program {

/// What --version prints: "chat (tenon) 0.1.0".
inline std::string version_text(const std::string& name) {
  return name + " (tenon) " + std::to_string(TENON_VERSION_MAJOR) + "." + std::to_string(TENON_VERSION_MINOR) + "." +
         std::to_string(TENON_VERSION_PATCH);
}

/// Whether the whole text is one number, which goes to `value`.
template <class T>
bool read_number(std::string_view text, T& value) {
  const char* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  return parsed.ec == std::errc() && parsed.ptr == end;
}

/// The text in quotes, or how it begins.
inline std::string in_quotes(std::string_view text) { return tenon::detail::quoted_text(text); }

/// The type that --dtype names; empty for "auto".
inline std::optional<tenon::DType> named_dtype(std::string_view name) {
  if (name == "f32") return tenon::DType::float32;
  if (name == "f16") return tenon::DType::float16;
  if (name == "bf16") return tenon::DType::bfloat16;
  return std::nullopt;
}

/// The text with its control characters, which a terminal would obey, spelled out as \xNN; a newline becomes a space.
inline std::string printable(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0U;
    const bool wide = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // U+0080 to U+009F
    if (byte == '\n') {
      result += ' ';
    } else if (byte < 0x20 || byte == 0x7f || wide) {
      for (const unsigned value : {static_cast<unsigned>(byte), next}) {
        result += {'\\', 'x', digits[value / 16], digits[value % 16]};
        if (!wide) break;
      }
      i += wide ? 1 : 0;
    } else {
      result += text[i];
    }
  }
  return result;
}

/// Writes one line to standard error, whatever is in the message, and returns the exit code.
inline int fail(const std::string& name, const std::string& message, int exit_code) {
  std::cout.flush();
  std::fflush(stdout);
  std::cerr << name << ": " << printable(message) << std::endl;
  return exit_code;
}

/// Throws FileError unless everything that was printed could be written.
inline void finish_output() {
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0 || !std::cout) {
    throw tenon::FileError("cannot write to standard output");
  }
}

/// Runs a program's work, which returns the exit code; an exception is exit code 1, and one line on standard error.
template <class Work>
int run(const std::string& name, Work&& work) {
  try {
    const int exit_code = work();
    finish_output();
    return exit_code;
  } catch (const std::bad_alloc&) {
    return fail(name, "there is not enough memory for this model and context", 1);
  } catch (const std::exception& error) {
    return fail(name, error.what(), 1);
  }
}

}  // namespace program
