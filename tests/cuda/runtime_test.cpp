// Devices, streams, events, memory and copies on CUDA; contexts beside each other; tensors that move.
#include <tenon/cuda.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "support/cuda.hpp"

using Catch::Matchers::ContainsSubstring;
using tenon::AnyTensor;
using tenon::Context;
using tenon::CopyKind;
using tenon::Cpu;
using tenon::Cuda;
using tenon::DType;
using tenon::Event;
using tenon::Runtime;
using tenon::Stream;
using tenon::Tensor;
using tenon::View;

namespace {

/// The elements of a tensor of any strides in row-major order.
template <class T, std::size_t Rank>
std::vector<T> elements(Context<Cuda>& ctx, const Tensor<T, Rank, Cuda>& x) {
  const auto host = x.cpu(ctx);
  return {host.data(), host.data() + host.numel()};
}

std::vector<float> counting(std::size_t count, float first = 0.0f) {
  std::vector<float> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

/// Whether the runtime's last error is clear, and the context can still compute.
bool usable(Context<Cuda>& ctx) {
  if (cudaPeekAtLastError() != cudaSuccess) return false;
  const auto x = tenon::full<float>(ctx, {3}, 2.0f);
  tenon::add(ctx, x, x, x);
  return elements(ctx, x) == std::vector<float>(3, 4.0f);
}

}  // namespace

TEST_CASE("runtime: every device has properties that make sense", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  const int count = Runtime<Cuda>::device_count();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const tenon::DeviceProperties properties = Runtime<Cuda>::properties(ordinal);
    INFO("device " << ordinal << ": " << properties.name << ", compute capability " << properties.compute_capability
                   << ", " << properties.multiprocessors << " multiprocessors, " << properties.memory_bytes
                   << " bytes, L2 " << properties.l2_bytes << ", shared memory " << properties.shared_bytes_per_block);
    CHECK(properties.ordinal == ordinal);
    CHECK_FALSE(properties.name.empty());
    CHECK(properties.compute_capability >= 50);
    CHECK(properties.compute_capability < 300);
    CHECK(properties.multiprocessors > 0);
    CHECK(properties.memory_bytes > std::size_t{1} << 28);
    CHECK(properties.l2_bytes > 0);
    CHECK(properties.shared_bytes_per_block >= 48u * 1024u);
  }
}

TEST_CASE("runtime: selecting devices, and the ones that are not there", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  const int count = Runtime<Cuda>::device_count();
  for (int ordinal = count - 1; ordinal >= 0; --ordinal) {
    Runtime<Cuda>::select_device(ordinal);
    CHECK(Runtime<Cuda>::current_device() == ordinal);
    CHECK(Runtime<Cuda>::free_memory() > 0);
    Runtime<Cuda>::synchronize();
  }
  const std::string only = count == 1 ? "only device 0" : "only devices 0 to " + std::to_string(count - 1);
  for (const int absent : {count, 1000, -1}) {
    const std::string message = "cuda: there is no device " + std::to_string(absent) + ", " + only;
    CHECK_THROWS_AS(Runtime<Cuda>::select_device(absent), tenon::DeviceError);
    CHECK_THROWS_WITH(Runtime<Cuda>::select_device(absent), message);
    CHECK_THROWS_WITH(Runtime<Cuda>::properties(absent), message);
    CHECK_THROWS_WITH(Context<Cuda>(absent), message);
    CHECK(Runtime<Cuda>::current_device() == 0);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
}

TEST_CASE("runtime: memory, and copies in every direction, at once and through a stream", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  constexpr std::size_t bytes = 1'000'001;
  const auto pinned = Runtime<Cuda>::allocate_pinned(bytes);
  const auto back = Runtime<Cuda>::allocate_pinned(bytes);
  const auto device = Runtime<Cuda>::allocate_device(bytes);
  const auto other = Runtime<Cuda>::allocate_device(bytes);
  REQUIRE(device.bytes() == bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(device.data()) % 256 == 0);
  CHECK_FALSE(device.read_only());
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned.data()) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  REQUIRE(cudaPointerGetAttributes(&attributes, device.data()) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeDevice);

  std::vector<std::byte> pageable(bytes);
  std::vector<std::byte> result(bytes);
  for (const bool async : {false, true}) {
    for (const bool use_pinned : {false, true}) {
      INFO((async ? "through a stream, " : "at once, ") << (use_pinned ? "pinned" : "pageable"));
      Stream<Cuda> stream;
      std::byte* const from = use_pinned ? pinned.data() : pageable.data();
      std::byte* const to = use_pinned ? back.data() : result.data();
      for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 7 + (async ? 1 : 0) + i / 256);
      std::memset(to, 0, bytes);
      const auto copy = [&](void* target, const void* source, CopyKind kind) {
        if (async) {
          Runtime<Cuda>::copy_async(target, source, bytes, kind, stream);
        } else {
          Runtime<Cuda>::copy(target, source, bytes, kind);
        }
      };
      copy(device.data(), from, CopyKind::host_to_device);
      copy(other.data(), device.data(), CopyKind::device_to_device);
      copy(to, other.data(), CopyKind::device_to_host);
      stream.synchronize();
      CHECK(stream.idle());
      CHECK(std::memcmp(from, to, bytes) == 0);
      std::memset(to, 0, bytes);
      copy(to, from, CopyKind::host_to_host);
      stream.synchronize();
      CHECK(std::memcmp(from, to, bytes) == 0);
    }
  }
  CHECK_NOTHROW(Runtime<Cuda>::copy(nullptr, nullptr, 0, CopyKind::device_to_device));
  CHECK(Runtime<Cuda>::allocate_device(0).data() == nullptr);
  CHECK(Runtime<Cuda>::allocate_pinned(0).data() == nullptr);
}

TEST_CASE("runtime: blocks live as long as their last copy", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  auto block = Runtime<Cuda>::allocate_device(std::size_t{1} << 20);
  auto copy = block;
  block = {};
  std::vector<std::byte> host(copy.bytes(), std::byte{42});
  std::vector<std::byte> back(copy.bytes());
  Runtime<Cuda>::copy(copy.data(), host.data(), host.size(), CopyKind::host_to_device);
  Runtime<Cuda>::copy(back.data(), copy.data(), back.size(), CopyKind::device_to_host);
  CHECK(back == host);
}

TEST_CASE("runtime: events are reached in order and measure time", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  constexpr std::size_t bytes = std::size_t{64} << 20;
  const auto from = Runtime<Cuda>::allocate_device(bytes);
  const auto to = Runtime<Cuda>::allocate_device(bytes);
  Stream<Cuda> stream;
  Event<Cuda> start;
  Event<Cuda> middle;
  Event<Cuda> end;
  start.record(stream);
  for (int i = 0; i < 4; ++i) {
    Runtime<Cuda>::copy_async(to.data(), from.data(), bytes, CopyKind::device_to_device, stream);
  }
  middle.record(stream);
  Runtime<Cuda>::copy_async(to.data(), from.data(), bytes, CopyKind::device_to_device, stream);
  end.record(stream);
  end.synchronize();
  CHECK(start.reached());
  CHECK(middle.reached());
  CHECK(end.reached());
  CHECK(stream.idle());
  CHECK(middle.milliseconds_since(start) > 0.0);
  CHECK(end.milliseconds_since(middle) > 0.0);
  CHECK(end.milliseconds_since(start) < 60'000.0);
  CHECK(start.milliseconds_since(end) < 0.0);

  // Both move, and an event may be recorded again.
  static_assert(!std::is_copy_constructible_v<Stream<Cuda>> && std::is_nothrow_move_constructible_v<Stream<Cuda>>);
  static_assert(!std::is_copy_constructible_v<Event<Cuda>> && std::is_nothrow_move_constructible_v<Event<Cuda>>);
  Stream<Cuda> moved(std::move(stream));
  Event<Cuda> again(std::move(start));
  again.record(moved);
  moved.synchronize();
  CHECK(again.reached());
  CHECK(again.milliseconds_since(end) >= 0.0);
  stream = std::move(moved);
  stream.synchronize();
}

TEST_CASE("runtime: an event that was never recorded cannot be measured, and nothing sticks", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Stream<Cuda> stream;
  Event<Cuda> recorded;
  recorded.record(stream);
  recorded.synchronize();
  const Event<Cuda> never;
  CHECK_THROWS_AS(recorded.milliseconds_since(never), tenon::DeviceError);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  Context<Cuda> ctx;
  CHECK(usable(ctx));
}

TEST_CASE("context: the pool serves the same memory again", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::set<const void*> addresses;
  for (int i = 0; i < 100; ++i) {
    const auto x = tenon::empty<float>(ctx, {1000, 1000});
    CHECK(reinterpret_cast<std::uintptr_t>(x.data()) % 256 == 0);
    tenon::fill(ctx, View<float, 2, Cuda>(x), static_cast<float>(i));
    addresses.insert(x.data());
  }
  CHECK(addresses.size() <= 2);
  ctx.synchronize();
  // Memory that is given back while work on it is under way serves what comes later in the stream.
  auto first = tenon::full<float>(ctx, {1 << 20}, 1.0f);
  const auto sum = tenon::empty<float>(ctx, {1 << 20});
  tenon::add(ctx, sum, first, first);
  first = {};
  const auto second = tenon::full<float>(ctx, {1 << 20}, 5.0f);
  CHECK(elements(ctx, sum) == std::vector<float>(1 << 20, 2.0f));
  CHECK(elements(ctx, second) == std::vector<float>(1 << 20, 5.0f));
}

TEST_CASE("context: tensors outlive their context", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Tensor<float, 1, Cuda> kept;
  AnyTensor any;
  {
    Context<Cuda> ctx;
    kept = tenon::arange<float>(ctx, 1000);
    any = AnyTensor(tenon::full<tenon::bfloat16>(ctx, {7}, 1.5));
  }
  Context<Cuda> other;
  CHECK(elements(other, kept) == counting(1000));
  CHECK(any.cpu(other).as<const tenon::bfloat16, 1>()(6) == tenon::bfloat16(1.5f));
  kept = {};
  any = {};
  CHECK(usable(other));
}

TEST_CASE("context: two contexts on one device, and what one makes is read in the other", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> a;
  Context<Cuda> b;
  CHECK(a.stream() != b.stream());
  CHECK(a.ordinal() == b.ordinal());
  for (int round = 0; round < 20; ++round) {
    const auto x = tenon::full<float>(a, {100'000}, static_cast<float>(round));
    const auto y = tenon::full<float>(b, {100'000}, 1.0f);
    a.synchronize();
    const auto sum = tenon::empty<float>(b, {100'000});
    tenon::add(b, sum, x, y);
    CHECK(elements(b, sum) == std::vector<float>(100'000, static_cast<float>(round + 1)));
  }
}

TEST_CASE("context: several threads, each with a context of its own", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  constexpr int threads = 4;
  std::vector<int> good(threads, 0);
  std::vector<std::string> messages(threads);
  std::vector<std::thread> pool;
  const int count = Runtime<Cuda>::device_count();
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&, t] {
      try {
        Context<Cuda> ctx(t % count);
        for (int round = 0; round < 25; ++round) {
          const std::int64_t size = 1000 + 777 * t + 31 * round;
          const auto x = tenon::full<float>(ctx, {size}, static_cast<float>(t));
          const auto sum = tenon::empty<float>(ctx, {size});
          tenon::add(ctx, sum, x, x);
          if (elements(ctx, sum) == std::vector<float>(static_cast<std::size_t>(size), static_cast<float>(2 * t))) {
            ++good[static_cast<std::size_t>(t)];
          }
        }
      } catch (const std::exception& error) {
        messages[static_cast<std::size_t>(t)] = error.what();
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  for (int t = 0; t < threads; ++t) {
    INFO("thread " << t << " " << messages[static_cast<std::size_t>(t)]);
    CHECK(good[static_cast<std::size_t>(t)] == 25);
  }
}

TEST_CASE("to: a tensor of another GPU is copied, whatever its strides; one that is there is shared",
          "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  const int count = Runtime<Cuda>::device_count();
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      INFO("from device " << from << " to device " << to);
      Context<Cuda> source(from);
      Context<Cuda> target(to);
      const auto x = tenon::arange<float>(source, 64).view({8, 8}).transpose(0, 1).slice(0, 2, 8);
      const auto moved = x.to(target);
      CHECK((moved.data() == x.data()) == (from == to));
      CHECK(moved.sizes() == tenon::Sizes<2>{6, 8});
      const AnyTensor any = AnyTensor(x).to(target);
      CHECK(any.sizes() == std::vector<std::int64_t>{6, 8});
      const auto sum = tenon::empty<float>(target, {6, 8});
      tenon::add(target, sum, moved, any.as<const float, 2, Cuda>());
      CHECK(sum.cpu(target)(3, 7) == 2.0f * (8 * 7 + 2 + 3));
      CHECK(tenon::empty<float>(source, {0, 3}).to(target).numel() == 0);
      if (from != to) CHECK_THROWS_AS(tenon::add(target, sum, moved, x), tenon::DeviceError);
    }
  }
}

TEST_CASE("context: the current device is left as it was", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  const int count = Runtime<Cuda>::device_count();
  for (int current = 0; current < count; ++current) {
    Runtime<Cuda>::select_device(current);
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      INFO("current device " << current << ", context on device " << ordinal);
      Context<Cuda> ctx(ordinal);
      CHECK(Runtime<Cuda>::current_device() == current);
      CHECK(ctx.ordinal() == ordinal);
      CHECK(ctx.properties().ordinal == ordinal);
      const auto x = tenon::arange<float>(ctx, 64).view({8, 8});
      const auto sum = tenon::empty<float>(ctx, {8, 8});
      tenon::add(ctx, sum, x, x.transpose(0, 1));
      CHECK(Runtime<Cuda>::current_device() == current);
      CHECK(sum.transpose(0, 1).cpu(ctx)(2, 5) == static_cast<float>(2 * 8 + 5 + 5 * 8 + 2));
      CHECK(AnyTensor(sum).cast(ctx, DType::float64).cpu(ctx).as<const double, 2>()(7, 7) == 126.0);
      CHECK(Runtime<Cuda>::current_device() == current);
      cudaPointerAttributes attributes{};
      REQUIRE(cudaPointerGetAttributes(&attributes, sum.data()) == cudaSuccess);
      CHECK(attributes.device == ordinal);
      {
        const auto active = ctx.activate();
        CHECK(Runtime<Cuda>::current_device() == ordinal);
      }
      CHECK(Runtime<Cuda>::current_device() == current);
    }
    CHECK(Runtime<Cuda>::current_device() == current);
  }
  Runtime<Cuda>::select_device(0);
}

TEST_CASE("context: scratch memory is aligned, nested and used again", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  auto& workspace = ctx.workspace();
  CHECK(workspace.capacity() == 0);
  void* first = nullptr;
  for (int round = 0; round < 3; ++round) {
    INFO("round " << round);
    auto outer = workspace.scope();
    auto* a = outer.allocate<float>(std::size_t{100'003});
    CHECK(reinterpret_cast<std::uintptr_t>(a) % 256 == 0);
    if (round > 0) CHECK((static_cast<void*>(a) == first || round == 1));
    first = a;
    const View<float, 1, Cuda> view_a(a, tenon::Sizes<1>{100'003});
    tenon::fill(ctx, view_a, 1.0f);
    for (int inner_round = 0; inner_round < 2; ++inner_round) {
      auto inner = workspace.scope();
      auto* b = inner.allocate<float>(std::size_t{500'001});
      CHECK(reinterpret_cast<std::uintptr_t>(b) % 256 == 0);
      tenon::fill(ctx, View<float, 1, Cuda>(b, tenon::Sizes<1>{500'001}), 2.0f);
    }
    std::vector<float> host(100'003);
    tenon::copy(ctx, View<float, 1>(host.data(), tenon::Sizes<1>{100'003}), View<const float, 1, Cuda>(view_a));
    CHECK(host == std::vector<float>(100'003, 1.0f));
  }
  const std::size_t capacity = workspace.capacity();
  CHECK(capacity >= 600'000 * sizeof(float));
  {
    auto scope = workspace.scope();
    static_cast<void>(scope.allocate<float>(std::size_t{600'000}));
  }
  CHECK(workspace.capacity() == capacity);
  CHECK_THROWS_AS(workspace.scope().allocate<char>(std::size_t{1} << 60), tenon::Error);
  CHECK(usable(ctx));
}

TEMPLATE_TEST_CASE("tensors: made, filled, copied and read back", "[cuda][runtime]", float, double, tenon::float16,
                   tenon::bfloat16, std::int8_t, std::int16_t, std::int32_t, std::int64_t) {
  TENON_NEEDS_CUDA();
  using T = TestType;
  Context<Cuda> ctx;
  const auto value = [](std::int64_t i) { return tenon::detail::convert<T>(i); };
  const auto x = tenon::arange<T>(ctx, 60).view({3, 4, 5});
  const auto host = x.cpu(ctx);
  for (std::int64_t i = 0; i < 60; ++i) CHECK(host.data()[i] == value(i));

  const auto turned = x.permute({2, 0, 1}).slice(0, 1, 5, 2).cpu(ctx);
  REQUIRE(turned.sizes() == tenon::Sizes<3>{2, 3, 4});
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) CHECK(turned(i, j, k) == value(20 * j + 5 * k + 1 + 2 * i));
    }
  }

  // From the CPU with strides, to part of a tensor, on the device, and another dtype on the way.
  Context<Cpu> cpu(1);
  const auto source = tenon::arange<T>(cpu, 40).view({5, 8});
  const auto part = tenon::full<T>(ctx, {8, 9}, tenon::detail::convert<T>(1));
  tenon::copy(ctx, static_cast<View<T, 2, Cuda>>(part.slice(1, 2, 7)),
              static_cast<View<const T, 2>>(source.transpose(0, 1)));
  const auto wide = part.template cast<double>(ctx).cpu(ctx);
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t j = 0; j < 9; ++j) {
      const bool inside = j >= 2 && j < 7;
      CHECK(wide(i, j) == (inside ? static_cast<double>(8 * (j - 2) + i) : 1.0));
    }
  }
  const auto clone = part.clone(ctx);
  CHECK(clone.data() != part.data());
  CHECK(elements(ctx, clone) == elements(ctx, part));
  CHECK(part.contiguous(ctx).data() == part.data());
  CHECK(part.to(ctx).data() == part.data());
  CHECK(elements(ctx, source.to(ctx)) == std::vector<T>(source.data(), source.data() + 40));
  CHECK(elements(ctx, tenon::zeros<T>(ctx, {2, 2})) == std::vector<T>(4, value(0)));
  CHECK(elements(ctx, tenon::ones<T>(ctx, {3})) == std::vector<T>(3, value(1)));
  CHECK(elements(ctx, tenon::zeros<T>(ctx, {0, 3})).empty());
  CHECK(tenon::arange<T>(ctx, 0).cpu(ctx).numel() == 0);
  const auto scalar = tenon::full<T>(ctx, tenon::Sizes<0>{}, tenon::detail::convert<T>(3));
  CHECK(*scalar.cpu(ctx).data() == value(3));
}

TEST_CASE("tensors: load and copy say what does not fit", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const auto x = tenon::zeros<float>(ctx, {2, 3});
  const auto values = counting(5);
  CHECK_THROWS_WITH(x.load(ctx, values), "load: 5 elements do not fill shape (2, 3)");
  const auto y = tenon::zeros<float>(cpu, {3, 2});
  CHECK_THROWS_WITH(tenon::copy(ctx, View<float, 2, Cuda>(x), View<const float, 2>(y)),
                    "copy: dst has shape (2, 3), but src has shape (3, 2)");
  CHECK_THROWS_WITH(tenon::copy(ctx, View<float, 2>(y), View<const float, 2, Cuda>(x)),
                    "copy: dst has shape (3, 2), but src has shape (2, 3)");
  CHECK_THROWS_WITH(tenon::copy(ctx, View<float, 2, Cuda>(x), View<const float, 2, Cuda>(x.transpose(0, 1))),
                    "copy: dst has shape (2, 3), but src has shape (3, 2)");
  CHECK(usable(ctx));
}

TEST_CASE("tensors: what was copied from may be changed at once, pinned or not", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t count = 1 << 22;
  const auto pinned = Runtime<Cuda>::allocate_pinned(count * sizeof(float));
  std::vector<float> pageable(count);
  for (const bool use_pinned : {true, false}) {
    INFO((use_pinned ? "pinned" : "pageable"));
    float* const host = use_pinned ? reinterpret_cast<float*>(pinned.data()) : pageable.data();
    const auto x = tenon::empty<float>(ctx, {count});
    for (int round = 0; round < 5; ++round) {
      std::fill_n(host, count, static_cast<float>(round));
      tenon::copy(ctx, View<float, 1, Cuda>(x), View<const float, 1>(host, tenon::Sizes<1>{count}));
      std::fill_n(host, count, -1.0f);
      const auto back = x.cpu(ctx);
      CHECK(back(0) == static_cast<float>(round));
      CHECK(back(count - 1) == static_cast<float>(round));
      CHECK(back(count / 2) == static_cast<float>(round));
    }
  }
}

TEST_CASE("AnyTensor: there, back, converted, loaded and viewed", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const AnyTensor host(tenon::arange<float>(cpu, 24).view({2, 3, 4}));
  const AnyTensor x = host.to(ctx);
  CHECK(x.device() == tenon::DeviceKind::cuda);
  CHECK(host.device() == tenon::DeviceKind::cpu);
  CHECK(x.to(ctx).data() == x.data());
  CHECK(x.sizes() == host.sizes());
  CHECK(x.as<float, 3, Cuda>().cpu(ctx)(1, 2, 3) == 23.0f);

  const AnyTensor turned = x.permute({2, 1, 0}).slice(1, 1, 3).select(2, 1);  // [k][j] = 12 + 4 j + k
  CHECK(turned.sizes() == std::vector<std::int64_t>{4, 2});
  CHECK_FALSE(turned.is_contiguous());
  const auto packed = turned.contiguous(ctx);
  CHECK(packed.is_contiguous());
  CHECK(packed.device() == tenon::DeviceKind::cuda);
  for (const AnyTensor& back : {turned.cpu(ctx), packed.cpu(ctx)}) {
    CHECK(back.device() == tenon::DeviceKind::cpu);
    const auto typed = back.as<const float, 2>();
    for (std::int64_t k = 0; k < 4; ++k) {
      for (std::int64_t j = 0; j < 2; ++j) CHECK(typed(k, j) == static_cast<float>(12 + 4 * (j + 1) + k));
    }
  }
  CHECK(x.view({6, 4}).as<const float, 2, Cuda>().cpu(ctx)(5, 3) == 23.0f);

  for (const DType dtype :
       {DType::float64, DType::float16, DType::bfloat16, DType::int32, DType::int64, DType::uint8}) {
    INFO(tenon::dtype_name(dtype));
    const AnyTensor converted = turned.cast(ctx, dtype);
    CHECK(converted.dtype() == dtype);
    CHECK(converted.device() == tenon::DeviceKind::cuda);
    const AnyTensor again = converted.cpu(ctx).cast(cpu, DType::float32);
    CHECK(again.as<const float, 2>()(3, 1) == 12.0f + 8.0f + 3.0f);
  }
  CHECK(x.cast(ctx, DType::float32).data() == x.data());

  const AnyTensor empty = AnyTensor::empty(ctx, DType::float32, {4, 2});
  const auto values = counting(8, 100.0f);
  empty.load(ctx, std::as_bytes(std::span(values)));
  CHECK(elements(ctx, empty.as<float, 2, Cuda>()) == values);
  CHECK_THROWS_WITH(empty.load(ctx, std::as_bytes(std::span(values).first(7))),
                    "load: 28 bytes do not fill shape (4, 2) of dtype float32");
  CHECK_THROWS_WITH(turned.load(ctx, std::as_bytes(std::span(values))), "load: the tensor is not contiguous");
  CHECK(AnyTensor::empty(ctx, DType::int8, {0, 5}).cpu(ctx).numel() == 0);
  CHECK(AnyTensor::empty(ctx, DType::int8, {0, 5}).cast(ctx, DType::float32).numel() == 0);

  // Nine dimensions can be moved as they are, but not put in another order.
  const AnyTensor deep = AnyTensor::empty(ctx, DType::float32, std::vector<std::int64_t>(9, 2));
  CHECK(deep.cpu(ctx).rank() == 9);
  CHECK_THROWS_WITH(deep.permute({8, 1, 2, 3, 4, 5, 6, 7, 0}).cpu(ctx), ContainsSubstring("at most 8 dimensions"));
  CHECK(usable(ctx));
}

TEST_CASE("AnyTensor: the wrong device is named", "[cuda][runtime]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const AnyTensor there = AnyTensor(tenon::ones<float>(ctx, {2}));
  const AnyTensor here = AnyTensor(tenon::ones<float>(cpu, {2}));
  const std::string on_cuda = "tensor is on cuda, asked for on cpu";
  const std::string on_cpu = "tensor is on cpu, asked for on cuda";
  CHECK_THROWS_AS((there.as<float, 1>()), tenon::DeviceError);
  CHECK_THROWS_WITH((there.as<float, 1>()), on_cuda);
  CHECK_THROWS_WITH((here.as<float, 1, Cuda>()), on_cpu);
  CHECK_THROWS_WITH(there.cast(cpu, DType::float64), on_cuda);
  CHECK_THROWS_WITH(here.cast(ctx, DType::float64), on_cpu);
  CHECK_THROWS_WITH(here.contiguous(ctx), on_cpu);
  CHECK_THROWS_WITH(there.to(cpu), on_cuda);
  CHECK_THROWS_WITH(there.cpu(cpu), on_cuda);
  CHECK_THROWS_WITH(there.visit([](const auto& x) { return x.numel(); }), on_cuda);
  const auto values = counting(2);
  CHECK_THROWS_WITH(there.load(cpu, std::as_bytes(std::span(values))), on_cuda);
  CHECK_THROWS_WITH(here.load(ctx, std::as_bytes(std::span(values))), on_cpu);
  CHECK(here.cpu(ctx).data() == here.data());
  CHECK(usable(ctx));
}
