// Speed of the tokenizer: loading, encoding and decoding English text, and text of other kinds.
//
// TENON_BENCH_TOKENIZER names a model folder or a tokenizer.json (otherwise that of the shipped model is used), and
// TENON_BENCH_TEXT a text file (otherwise a paragraph is repeated). Bytes per second are bytes of text.
//
// `tokenizer_bench --serve MODEL` is the other end of compare_tokenizers.py: it reads JSON lists of texts, one a line,
// and answers with the seconds that encoding them took and the number of tokens.
#include <tenon/text/tokenizer.hpp>

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace {

std::filesystem::path tokenizer_path() {
  if (const char* path = std::getenv("TENON_BENCH_TOKENIZER")) return path;
  return std::filesystem::path(__FILE__).parent_path().parent_path() / "examples" / "models" / "tiny-qwen2";
}

const tenon::Tokenizer& tokenizer() {
  static const tenon::Tokenizer loaded = tenon::Tokenizer::from_folder(tokenizer_path());
  return loaded;
}

std::string repeat(std::string_view unit, std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += unit;
  return text;
}

std::string english() {
  if (const char* path = std::getenv("TENON_BENCH_TEXT")) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  return repeat(
      "The lighthouse keeper's daughter had counted the ships for eleven years, and in all that time she'd never seen "
      "one turn back. \"It doesn't matter,\" she told the visitors (there were few), \"whether they're late; what "
      "counts is that they come.\" On 14 March the fog lifted at 6:30, and a schooner with a broken mast drifted "
      "in.\n\n",
      1 << 20);
}

void load(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(tenon::Tokenizer::from_folder(tokenizer_path()).vocab_size());
}

void encode(benchmark::State& state, const std::string& text) {
  std::size_t tokens = 0;
  for (auto _ : state) {
    const auto ids = tokenizer().encode(text);
    tokens = ids.size();
    benchmark::DoNotOptimize(ids.data());
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
  state.counters["tokens"] = static_cast<double>(tokens);
}

void decode(benchmark::State& state, const std::string& text) {
  const auto ids = tokenizer().encode(text);
  for (auto _ : state) benchmark::DoNotOptimize(tokenizer().decode(ids).data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(text.size()));
}

BENCHMARK(load)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, english, english())->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_line, std::string("What is the capital of France, and how many people live there?"));
BENCHMARK_CAPTURE(encode, chinese, repeat("今天的天气很好，我们去公园散步吧。", 1 << 18))
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, accents, repeat("Zwölf Größen, naïve café, señor. ", 1 << 18))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, code, repeat("for (int i = 0; i < n; ++i) {\n\t\tsum += a[i] * b[i];  // dot\n}\n", 1 << 18))
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(encode, one_letter, repeat("a", 1 << 18))->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(decode, english, english())->Unit(benchmark::kMillisecond);

int serve(const char* model) {
  const auto seconds_of = [](auto&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::optional<tenon::Tokenizer> loaded;
  const double load_seconds = seconds_of([&] { loaded = tenon::Tokenizer::from_folder(model); });
  std::cout << nlohmann::json{{"load_seconds", load_seconds}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    const auto texts = nlohmann::json::parse(line).get<std::vector<std::string>>();
    std::size_t tokens = 0;
    const double seconds = seconds_of([&] {
      for (const std::string& text : texts) tokens += loaded->encode(text).size();
    });
    std::cout << nlohmann::json{{"seconds", seconds}, {"tokens", tokens}} << std::endl;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--serve") return serve(argv[2]);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
