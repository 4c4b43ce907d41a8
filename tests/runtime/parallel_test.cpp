#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <tenon/runtime/parallel.hpp>

using tenon::Context;
using tenon::Cpu;

TEST_CASE("parallel_for: every index once, in whole pieces of at least the grain", "[parallel]") {
  for (const int threads : {1, 2, 3, 7, 64}) {
    Context<Cpu> ctx(threads);
    for (const std::int64_t count : {1, 2, 3, 10, 63, 64, 65, 1000}) {
      for (const std::int64_t grain : {-1, 0, 1, 4, 100, 100000}) {
        CAPTURE(threads, count, grain);
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        std::atomic<int> pieces{0};
        std::atomic<bool> sound{true};
        tenon::parallel_for(ctx, count, grain, [&](std::int64_t begin, std::int64_t end) {
          ++pieces;
          if (begin < 0 || begin >= end || end > count) sound = false;
          if (end - begin < std::min(grain, count)) sound = false;
          for (std::int64_t i = begin; i < end; ++i) ++seen[static_cast<std::size_t>(i)];
        });
        CHECK(sound);
        CHECK(pieces <= threads);
        bool once = true;
        for (const auto& times : seen) once = once && times == 1;
        CHECK(once);
      }
    }
  }
}

TEST_CASE("parallel_for: nothing to do calls nothing", "[parallel]") {
  Context<Cpu> ctx(4);
  int calls = 0;
  tenon::parallel_for(ctx, 0, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  tenon::parallel_for(ctx, -5, 1, [&](std::int64_t, std::int64_t) { ++calls; });
  CHECK(calls == 0);
}

TEST_CASE("parallel_for: counts near 2^63 do not overflow", "[parallel]") {
  Context<Cpu> ctx(8);
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces;
  tenon::parallel_for(ctx, largest, 1, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    pieces.emplace_back(begin, end);
  });
  std::sort(pieces.begin(), pieces.end());
  std::int64_t next = 0;
  for (const auto& [begin, end] : pieces) {
    CHECK(begin == next);
    CHECK(end > begin);
    next = end;
  }
  CHECK(next == largest);
}

TEST_CASE("parallel_for: an exception of any piece arrives, and the next call works", "[parallel]") {
  for (const int threads : {1, 2, 8}) {
    Context<Cpu> ctx(threads);
    for (int round = 0; round < 20; ++round) {
      CHECK_THROWS_AS(tenon::parallel_for(ctx, 100, 1,
                                          [&](std::int64_t begin, std::int64_t end) {
                                            if (begin <= 57 && 57 < end) throw std::out_of_range("57");
                                          }),
                      std::out_of_range);
      CHECK_THROWS_WITH(tenon::parallel_for(ctx, 100, 1, [](std::int64_t, std::int64_t) { throw tenon::Error("all"); }),
                        "all");
      std::atomic<std::int64_t> sum{0};
      tenon::parallel_for(ctx, 100, 1, [&](std::int64_t begin, std::int64_t end) { sum += end - begin; });
      CHECK(sum == 100);
    }
  }
}

TEST_CASE("parallel_for: may be called inside itself", "[parallel]") {
  Context<Cpu> outer(3);
  std::vector<std::atomic<int>> seen(60);
  tenon::parallel_for(outer, 6, 1, [&](std::int64_t begin, std::int64_t end) {
    Context<Cpu> inner(4);  // a context of its own: one serves one thread at a time
    for (std::int64_t i = begin; i < end; ++i) {
      tenon::parallel_for(inner, 10, 1, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t k = first; k < last; ++k) ++seen[static_cast<std::size_t>(i * 10 + k)];
      });
    }
  });
  for (const auto& times : seen) CHECK(times == 1);
}

TEST_CASE("parallel_run: calls the body once for every piece, whatever the number of threads", "[parallel]") {
  for (const int threads : {1, 2, 5}) {
    Context<Cpu> ctx(threads);
    for (const int pieces : {0, 1, 2, 5, 100, 70000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(pieces));
      tenon::parallel_run(ctx, pieces, [&](int piece) { ++seen[static_cast<std::size_t>(piece)]; });
      bool once = true;
      for (const auto& times : seen) once = once && times == 1;
      CHECK(once);
    }
  }
}

TEST_CASE("parallel_run: many short loops in a row each run once", "[parallel]") {
  Context<Cpu> ctx(4);
  std::int64_t expected = 0;
  std::atomic<std::int64_t> sum{0};
  for (int loop = 0; loop < 20000; ++loop) {
    const int pieces = 1 + loop % 7;
    tenon::parallel_run(ctx, pieces, [&](int piece) { sum += piece + 1; });
    expected += pieces * (pieces + 1) / 2;
    if (sum != expected) break;
  }
  CHECK(sum == expected);
}

TEST_CASE("parallel_run: a call from inside a body runs on its own thread", "[parallel]") {
  Context<Cpu> ctx(3);
  std::vector<std::atomic<int>> seen(12);
  tenon::parallel_run(ctx, 3, [&](int outer) {
    const auto self = std::this_thread::get_id();
    tenon::parallel_run(ctx, 4, [&](int inner) {
      if (std::this_thread::get_id() == self) ++seen[static_cast<std::size_t>(outer * 4 + inner)];
    });
  });
  for (const auto& times : seen) CHECK(times == 1);
}

TEST_CASE("parallel_run: sleeping workers wake, and contexts come and go", "[parallel]") {
  for (int round = 0; round < 20; ++round) {
    Context<Cpu> ctx(1 + round % 4);
    for (int loop = 0; loop < 3; ++loop) {
      std::atomic<int> calls{0};
      tenon::parallel_run(ctx, 8, [&](int) { ++calls; });
      CHECK(calls == 8);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than workers look for work
    }
    ctx.set_threads(2);
    std::atomic<int> calls{0};
    tenon::parallel_run(ctx, 8, [&](int) { ++calls; });
    CHECK(calls == 8);
  }
}
