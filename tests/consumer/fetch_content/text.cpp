#include <tenon/text.hpp>

#include <pcre2.h>
#include <utf8proc.h>

#include <nlohmann/json.hpp>

// Uses each text library, so that a missing one shows at link time.
int count_text_headers() {
  std::uint32_t unicode = 0;
  pcre2_config_8(PCRE2_CONFIG_UNICODE, &unicode);
  return static_cast<int>(nlohmann::json::array({1, 2, 3}).size()) + static_cast<int>(unicode) +
         (utf8proc_version()[0] != '\0' ? 1 : 0);
}
