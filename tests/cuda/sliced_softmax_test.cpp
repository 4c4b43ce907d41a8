// sliced_softmax on CUDA.
#include <tenon/ops/sliced_softmax.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include <tenon/cpu/reference_graph.hpp>
#include <tenon/cuda/graph.hpp>

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

namespace {

tenon::Tensor<std::int64_t, 1, Cuda> number(Context<Cuda>& ctx, std::int64_t value) {
  return tenon::from_span<std::int64_t>(ctx, {1}, std::vector<std::int64_t>{value});
}

/// exp is good to a few units of the accumulator.
template <class T>
support::Tolerance bound(std::int64_t n) {
  support::Tolerance result = support::tolerance<T>(n);
  result.relative += 8 * support::epsilon<tenon::accumulator_t<T>>();
  result.absolute = 2 * support::denormal<T>() + 1e-37;
  return result;
}

}  // namespace

TEMPLATE_TEST_CASE("sliced_softmax on CUDA equals its definition for every size, prefix and layout",
                   "[cuda][sliced_softmax]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<3> sizes : {Sizes<3>{1, 1, 1},
                               {0, 2, 3},
                               {2, 0, 3},
                               {2, 3, 0},
                               {2, 3, 17},
                               {3, 11, 128},
                               {2, 1, 129},
                               {1, 2, 1000},
                               {2, 2, 4096},
                               {1, 2, 4097},
                               {1, 1, 10007}}) {
    const std::int64_t n = sizes[2];
    for (const std::int64_t prefix : {std::int64_t{0}, std::int64_t{1}, n / 2, n - 1, n}) {
      if (prefix < 0 || prefix > n) continue;
      for (const Form form : support::writable_forms) {
        const Form other = support::all_forms[random() % support::all_forms.size()];
        Operand<TestType, 3> in(sizes, other);
        Operand<TestType, 3> out(sizes, form);
        in.fill(random, -6, 6);
        const OnDevice in_device(ctx, in);
        const OnDevice out_device(ctx, out);
        tenon::sliced_softmax(ctx, out_device.view(), in_device.view(), number(ctx, prefix));
        out_device.read_back(out);
        INFO(tenon::shape_string(sizes) << ", prefix " << prefix << ", " << support::form_name(other) << " to "
                                        << support::form_name(form));
        CHECK(support::mismatch(out.view(), tenon::reference::sliced_softmax<TestType>(in.view(), prefix),
                                bound<TestType>(n)) == "");
        CHECK(out.intact());
      }
    }
  }
}

TEMPLATE_TEST_CASE("sliced_softmax on CUDA in place, in every run and in a graph whose prefix changes",
                   "[cuda][sliced_softmax]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::int64_t n : {40, 2048, 5000}) {
    const Sizes<3> sizes{4, 3, n};
    Operand<TestType, 3> in(sizes);
    in.fill(random, -6, 6);
    const auto x = upload(ctx, in);
    const auto out = tenon::empty<TestType>(ctx, sizes);
    const auto again = tenon::empty<TestType>(ctx, sizes);
    const auto place = tenon::empty<TestType>(ctx, sizes);
    const auto captured = tenon::empty<TestType>(ctx, sizes);
    const auto prefix = number(ctx, n);
    const auto call = [&](const View<TestType, 3, Cuda>& to, const View<const TestType, 3, Cuda>& from) {
      tenon::sliced_softmax(ctx, to, from, prefix);
    };
    call(out, x);
    tenon::detail::CudaGraph graph(ctx, [&] { call(captured, x); });
    for (const std::int64_t length : {n, std::int64_t{1}, n / 3}) {
      tenon::copy(ctx, View<std::int64_t, 1, Cuda>(prefix), View<const std::int64_t, 1, Cuda>(number(ctx, length)));
      tenon::copy(ctx, View<TestType, 3, Cuda>(place), View<const TestType, 3, Cuda>(x));
      call(out, x);
      call(again, x);
      call(place, place);
      graph.launch(ctx);
      INFO("n = " << n << ", prefix " << length);
      const auto expected = support::bits(View<TestType, 3>(out.cpu(ctx)));
      CHECK(support::mismatch(View<TestType, 3>(out.cpu(ctx)),
                              tenon::reference::sliced_softmax<TestType>(in.view(), length), bound<TestType>(n)) == "");
      CHECK(support::bits(View<TestType, 3>(again.cpu(ctx))) == expected);
      CHECK(support::bits(View<TestType, 3>(place.cpu(ctx))) == expected);
      CHECK(support::bits(View<TestType, 3>(captured.cpu(ctx))) == expected);
    }
  }
}

TEST_CASE("sliced_softmax on CUDA takes a prefix outside the row as its ends", "[cuda][sliced_softmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  Operand<float, 3> in({1, 2, 37});
  in.fill(random);
  const auto x = upload(ctx, in);
  const auto out = tenon::empty<float>(ctx, {1, 2, 37});
  for (const std::int64_t prefix : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min(), std::int64_t{38},
                                    std::numeric_limits<std::int64_t>::max()}) {
    tenon::sliced_softmax(ctx, View<float, 3, Cuda>(out), x, number(ctx, prefix));
    INFO("prefix " << prefix);
    CHECK(support::mismatch(View<float, 3>(out.cpu(ctx)),
                            tenon::reference::sliced_softmax<float>(in.view(), prefix < 0 ? 0 : 37),
                            bound<float>(37)) == "");
  }
}

TEST_CASE("sliced_softmax on CUDA with NaN, infinities and huge scores", "[cuda][sliced_softmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t n : {20, 300, 6000}) {
    // The first row has one of these in its middle, the second one behind the prefix.
    for (const double value : {nan, inf, -inf, 3e38, -3e38}) {
      Operand<float, 3> in({1, 2, n});
      std::int64_t i = 0;
      in.fill([&] {
        const std::int64_t at = i++;
        return at == n / 2 || at == 2 * n - 1 ? value : static_cast<double>(at % 5);
      });
      const auto out = tenon::empty<float>(ctx, {1, 2, n});
      tenon::sliced_softmax(ctx, View<float, 3, Cuda>(out), upload(ctx, in), number(ctx, n - 1));
      INFO("n = " << n << ", " << value);
      CHECK(support::mismatch(View<float, 3>(out.cpu(ctx)), tenon::reference::sliced_softmax<float>(in.view(), n - 1),
                              bound<float>(n)) == "");
    }
    const auto lowest = tenon::full<float>(ctx, {1, 1, n}, -std::numeric_limits<float>::infinity());
    tenon::sliced_softmax(ctx, View<float, 3, Cuda>(lowest), lowest, number(ctx, n));
    CHECK(std::isnan(lowest.cpu(ctx)(0, 0, n - 1)));
  }
}

TEST_CASE("G10: sliced_softmax on CUDA reaches rows more than 2^31 elements apart", "[cuda][sliced_softmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;  // elements: 4.3 GB
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
  const View<tenon::bfloat16, 3, Cuda> far(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                           tenon::Layout<3>({1, 2, 64}, {0, gap, 1}));
  std::mt19937 random(4);
  Operand<tenon::bfloat16, 3> host({1, 2, 64});
  host.fill(random);
  tenon::copy(ctx, far, View<const tenon::bfloat16, 3>(host.view()));
  tenon::sliced_softmax(ctx, far, far, number(ctx, 50));
  const auto out = tenon::empty<tenon::bfloat16>(ctx, {1, 2, 64});
  tenon::copy(ctx, View<tenon::bfloat16, 3, Cuda>(out), View<const tenon::bfloat16, 3, Cuda>(far));
  CHECK(support::mismatch(View<tenon::bfloat16, 3>(out.cpu(ctx)),
                          tenon::reference::sliced_softmax<tenon::bfloat16>(host.view(), 50),
                          bound<tenon::bfloat16>(64)) == "");
}

TEST_CASE("sliced_softmax on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][sliced_softmax]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](const Sizes<3>& out, const Sizes<3>& in, std::int64_t prefixes, bool shared) {
    const auto call = [&](auto& c) {
      using Device = typename std::remove_reference_t<decltype(c)>::device_type;
      const auto tensor = tenon::zeros<float>(c, out);
      View<float, 3, Device> target = tensor;
      if (shared) target = {tensor.data(), tenon::Layout<3>(out, {0, out[2], 1})};
      tenon::sliced_softmax(c, target, tenon::zeros<float>(c, in), tenon::zeros<std::int64_t>(c, {prefixes}));
    };
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  check({2, 3, 4}, {2, 4, 3}, 1, false);
  check({2, 3, 4}, {2, 3, 4}, 2, false);
  check({2, 3, 4}, {2, 3, 4}, 0, false);
  check({2, 3, 4}, {2, 3, 4}, 1, true);
}
