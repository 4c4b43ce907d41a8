// libFuzzer: a Jinja template from anybody is recognised or refused; what is recognised renders a chat with all it says.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/text/chat_template.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto chat = tenon::ChatTemplate::from_jinja({reinterpret_cast<const char*>(data), size}, "<bos>");
    const auto names = tenon::ChatTemplate::names();
    if (std::find(names.begin(), names.end(), chat.name()) == names.end()) std::abort();
    const std::vector<tenon::ChatMessage> messages{{.role = "system", .content = "first said"},
                                                   {.role = "user", .content = "second said"},
                                                   {.role = "assistant", .content = "third said"},
                                                   {.role = "user", .content = "fourth said"}};
    const std::string prompt = tenon::to_string(chat.render(messages));
    for (const auto& message : messages) {
      if (prompt.find(*message.content) == std::string::npos) std::abort();
    }
  } catch (const tenon::Error&) {
    return 0;
  }
  return 0;
}
