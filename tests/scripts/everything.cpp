// Every header, and a model of each element type from the file to the text: what a compiler, or clang-tidy, is to look at.
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <tenon/cpu/reference_graph.hpp>
#include <tenon/text.hpp>
#include <vector>

template class tenon::Decoder<float, tenon::Cpu>;
template class tenon::Decoder<tenon::float16, tenon::Cpu>;
template class tenon::Decoder<tenon::bfloat16, tenon::Cpu>;
template class tenon::Sequence<tenon::Qwen2<float, tenon::Cpu>>;

namespace {

template <class Model>
void use(const std::filesystem::path& folder) {
  tenon::Context<tenon::Cpu> ctx;
  const auto model = tenon::load_model<Model>(ctx, folder);
  const auto tokenizer = tenon::Tokenizer::from_folder(folder);
  tenon::Sequence<Model> sequence(ctx, model);
  const std::vector<std::int64_t> prompt = tokenizer.encode("text");
  tenon::generate_text(sequence, tokenizer, prompt, tenon::TextOptions{}, [](std::string_view) { return true; });
}

}  // namespace

void use_everything(const std::filesystem::path& folder);
void use_everything(const std::filesystem::path& folder) {
  use<tenon::Qwen2<float, tenon::Cpu>>(folder);
  use<tenon::Qwen2<tenon::float16, tenon::Cpu>>(folder);
  use<tenon::Qwen2<tenon::bfloat16, tenon::Cpu>>(folder);
  use<tenon::Llama<float, tenon::Cpu>>(folder);
}
