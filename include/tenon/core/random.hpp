// The random numbers of the samplers, on the CPU and in kernels.
#pragma once

#include <cstdint>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

/// Counter-based random numbers: draw number n is a fixed function of (seed, n), the same on every platform.
///
/// The function is the 64-bit finaliser of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number
/// generators", 2014) over a Weyl sequence that starts at the hashed seed. Standard library distributions are avoided:
/// their results differ between libraries. Two integers of state; not shared between threads.
class CounterRandom {
 public:
  TENON_HD explicit constexpr CounterRandom(std::uint64_t seed, std::uint64_t counter = 0) noexcept
      : key_(mix(seed ^ 0x6A09E667F3BCC909u)), counter_(counter) {}

  TENON_HD constexpr std::uint64_t next() noexcept { return mix(key_ + 0x9E3779B97F4A7C15u * ++counter_); }

  /// A multiple of 2^-53 in [0, 1).
  TENON_HD constexpr double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1p-53; }

  /// Draws made so far. Passing it to the constructor continues the sequence from there.
  TENON_HD constexpr std::uint64_t counter() const noexcept { return counter_; }

 private:
  TENON_HD static constexpr std::uint64_t mix(std::uint64_t z) noexcept {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }

  std::uint64_t key_;
  std::uint64_t counter_;
};

TENON_NAMESPACE_END
