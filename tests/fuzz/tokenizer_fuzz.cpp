// libFuzzer: a tokenizer.json from anybody is read or refused; one that is read encodes and decodes any bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/text/tokenizer.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const auto tokenizer = tenon::Tokenizer::from_json(bytes);
    // Both ends of the input: added tokens are at the front of a tokenizer.json, the vocabulary and merges at its end.
    for (const std::string_view text : {bytes.substr(0, 512), bytes.substr(size - std::min<std::size_t>(size, 512))}) {
      const std::vector<std::int64_t> ids = tokenizer.encode(text);
      for (const std::int64_t id : ids) {
        if (id < 0 || id >= tokenizer.vocab_size()) std::abort();
      }
      static_cast<void>(nlohmann::json(tokenizer.decode(ids)).dump());  // throws what is not caught if it is no UTF-8
    }
  } catch (const tenon::Error&) {
    return 0;
  }
  return 0;
}
