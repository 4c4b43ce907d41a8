// JSON as chat templates print it.
#pragma once

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/json.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The shortest digits that read back as `value`, laid out as Python's repr does: plain from 1e-4 up to 1e16, always
/// with a point or an exponent.
inline std::string python_float(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  if (value == 0) return std::signbit(value) ? "-0.0" : "0.0";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  const std::string_view text(buffer, static_cast<std::size_t>(end - buffer));  // d.ddde[+-]dd
  const std::size_t e = text.find('e');
  const bool negative = text[0] == '-';
  std::string digits;
  for (const char c : text.substr(0, e)) {
    if (c >= '0' && c <= '9') digits += c;
  }
  int exponent = 0;
  const bool small = text[e + 1] == '-';
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  if (small) exponent = -exponent;
  const std::string sign = negative ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    std::string mantissa = digits.substr(0, 1);
    if (digits.size() > 1) mantissa += "." + digits.substr(1);
    return sign + mantissa + std::string(text.substr(e));
  }
  if (exponent < 0) return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto whole = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= whole) return sign + digits + std::string(whole - digits.size(), '0') + ".0";
  return sign + digits.substr(0, whole) + "." + digits.substr(whole);
}

/// `value` as `tojson` prints it in transformers' template environment, which is Python's
/// json.dumps(value, ensure_ascii=False): ", " and ": " between items, keys in their order, only quotes, backslashes
/// and control characters escaped. (Jinja's own `tojson` would sort keys and escape <, > and &.) Strings must be UTF-8.
/// Throws ValueError below `JsonLimits::max_depth` levels; `level` is how deep `value` lies.
inline void append_template_json(std::string& out, const nlohmann::ordered_json& value, int level = 1) {
  if (value.is_structured() && level > JsonLimits{}.max_depth) {
    throw ValueError("the JSON in a chat is nested more than " + std::to_string(JsonLimits{}.max_depth) +
                     " levels deep");
  }
  bool first = true;
  const auto separate = [&] {
    if (!first) out += ", ";
    first = false;
  };
  if (value.is_object()) {
    out += '{';
    for (const auto& item : value.items()) {
      separate();
      append_template_json(out, nlohmann::ordered_json(item.key()));
      out += ": ";
      append_template_json(out, item.value(), level + 1);
    }
    out += '}';
  } else if (value.is_array()) {
    out += '[';
    for (const auto& item : value) {
      separate();
      append_template_json(out, item, level + 1);
    }
    out += ']';
  } else if (value.is_number_float()) {
    out += python_float(value.get<double>());
  } else {
    out += value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  }
}

inline std::string template_json(const nlohmann::ordered_json& value) {
  std::string out;
  append_template_json(out, value);
  return out;
}

}  // namespace detail
TENON_NAMESPACE_END
