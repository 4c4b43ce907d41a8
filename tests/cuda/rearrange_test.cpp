// rearrange on CUDA.
#include <tenon/ops/rearrange.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using support::upload;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::Sizes;
using tenon::View;

TEMPLATE_TEST_CASE("rearrange on CUDA copies between any two layouts", "[cuda][rearrange]", float, double,
                   tenon::float16, tenon::bfloat16, tenon::float8_e4m3, std::int8_t, std::int16_t, std::int32_t,
                   std::int64_t, std::uint8_t, bool) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<3> sizes :
       {Sizes<3>{1, 1, 1}, {0, 2, 3}, {2, 0, 3}, {3, 4, 0}, {2, 3, 5}, {1, 70, 67}, {3, 66, 1}, {2, 9, 33}}) {
    for (const Form from : support::all_forms) {
      Operand<TestType, 3> in(sizes, from);
      in.fill([&] { return static_cast<double>(random() % 100); });
      const OnDevice in_device(ctx, in);
      for (const Form to : support::writable_forms) {
        Operand<TestType, 3> out(sizes, to);
        const OnDevice out_device(ctx, out);
        tenon::rearrange(ctx, out_device.view(), in_device.view());
        out_device.read_back(out);
        INFO(support::form_name(from) << " to " << support::form_name(to) << ", " << tenon::shape_string(sizes));
        CHECK(support::mismatch(out.view(), tenon::reference::elements(in.view()), support::Tolerance{}) == "");
        CHECK(out.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("rearrange on CUDA makes every permutation of five dimensions contiguous", "[cuda][rearrange]",
                   float, tenon::bfloat16, std::int8_t, std::int64_t) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  // Aligned tensors, whose rows are whole packs in some orders and not in others.
  Operand<TestType, 5> in({2, 17, 3, 16, 5});
  std::mt19937 random(2);
  in.fill([&] { return static_cast<double>(random() % 100); });
  const auto device = upload(ctx, in);
  Sizes<5> order{0, 1, 2, 3, 4};
  do {
    const auto turned = device.permute(order);
    const auto expected = tenon::reference::elements(in.view().permute(order));
    INFO("order " << tenon::shape_string(order));
    const auto out = tenon::empty<TestType>(ctx, turned.sizes());
    tenon::rearrange(ctx, out, turned);
    REQUIRE(tenon::reference::elements(View<TestType, 5>(out.cpu(ctx))) == expected);
    const auto back = tenon::empty<TestType>(ctx, in.view().sizes());
    tenon::rearrange(ctx, back.permute(order), turned);
    REQUIRE(tenon::reference::elements(View<TestType, 5>(back.cpu(ctx))) == tenon::reference::elements(in.view()));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEMPLATE_TEST_CASE("rearrange on CUDA moves as much at once as the addresses allow", "[cuda][rearrange]", std::int8_t,
                   tenon::bfloat16, float, double) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  Operand<TestType, 2> host({9, 96});
  host.fill([&] { return static_cast<double>(random() % 100); });
  const auto device = upload(ctx, host);
  for (const std::int64_t begin : {0, 1, 2, 4, 8, 16}) {
    for (const std::int64_t length : {1, 2, 6, 12, 24, 32, 40, 80}) {
      INFO("columns " << begin << " to " << begin + length);
      const auto part = device.slice(1, begin, begin + length);
      const auto expected = tenon::reference::elements(host.view().slice(1, begin, begin + length));
      const auto packed = tenon::empty<TestType>(ctx, {9, length});
      tenon::rearrange(ctx, packed, part);
      CHECK(tenon::reference::elements(View<TestType, 2>(packed.cpu(ctx))) == expected);
      const auto wide = tenon::zeros<TestType>(ctx, {9, 96});
      tenon::rearrange(ctx, wide.slice(1, begin, begin + length), part);
      const auto result = wide.cpu(ctx);
      CHECK(tenon::reference::elements(View<TestType, 2>(result.slice(1, begin, begin + length))) == expected);
      double sum = 0.0;
      for (const double x : tenon::reference::elements(View<TestType, 2>(result))) sum += x;
      for (const double x : expected) sum -= x;
      CHECK(sum == 0.0);  // nothing was written beside them
    }
  }
}

TEST_CASE("rearrange on CUDA keeps bits, NaN payloads too", "[cuda][rearrange]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Operand<tenon::float16, 2> in({256, 256});
  for (std::int64_t i = 0; i < 65536; ++i)
    in.view().data()[i] = tenon::float16::from_bits(static_cast<std::uint16_t>(i));
  const auto device = upload(ctx, in);
  const auto turned = tenon::empty<tenon::float16>(ctx, {256, 256});
  tenon::rearrange(ctx, turned, device.transpose(0, 1));
  const auto packed = tenon::empty<tenon::float16>(ctx, {256, 256});
  tenon::rearrange(ctx, packed, device);
  const auto turned_host = turned.cpu(ctx);
  const auto packed_host = packed.cpu(ctx);
  for (std::int64_t i = 0; i < 256; ++i) {
    for (std::int64_t j = 0; j < 256; ++j) {
      REQUIRE(turned_host(i, j).bits() == in.view()(j, i).bits());
      REQUIRE(packed_host(i, j).bits() == in.view()(i, j).bits());
    }
  }
}

TEST_CASE("rearrange on CUDA of large tensors in every order", "[cuda][rearrange]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  Operand<float, 3> in({3, 257, 301});
  in.fill(random);
  const auto device = upload(ctx, in);
  for (const Sizes<3> order : {Sizes<3>{0, 2, 1}, {2, 1, 0}, {2, 0, 1}, {1, 0, 2}}) {
    const auto turned = device.permute(order);
    Operand<float, 3> out(turned.sizes(), Form::padded);
    const OnDevice out_device(ctx, out);
    tenon::rearrange(ctx, out_device.view(), turned);
    out_device.read_back(out);
    INFO("order " << tenon::shape_string(order));
    CHECK(tenon::reference::elements(out.view()) == tenon::reference::elements(in.view().permute(order)));
    CHECK(out.intact());
  }
}

TEST_CASE("G10: rearrange on CUDA reaches elements more than 2^31 apart", "[cuda][rearrange]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{12} << 30)) SKIP("this needs 12 GiB of device memory");
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
  auto* data = reinterpret_cast<tenon::bfloat16*>(memory.data());
  for (const std::int64_t n : {64, 63}) {
    Operand<tenon::bfloat16, 2> host({2, n});
    std::mt19937 random(5);
    host.fill(random);
    const auto near = upload(ctx, host);
    const View<tenon::bfloat16, 2, Cuda> far(data, tenon::Layout<2>({2, n}, {gap, 1}));
    tenon::rearrange(ctx, far, near);
    const auto back = tenon::empty<tenon::bfloat16>(ctx, {2, n});
    tenon::rearrange(ctx, back, far);
    INFO("n = " << n);
    CHECK(support::bits(View<tenon::bfloat16, 2>(back.cpu(ctx))) == support::bits(host.view()));
  }
  // A transposition of a matrix of more than 2^31 elements, of which the far corner is looked at.
  const std::int64_t rows = 40000;
  const std::int64_t columns = 55000;
  const auto matrix = tenon::zeros<std::int8_t>(ctx, {rows, columns});
  const auto turned = tenon::empty<std::int8_t>(ctx, {columns, rows});
  const auto corner = matrix.slice(0, rows - 3, rows).slice(1, columns - 2, columns);
  const auto values = tenon::from_list<std::int8_t>(ctx, {3, 2}, {1, 2, 3, 4, 5, 6});
  tenon::rearrange(ctx, corner, values);
  tenon::rearrange(ctx, turned, matrix.transpose(0, 1));
  const auto found = turned.slice(0, columns - 2, columns).slice(1, rows - 3, rows).cpu(ctx);
  CHECK(tenon::reference::elements(View<std::int8_t, 2>(found)) == std::vector<double>{1, 3, 5, 2, 4, 6});
  const auto before = turned.slice(0, columns - 3, columns - 2).slice(1, 0, rows).cpu(ctx);
  CHECK(tenon::reference::elements(View<std::int8_t, 2>(before)) ==
        std::vector<double>(static_cast<std::size_t>(rows), 0.0));
}

TEST_CASE("rearrange on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][rearrange]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  check([](auto& c) { tenon::rearrange(c, tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {3, 2})); });
  check([](auto& c) {
    tenon::rearrange(c, tenon::zeros<float>(c, {4, 1}).expand({4, 6}), tenon::zeros<float>(c, {4, 6}));
  });
}
