// What this machine can do at most, measured: the speed of reading memory, and of multiply-adds that read none. Numbers
// of a model or an operator mean something beside these, taken in the same run and with the same threads.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>

#include <tenon/cpu/simd/simd.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/parallel.hpp>
#include <tenon/tensor/create.hpp>

#include <timing.hpp>

#define TENON_SIMD_BODY <limits_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

namespace limits {

using timing::seconds_since;

/// A line "name: N kB" of a file of /proc, in bytes; 0 where it is not there.
inline std::int64_t proc_bytes(const char* path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind(name + ":", 0) == 0) return std::stoll(line.substr(name.size() + 1)) * 1024;
  }
  return 0;
}

/// Most memory that this process has had resident so far; 0 where the system does not say.
inline std::int64_t peak_resident_bytes() { return proc_bytes("/proc/self/status", "VmHWM"); }

/// Bytes of the largest cache, 32 MiB where the system does not say.
inline std::int64_t last_level_cache_bytes() {
  std::int64_t largest = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
  for (const int level : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE}) {
    largest = std::max<std::int64_t>(largest, ::sysconf(level));
  }
#endif
  return largest > 0 ? largest : std::int64_t{32} << 20;
}

namespace detail {
template <class Level>
float read_all(Level level, const float* data, std::int64_t count) {
  using tenon::SimdLevel;
#if defined(__x86_64__)
  if constexpr (Level::value == SimdLevel::avx512) return simd_avx512::read_all(level, data, count);
  if constexpr (Level::value == SimdLevel::avx2) return simd_avx2::read_all(level, data, count);
#endif
  if constexpr (Level::value == SimdLevel::portable) return simd_portable::read_all(level, data, count);
}
template <class Level>
float multiply_add(Level level, std::int64_t rounds, float factor, float summand) {
  using tenon::SimdLevel;
#if defined(__x86_64__)
  if constexpr (Level::value == SimdLevel::avx512) return simd_avx512::multiply_add(level, rounds, factor, summand);
  if constexpr (Level::value == SimdLevel::avx2) return simd_avx2::multiply_add(level, rounds, factor, summand);
#endif
  if constexpr (Level::value == SimdLevel::portable) return simd_portable::multiply_add(level, rounds, factor, summand);
}
}  // namespace detail

/// Floats that `read_rate` reads in one piece: a multiple of eight vectors of every level.
inline constexpr std::int64_t read_block = 4096;

/// Bytes per second of one pass of plain vector loads over `blocks` blocks of memory, on the threads and at the SIMD level
/// of the context.
inline double read_rate(tenon::Context<tenon::Cpu>& ctx, const float* data, std::int64_t blocks) {
  std::atomic<float> sink{0};
  const auto start = std::chrono::steady_clock::now();
  tenon::parallel_for(ctx, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
    tenon::detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
      sink = detail::read_all(level, data + begin * read_block, (end - begin) * read_block);
    });
  });
  const double seconds = seconds_since(start);
  // The sum is never infinite, but the compiler does not know that, so the loop stays.
  return std::isinf(sink.load()) ? 0.0 : static_cast<double>(blocks * read_block * 4) / seconds;
}

/// Measures reading: plain vector loads over a buffer of 1 GiB or four times the last cache, whichever is larger, but at
/// most half of the memory that is free. Each thread reads its own part, which it has written first.
class ReadBandwidth {
 public:
  /// `bytes` other than 0 sets the size of the buffer instead.
  explicit ReadBandwidth(tenon::Context<tenon::Cpu>& ctx, std::int64_t bytes = 0) : ctx_(ctx) {
    if (bytes <= 0) bytes = std::max(std::int64_t{1} << 30, 4 * last_level_cache_bytes());
    const std::int64_t free = proc_bytes("/proc/meminfo", "MemAvailable");
    if (free > 0) bytes = std::min(bytes, free / 2);
    blocks_ = std::max<std::int64_t>(bytes / (block * 4), ctx.threads());
    buffer_ = tenon::empty<float>(ctx_, {blocks_ * block});
    tenon::parallel_for(ctx_, blocks_, 1, [&](std::int64_t begin, std::int64_t end) {
      std::fill(buffer_.ptr(begin * block), buffer_.ptr(begin * block) + (end - begin) * block, 1.0f);
    });
  }

  [[nodiscard]] std::int64_t bytes() const { return blocks_ * block * 4; }

  /// Bytes per second of one pass over the whole buffer.
  [[nodiscard]] double measure() { return pass(blocks_); }

  /// The same for about so many bytes (at most the buffer), read once before, as a model reads its weights for every
  /// token: where the last cache is large, it then holds a part of them.
  [[nodiscard]] double measure_again(std::int64_t bytes) {
    const std::int64_t blocks = std::clamp<std::int64_t>(bytes / (block * 4), 1, blocks_);
    static_cast<void>(pass(blocks));
    return pass(blocks);
  }

 private:
  static constexpr std::int64_t block = read_block;

  double pass(std::int64_t blocks) { return read_rate(ctx_, buffer_.data(), blocks); }

  tenon::Context<tenon::Cpu>& ctx_;
  tenon::Tensor<float, 1> buffer_;
  std::int64_t blocks_ = 0;
};

/// Operations per second (a multiply-add counts two) of float32 multiply-adds in registers, on the threads and at the
/// SIMD level of the context, measured for about `seconds`.
inline double multiply_add_rate(tenon::Context<tenon::Cpu>& ctx, double seconds = 0.1) {
  const volatile float factor = 0.5f;  // not known to the compiler
  std::atomic<float> sink{0};
  const auto run = [&](std::int64_t rounds) {
    const auto start = std::chrono::steady_clock::now();
    tenon::parallel_run(ctx, ctx.threads(), [&](int) {
      tenon::detail::visit_simd_level(ctx.simd_level(),
                                      [&](auto level) { sink = detail::multiply_add(level, rounds, factor, 1.0f); });
    });
    return seconds_since(start);
  };
  const std::int64_t lanes = tenon::detail::visit_simd_level(ctx.simd_level(), [](auto level) -> std::int64_t {
    using Level = decltype(level);
    return Level::value == tenon::SimdLevel::avx512 ? 16 : Level::value == tenon::SimdLevel::avx2 ? 8 : 4;
  });
  std::int64_t rounds = 1 << 14;
  double taken = run(rounds);
  while (taken < seconds / 4) {
    rounds *= 2;
    taken = run(rounds);
  }
  rounds = static_cast<std::int64_t>(static_cast<double>(rounds) * seconds / taken) + 1;
  taken = run(rounds);
  const double operations = static_cast<double>(rounds) * 12.0 * 2.0 * static_cast<double>(lanes * ctx.threads());
  return operations / taken;
}

}  // namespace limits
