// Reading a report back, to print it for people.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace llm {

inline double number_at(const nlohmann::json& report, const char* pointer) {
  return report.at(nlohmann::json::json_pointer(pointer)).get<double>();
}
inline std::string text_at(const nlohmann::json& report, const char* pointer) {
  return report.at(nlohmann::json::json_pointer(pointer)).get<std::string>();
}

}  // namespace llm
