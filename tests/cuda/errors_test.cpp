// What goes wrong on CUDA: an exception of one sentence, no error code left behind, and a context that works on. The last
// cases are for machines without a device.
#include <tenon/cuda.hpp>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/cuda.hpp"

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::Runtime;
using tenon::Tensor;
using tenon::View;

namespace {

/// What `call` throws, which must be an E; empty where it throws nothing.
template <class E, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return {};
}

bool one_sentence(const std::string& message) {
  return !message.empty() && message.find('\n') == std::string::npos && message.back() != '.' && message.size() < 300;
}

bool usable(Context<Cuda>& ctx) {
  if (cudaPeekAtLastError() != cudaSuccess) return false;
  const auto x = tenon::full<float>(ctx, {3}, 2.0f);
  tenon::add(ctx, x, x, x);
  const auto host = x.cpu(ctx);
  return host(0) == 4.0f && host(2) == 4.0f;
}

}  // namespace

TEST_CASE("E10: more device memory than there is: bytes and device are named, and the context works on",
          "[cuda][errors]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::size_t all = ctx.properties().memory_bytes;
  for (const std::size_t bytes : {all + (std::size_t{1} << 30), 4 * all, std::size_t{1} << 50, std::size_t{1} << 60,
                                  std::size_t{1} << 63, std::numeric_limits<std::size_t>::max() - 1000}) {
    INFO(bytes << " bytes of " << all);
    const std::string message = message_of<tenon::Error>([&] { tenon::allocate_storage(ctx, bytes); });
    INFO(message);
    CHECK(one_sentence(message));
    CHECK_THAT(message, StartsWith("cannot allocate " + std::to_string(bytes) + " bytes of memory on CUDA device 0"));
    CHECK(usable(ctx));
    CHECK(tenon::allocate_storage(ctx, std::size_t{1} << 20).data() != nullptr);
  }
  const auto floats = static_cast<std::int64_t>(all / sizeof(float));
  CHECK_THROWS_AS(tenon::empty<float>(ctx, {floats, 2}), tenon::Error);
  CHECK_THROWS_AS(tenon::zeros<double>(ctx, {2, floats}), tenon::Error);
  CHECK_THROWS_AS((tenon::AnyTensor::empty(ctx, tenon::DType::float32, {8, floats})), tenon::Error);
  CHECK_THROWS_AS(tenon::empty<float>(ctx, {std::numeric_limits<std::int64_t>::max() / 2}), tenon::ShapeError);
  CHECK_THROWS_AS(tenon::empty<float>(ctx, {-1}), tenon::ShapeError);
  CHECK_THROWS_AS(ctx.workspace().scope().allocate<float>(floats * 2), tenon::Error);
  CHECK(usable(ctx));
  // A result that does not fit, for inputs that do: a broadcast view has more elements than memory has bytes.
  const auto one = tenon::ones<float>(ctx, {1, 1}).expand({floats, 8});
  CHECK_THROWS_AS(one.clone(ctx), tenon::Error);
  CHECK(usable(ctx));
}

TEST_CASE("E10: memory of the runtime is short: an exception, and the next request is served", "[cuda][errors]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  for (const std::size_t bytes : {std::size_t{1} << 50, std::size_t{1} << 62}) {
    INFO(bytes << " bytes");
    const std::string device =
        message_of<tenon::Error>([&] { static_cast<void>(Runtime<Cuda>::allocate_device(bytes)); });
    INFO(device);
    CHECK(one_sentence(device));
    CHECK_THAT(device, ContainsSubstring(std::to_string(bytes) + " bytes of device memory"));
    CHECK(cudaPeekAtLastError() == cudaSuccess);
    const std::string pinned =
        message_of<tenon::Error>([&] { static_cast<void>(Runtime<Cuda>::allocate_pinned(bytes)); });
    INFO(pinned);
    CHECK(one_sentence(pinned));
    CHECK_THAT(pinned, ContainsSubstring(std::to_string(bytes) + " bytes of pinned memory"));
    CHECK(usable(ctx));
  }
  CHECK(Runtime<Cuda>::allocate_device(64).data() != nullptr);
  CHECK(Runtime<Cuda>::allocate_pinned(64).data() != nullptr);
}

TEST_CASE("errors: ids out of range throw what the CPU throws, and nothing sticks", "[cuda][errors]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const auto weight = tenon::arange<float>(cpu, 50).view({10, 5});
  const auto weight_there = weight.to(ctx);
  for (const std::int64_t wrong :
       {std::int64_t{10}, std::int64_t{-1}, std::int64_t{1} << 40, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max()}) {
    for (const std::int64_t at : {0, 3, 6}) {
      const auto ids = tenon::zeros<std::int64_t>(cpu, {7});
      ids(at) = wrong;
      const auto out = tenon::full<float>(cpu, {7, 5}, -1.0f);
      const auto out_there = out.to(ctx);
      const std::string expected = message_of<tenon::IndexError>([&] { tenon::embedding(cpu, out, ids, weight); });
      const std::string actual =
          message_of<tenon::IndexError>([&] { tenon::embedding(ctx, out_there, ids.to(ctx), weight_there); });
      CHECK_FALSE(expected.empty());
      CHECK(actual == expected);
      CHECK(usable(ctx));
      ids(at) = 9;
      tenon::embedding(ctx, out_there, ids.to(ctx), weight_there);
      CHECK(out_there.cpu(ctx)(at, 4) == 49.0f);
    }
  }
}

TEST_CASE("errors: operands that do not fit throw before anything is launched", "[cuda][errors]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> cpu(1);
  const auto check = [&](auto call) {
    const std::string expected = message_of<tenon::ShapeError>([&] { call(cpu); });
    const std::string actual = message_of<tenon::ShapeError>([&] { call(ctx); });
    CHECK_FALSE(expected.empty());
    CHECK(actual == expected);
    CHECK(usable(ctx));
  };
  check([](auto& context) {
    const auto x = tenon::zeros<float>(context, {2, 3});
    tenon::add(context, x, x, tenon::zeros<float>(context, {3, 2}));
  });
  check([](auto& context) {
    const auto x = tenon::zeros<float>(context, {1, 3}).expand({2, 3});
    tenon::add(context, x, x, x);
  });
  check([](auto& context) {
    tenon::linear(context, tenon::zeros<float>(context, {2, 4}), tenon::zeros<float>(context, {2, 3}),
                  tenon::zeros<float>(context, {4, 5}));
  });
  check([](auto& context) {
    tenon::rms_norm(context, tenon::zeros<float>(context, {2, 4}), tenon::zeros<float>(context, {2, 4}),
                    tenon::zeros<float>(context, {3}), 1e-6);
  });
}

TEST_CASE("errors: a status of the toolkit becomes one sentence", "[cuda][errors]") {
  // Needs no device: statuses are translated whatever they came from.
  for (const cudaError_t status :
       {cudaErrorInsufficientDriver, cudaErrorNoDevice, cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction,
        cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorIllegalAddress}) {
    const std::string message = message_of<tenon::Error>([&] { tenon::detail::check_cuda(status, "a test"); });
    INFO(message);
    CHECK(one_sentence(message));
    CHECK_THAT(message, StartsWith("cuda: ") && ContainsSubstring("a test"));
  }
  for (const cublasStatus_t status : {CUBLAS_STATUS_NOT_INITIALIZED, CUBLAS_STATUS_ALLOC_FAILED,
                                      CUBLAS_STATUS_ARCH_MISMATCH, CUBLAS_STATUS_NOT_SUPPORTED}) {
    const std::string message = message_of<tenon::Error>([&] { tenon::detail::check_cublas(status, "a test"); });
    INFO(message);
    CHECK(one_sentence(message));
    CHECK_THAT(message, StartsWith("cuda: ") && ContainsSubstring("a test"));
  }
  CHECK_NOTHROW(tenon::detail::check_cuda(cudaSuccess, "a test"));
  CHECK_NOTHROW(tenon::detail::check_cublas(CUBLAS_STATUS_SUCCESS, "a test"));
  CHECK_THROWS_AS(tenon::detail::check_cuda(cudaErrorNoDevice, "a test"), tenon::DeviceError);
}

TEST_CASE("errors: a machine without a device says so", "[cuda][errors][no-device]") {
  if (Runtime<Cuda>::device_count() != 0) SKIP("there is a CUDA device");
  for (const int ordinal : {0, 1, -1}) {
    for (const std::string& message :
         {message_of<tenon::DeviceError>([&] { Context<Cuda> ctx(ordinal); }),
          message_of<tenon::DeviceError>([&] { Runtime<Cuda>::select_device(ordinal); }),
          message_of<tenon::DeviceError>([&] { static_cast<void>(Runtime<Cuda>::properties(ordinal)); })}) {
      INFO(message);
      CHECK(one_sentence(message));
      CHECK_THAT(message, StartsWith("cuda: the NVIDIA driver is missing, or older than this program needs") ||
                              StartsWith("cuda: this machine has no CUDA device"));
    }
  }
  CHECK_THROWS_AS(tenon::Stream<Cuda>(), tenon::DeviceError);
  CHECK_THROWS_AS(tenon::Event<Cuda>(), tenon::DeviceError);
  CHECK_THROWS_AS(Runtime<Cuda>::allocate_device(64), tenon::Error);
  CHECK_THROWS_AS(Runtime<Cuda>::allocate_pinned(64), tenon::Error);
  CHECK(Runtime<Cuda>::allocate_device(0).data() == nullptr);
  CHECK_THROWS_AS(Runtime<Cuda>::free_memory(), tenon::DeviceError);
  CHECK_THROWS_AS(Runtime<Cuda>::synchronize(), tenon::DeviceError);
  CHECK(Runtime<Cuda>::device_count() == 0);
}

TEST_CASE("errors: without a device the CPU works as ever", "[cuda][errors][no-device]") {
  if (Runtime<Cuda>::device_count() != 0) SKIP("there is a CUDA device");
  Context<Cpu> cpu(1);
  const auto x = tenon::full<float>(cpu, {2, 2}, 1.0f);
  tenon::add(cpu, x, x, x);
  CHECK(x(1, 1) == 2.0f);
  CHECK(tenon::AnyTensor(x).cast(cpu, tenon::DType::float64).as<const double, 2>()(0, 0) == 2.0);
  CHECK_THROWS_WITH((tenon::AnyTensor(x).as<float, 2, Cuda>()), "tensor is on cpu, asked for on cuda");
}
