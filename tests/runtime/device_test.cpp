#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>

#include <support/sanitizer_options.hpp>
#include <tenon/runtime/device.hpp>

using tenon::CopyKind;
using tenon::Cpu;
using tenon::Event;
using tenon::Runtime;
using tenon::Stream;

TEST_CASE("runtime: the CPU is one device", "[runtime]") {
  CHECK(Runtime<Cpu>::device_count() == 1);
  CHECK(Runtime<Cpu>::current_device() == 0);
  CHECK_NOTHROW(Runtime<Cpu>::select_device(0));
  CHECK_THROWS_WITH(Runtime<Cpu>::select_device(1), "cpu: there is no device 1, only device 0");
  CHECK_THROWS_AS(Runtime<Cpu>::select_device(-1), tenon::DeviceError);
  CHECK(Runtime<Cpu>::current_device() == 0);
  Runtime<Cpu>::synchronize();
  CHECK(tenon::device_name(tenon::DeviceKind::cpu) == "cpu");
  CHECK(tenon::device_name(tenon::DeviceKind::cuda) == "cuda");
}

TEST_CASE("runtime: memory, and copies in every direction, at once and through a stream", "[runtime]") {
  const auto device = Runtime<Cpu>::allocate_device(1000);
  const auto pinned = Runtime<Cpu>::allocate_pinned(1000);
  REQUIRE(device.bytes() == 1000);
  CHECK(reinterpret_cast<std::uintptr_t>(device.data()) % tenon::storage_alignment == 0);
  CHECK(reinterpret_cast<std::uintptr_t>(pinned.data()) % tenon::storage_alignment == 0);
  CHECK_FALSE(device.read_only());
  Stream<Cpu> stream;
  static_assert(!std::is_copy_constructible_v<Stream<Cpu>> && std::is_move_constructible_v<Stream<Cpu>>);
  for (const CopyKind kind :
       {CopyKind::host_to_host, CopyKind::host_to_device, CopyKind::device_to_host, CopyKind::device_to_device}) {
    for (const bool async : {false, true}) {
      std::memset(pinned.data(), 17 + static_cast<int>(kind), 1000);
      std::memset(device.data(), 0, 1000);
      if (async) {
        Runtime<Cpu>::copy_async(device.data(), pinned.data(), 999, kind, stream);
        stream.synchronize();
        CHECK(stream.idle());
      } else {
        Runtime<Cpu>::copy(device.data(), pinned.data(), 999, kind);
      }
      CHECK(std::memcmp(device.data(), pinned.data(), 999) == 0);
      CHECK(device.data()[999] == std::byte{0});
    }
  }
  CHECK_NOTHROW(Runtime<Cpu>::copy(nullptr, nullptr, 0, CopyKind::host_to_host));
}

TEST_CASE("runtime: blocks live as long as their last copy", "[runtime]") {
  auto block = Runtime<Cpu>::allocate_device(1 << 22);
  auto copy = block;
  block = {};
  CHECK(block.data() == nullptr);
  std::memset(copy.data(), 1, copy.bytes());
  CHECK(copy.data()[copy.bytes() - 1] == std::byte{1});
  CHECK(Runtime<Cpu>::allocate_pinned(0).bytes() == 0);
}

TEST_CASE("runtime: events on the CPU are reached when they are recorded, in order", "[runtime]") {
  Stream<Cpu> stream;
  Event<Cpu> start;
  start.record(stream);
  const auto block = Runtime<Cpu>::allocate_device(1 << 20);
  std::memset(block.data(), 3, block.bytes());
  Event<Cpu> end;
  end.record(stream);
  end.synchronize();
  CHECK(start.reached());
  CHECK(end.reached());
  CHECK(end.milliseconds_since(start) >= 0.0);
  CHECK(start.milliseconds_since(end) <= 0.0);
  CHECK(end.milliseconds_since(start) == -start.milliseconds_since(end));
  CHECK(start.milliseconds_since(start) == 0.0);
  start.record(stream);
  CHECK(start.milliseconds_since(end) >= 0.0);
}

TEST_CASE("E10: a request for more memory than there is throws, and the next one is served", "[runtime]") {
  CHECK_THROWS_AS(Runtime<Cpu>::allocate_device(std::size_t{1} << 60), tenon::Error);
  CHECK_THROWS_AS(Runtime<Cpu>::allocate_pinned(std::numeric_limits<std::size_t>::max() - 1), tenon::Error);
  CHECK(Runtime<Cpu>::allocate_device(64).data() != nullptr);
}
