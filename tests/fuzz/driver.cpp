// Runs a fuzz target (LLVMFuzzerTestOneInput) without libFuzzer, so that every compiler and sanitizer can: each seed file
// as it is, then a fixed number of mutations of the seeds, the same ones in every run.
//
//   NAME_fuzz RUNS SEED_FILE_OR_FOLDER...
//
// Seeds over 64 KiB are cut: what is parsed is at the front of the files.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using Bytes = std::vector<std::uint8_t>;
constexpr std::size_t longest_seed = std::size_t{64} << 10;

void read_seed(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
  std::ifstream file(path, std::ios::binary);
  Bytes bytes;
  std::copy_n(std::istreambuf_iterator<char>(file),
              std::min<std::uintmax_t>(longest_seed, std::filesystem::file_size(path)), std::back_inserter(bytes));
  seeds.push_back(std::move(bytes));
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Bytes>& seeds) : seeds_(seeds) {}

  Bytes operator()() {
    Bytes bytes = seeds_[below(seeds_.size())];
    for (std::size_t i = 0, count = 1 + below(4); i < count; ++i) mutate(bytes);
    return bytes;
  }

 private:
  std::size_t below(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine_); }

  void mutate(Bytes& bytes) {
    const auto at = [&] { return bytes.begin() + static_cast<std::ptrdiff_t>(below(bytes.size() + 1)); };
    if (bytes.empty()) bytes.push_back(0);
    switch (below(6)) {
      case 0:  // a flipped bit
        bytes[below(bytes.size())] ^= static_cast<std::uint8_t>(1u << below(8));
        break;
      case 1:  // a byte that means something to a parser
        bytes[below(bytes.size())] = static_cast<std::uint8_t>("\0\xff\"{}[],:-\\09e\x80"[below(16)]);
        break;
      case 2:  // the end cut off
        bytes.erase(at(), bytes.end());
        break;
      case 3: {  // a piece of another seed put in
        const Bytes& other = seeds_[below(seeds_.size())];
        if (other.empty()) break;
        const std::size_t from = below(other.size());
        const std::size_t length = std::min(other.size() - from, 1 + below(32));
        const auto first = other.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.insert(at(), first, first + static_cast<std::ptrdiff_t>(length));
        break;
      }
      case 4: {  // a piece taken out
        const auto first = at();
        bytes.erase(first, first + std::min<std::ptrdiff_t>(bytes.end() - first, 1 + static_cast<int>(below(16))));
        break;
      }
      default: {  // a digit changed: sizes and offsets
        const auto start = at();
        const auto digit = std::find_if(start, bytes.end(), [](std::uint8_t c) { return c >= '0' && c <= '9'; });
        if (digit != bytes.end()) *digit = static_cast<std::uint8_t>('0' + below(10));
        break;
      }
    }
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937 engine_{20240229};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s RUNS SEED_FILE_OR_FOLDER...\n", argv[0]);
    return 2;
  }
  std::vector<std::filesystem::path> paths;
  for (int i = 2; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
        if (entry.is_regular_file()) paths.push_back(entry.path());
      }
    } else {
      paths.emplace_back(argv[i]);
    }
  }
  std::sort(paths.begin(), paths.end());
  std::vector<Bytes> seeds;
  for (const auto& path : paths) read_seed(path, seeds);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds\n", argv[0]);
    return 2;
  }
  for (const Bytes& seed : seeds) LLVMFuzzerTestOneInput(seed.data(), seed.size());
  Mutator next(seeds);
  const long runs = std::strtol(argv[1], nullptr, 10);
  for (long i = 0; i < runs; ++i) {
    const Bytes bytes = next();
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
  std::printf("%zu seeds, %ld mutations\n", seeds.size(), runs);
}
