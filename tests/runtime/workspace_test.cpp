#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include <catch2/catch_test_macros.hpp>

#include <support/sanitizer_options.hpp>
#include <tenon/runtime/workspace.hpp>

using tenon::Workspace;

namespace {

/// One call tree of scopes: every allocation is filled with its own byte, and checked when its scope ends.
void nest(Workspace& workspace, std::mt19937& random, int depth, int& corrupted) {
  auto scope = workspace.scope();
  struct Piece {
    unsigned char* data;
    std::size_t size;
    unsigned char mark;
  };
  std::vector<Piece> pieces;
  const int count = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < count; ++i) {
    const std::size_t size = random() % 5 == 0 ? random() % 3000000 : random() % 5000;
    auto* data = scope.allocate<unsigned char>(size);
    if (reinterpret_cast<std::uintptr_t>(data) % 64 != 0) ++corrupted;
    const auto mark = static_cast<unsigned char>(random());
    std::memset(data, mark, size);
    pieces.push_back({data, size, mark});
  }
  if (depth > 0) {
    for (int i = 0; i < 2; ++i) nest(workspace, random, depth - 1, corrupted);
  }
  for (const Piece& piece : pieces) {
    for (std::size_t i = 0; i < piece.size; ++i) {
      if (piece.data[i] != piece.mark) {
        ++corrupted;
        break;
      }
    }
  }
}

}  // namespace

TEST_CASE("workspace: nested scopes never share bytes that are alive", "[workspace]") {
  Workspace workspace;
  int corrupted = 0;
  for (unsigned round = 0; round < 20; ++round) {
    std::mt19937 random(round);
    nest(workspace, random, 3, corrupted);
  }
  CHECK(corrupted == 0);
}

TEST_CASE("workspace: allocates nothing more once it has seen the deepest call", "[workspace]") {
  Workspace workspace;
  CHECK(workspace.capacity() == 0);  // and nothing before it is used
  const auto call = [&] {
    auto outer = workspace.scope();
    auto* a = outer.allocate<float>(std::size_t{100000});
    void* second = nullptr;
    {
      auto inner = workspace.scope();
      second = inner.allocate<double>(std::size_t{300000});
    }
    {
      auto inner = workspace.scope();
      // What an inner scope gave back is what the next one gets, once all is in one block.
      CHECK(static_cast<void*>(inner.allocate<double>(std::size_t{10})) == second);
    }
    return std::pair<void*, void*>(a, second);
  };
  {
    auto outer = workspace.scope();
    static_cast<void>(outer.allocate<float>(std::size_t{100000}));
    auto inner = workspace.scope();
    static_cast<void>(inner.allocate<double>(std::size_t{300000}));
  }
  const std::size_t warm = workspace.capacity();
  CHECK(warm >= 100000 * sizeof(float) + 300000 * sizeof(double));
  const auto first = call();
  for (int i = 0; i < 100; ++i) CHECK(call() == first);  // the same addresses: nothing new
  CHECK(workspace.capacity() == warm);
}

TEST_CASE("workspace: many small allocations share one block", "[workspace]") {
  Workspace workspace;
  auto scope = workspace.scope();
  for (int i = 0; i < 1000; ++i) static_cast<void>(scope.allocate<float>(std::size_t{1}));
  CHECK(workspace.capacity() <= std::size_t{1} << 20);
  CHECK(scope.allocate<float>(std::int64_t{0}) != nullptr);
}

TEST_CASE("workspace: what is allocated before stays valid while blocks are added", "[workspace]") {
  Workspace workspace;
  auto scope = workspace.scope();
  std::vector<int*> first;
  for (int i = 0; i < 40; ++i) {
    auto* data = scope.allocate<int>(std::size_t{1} << (10 + i % 10));
    data[0] = i;
    first.push_back(data);
  }
  for (int i = 0; i < 40; ++i) CHECK(first[static_cast<std::size_t>(i)][0] == i);
}

TEST_CASE("E10: a workspace that cannot grow says so and can be used afterwards", "[workspace]") {
  Workspace workspace;
  {
    auto scope = workspace.scope();
    auto* kept = scope.allocate<int>(std::size_t{4});
    kept[3] = 5;
    CHECK_THROWS_AS(scope.allocate<char>(std::size_t{1} << 60), tenon::Error);
    CHECK_THROWS_AS(scope.allocate<double>(std::numeric_limits<std::size_t>::max() / 4), tenon::Error);
    CHECK_THROWS_AS(scope.allocate<char>(std::numeric_limits<std::size_t>::max()), tenon::Error);
    CHECK_THROWS_AS(scope.allocate<char>(std::int64_t{-1}), tenon::Error);
    CHECK_THROWS_AS(scope.allocate<float>(std::int64_t{-5}), tenon::Error);
    CHECK(kept[3] == 5);
    scope.allocate<int>(std::size_t{1000})[999] = 1;
  }
  auto scope = workspace.scope();
  scope.allocate<int>(std::size_t{100000})[99999] = 1;
}
