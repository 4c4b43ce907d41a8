// Continues a text on a GPU with the model in a folder: config.json, *.safetensors, tokenizer.json.
#include <exception>
#include <iostream>
#include <string_view>
#include <tenon/cuda.hpp>
#include <tenon/text.hpp>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: app MODEL_DIR TEXT\n";
    return 2;
  }
  try {
    tenon::Context<tenon::Cuda> ctx;  // the first GPU
    const auto model = tenon::load_model<tenon::Qwen2<float, tenon::Cuda>>(ctx, argv[1]);
    const auto tokenizer = tenon::Tokenizer::from_folder(argv[1]);

    tenon::Sequence sequence(ctx, model);
    auto options = tenon::load_generation_defaults(argv[1], model.config(), tokenizer).text_options();
    options.sampling.greedy = true;  // the same text every time
    options.max_new_tokens = 16;
    tenon::generate_text(sequence, tokenizer, tokenizer.encode(argv[2]), options, [](std::string_view piece) {
      std::cout << piece << std::flush;
      return true;
    });
    std::cout << '\n';
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
