// libFuzzer: config.json, generation_config.json and tokenizer_config.json from anybody are read or refused.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include <tenon/io/generation_config.hpp>
#include <tenon/io/model_config.hpp>
#include <tenon/io/tokenizer_config.hpp>

namespace {
template <class Parse>
void attempt(Parse&& parse) {
  try {
    parse();
  } catch (const tenon::Error&) {
    return;
  }
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  attempt([&] {
    const tenon::ModelConfig config = tenon::parse_model_config(text);
    if (config.query_size() <= 0 || config.parameter_count() <= 0) std::abort();
  });
  attempt([&] { tenon::parse_generation_config(text); });
  attempt([&] { tenon::parse_tokenizer_config(text); });
  return 0;
}
