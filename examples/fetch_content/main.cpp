// Prints how the tokenizer of a model folder cuts a sentence.
#include <exception>
#include <iostream>
#include <tenon/text.hpp>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: app MODEL_DIR\n";
    return 2;
  }
  try {
    const auto tokenizer = tenon::Tokenizer::from_file(argv[1]);
    for (const std::int64_t id : tokenizer.encode("Tell me a story.")) {
      std::cout << id << " '" << tokenizer.token_bytes(id) << "'\n";
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
