// pointwise on CUDA.
#include <tenon/ops/pointwise.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include <tenon/cpu/reference_graph.hpp>
#include <tenon/cuda/graph.hpp>

#include "support/compare.hpp"
#include "support/cuda.hpp"
#include "support/operand.hpp"
#include "support/pointwise.hpp"

using support::Form;
using support::message_of;
using support::OnDevice;
using support::Operand;
using support::pointwise_program;
using support::upload;
using tenon::Context;
using tenon::Cpu;
using tenon::Cuda;
using tenon::PointwiseProgram;
using tenon::PointwiseView;
using tenon::Sizes;
using tenon::View;

namespace {

template <class T>
using Views = std::vector<PointwiseView<const T, Cuda>>;

/// Runs programs on operands of every form, some of them broadcast along any dimensions.
template <class T>
void check_programs(const std::vector<std::string>& programs, const std::vector<Sizes<4>>& shapes) {
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const std::string& text : programs) {
    const PointwiseProgram program = pointwise_program(text);
    for (const Sizes<4>& sizes : shapes) {
      for (const Form form : support::all_forms) {
        std::vector<Operand<T, 4>> operands;
        std::vector<OnDevice<T, 4>> devices;
        std::vector<PointwiseView<const T, Cpu>> host;
        Views<T> views;
        for (int i = 0; i < program.operands(); ++i) {
          const Form other = i == 0 ? form : support::all_forms[random() % support::all_forms.size()];
          operands.emplace_back(sizes, other);
          operands.back().fill(random, -3, 3);
          devices.emplace_back(ctx, operands.back());
          const tenon::Layout<4> layout = support::sometimes_broadcast(operands.back().view().layout(), random);
          host.push_back({operands.back().view().data(), layout});
          views.push_back({devices.back().view().data(), layout});
        }
        Operand<T, 4> out(sizes, form == Form::broadcast ? Form::contiguous : form);
        const OnDevice out_device(ctx, out);
        tenon::pointwise(ctx, out_device.view(), views, program);
        out_device.read_back(out);
        INFO(support::form_name(form) << ", " << text << ", " << tenon::shape_string(sizes));
        CHECK(support::mismatch(out.view(), tenon::reference::pointwise<T>(host, sizes, program),
                                support::pointwise_tolerance<T>()) == "");
        CHECK(out.intact());
      }
    }
  }
}

/// The same on aligned operands without gaps, which go in packs; some repeat one row, or one element for each row.
template <class T>
void check_packs(const std::vector<std::string>& programs, const std::vector<Sizes<4>>& shapes) {
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::string& text : programs) {
    const PointwiseProgram program = pointwise_program(text);
    for (const Sizes<4>& sizes : shapes) {
      for (int round = 0; round < 4; ++round) {
        std::vector<Operand<T, 4>> operands;
        std::vector<tenon::Tensor<T, 4, Cuda>> devices;
        std::vector<PointwiseView<const T, Cpu>> host;
        Views<T> views;
        for (int i = 0; i < program.operands(); ++i) {
          Sizes<4> own = sizes;
          if (round > 0 && random() % 2 == 0) own = {1, 1, sizes[2], sizes[3]};
          if (round > 1 && random() % 2 == 0) own[3] = program.is_complex() ? own[3] : 1;
          operands.emplace_back(own);
          operands.back().fill(random, -3, 3);
          devices.push_back(upload(ctx, operands.back()));
          host.push_back(PointwiseView<const T, Cpu>(operands.back().view().expand(sizes)));
          views.push_back(PointwiseView<const T, Cuda>(devices.back().expand(sizes)));
        }
        const auto out = tenon::zeros<T>(ctx, sizes);
        tenon::pointwise(ctx, PointwiseView<T, Cuda>(out), views, program);
        INFO(text << ", " << tenon::shape_string(sizes) << ", round " << round);
        CHECK(support::mismatch(View<T, 4>(out.cpu(ctx)), tenon::reference::pointwise<T>(host, sizes, program),
                                support::pointwise_tolerance<T>()) == "");
      }
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("pointwise on CUDA equals its definition for every size and layout", "[cuda][pointwise]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  const std::vector<Sizes<4>> shapes{{1, 1, 1, 1}, {0, 2, 3, 4}, {1, 1, 1, 83}, {2, 3, 5, 7}, {3, 1, 17, 40}};
  check_programs<TestType>({"0", "2", "0r", "01+", "0s1*", "01+r2*s", "0123+*+", "01+23+*s0+", "00+0*",
                            "01+2+3+4*5*6+7*", "01+23+*45+67+*+"},
                           shapes);
}

TEMPLATE_TEST_CASE("pointwise on CUDA in packs, with rows and elements that are repeated", "[cuda][pointwise]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  check_packs<TestType>({"0", "0s", "01+", "0s1*", "01+r2*", "0123+*+", "01+2+3+4*", "01+23+*45+67+*+"},
                        {{1, 1, 1, 64}, {1, 1, 1, 4099}, {2, 3, 5, 16}, {1, 2, 3, 2048}, {5, 1, 4, 24}});
}

TEST_CASE("pointwise on CUDA on integers", "[cuda][pointwise]") {
  TENON_NEEDS_CUDA();
  const std::vector<Sizes<4>> shapes{{1, 1, 1, 1}, {1, 0, 1, 1}, {2, 3, 5, 7}, {1, 1, 3, 600}};
  check_programs<std::int64_t>({"0", "0r", "01+", "01*r", "01+2*r3+"}, shapes);
  check_packs<std::int64_t>({"0", "0r", "01+", "01*r", "01+2*r3+"}, shapes);
}

TEMPLATE_TEST_CASE("pointwise on CUDA multiplies complex numbers", "[cuda][pointwise]", float, double, tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  const std::vector<Sizes<4>> shapes{{1, 1, 1, 2},   {1, 0, 3, 2},   {1, 8, 4, 2},  {2, 3, 5, 2},
                                     {1, 1, 513, 2}, {3, 1, 200, 2}, {1, 32, 64, 2}};
  const std::vector<std::string> programs{"01c", "01c2+", "0 1+2c", "01c2cr", "012cc"};
  check_programs<TestType>(programs, shapes);
  check_packs<TestType>(programs, shapes);
}

TEMPLATE_TEST_CASE("pointwise on CUDA gives the bits of its steps one by one, in every run and in a graph",
                   "[cuda][pointwise]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  for (const Sizes<4> sizes : {Sizes<4>{1, 2, 3, 704}, {1, 2, 3, 701}}) {
    Operand<TestType, 4> a(sizes);
    Operand<TestType, 4> b(sizes);
    Operand<TestType, 4> c(sizes);
    a.fill(random);
    b.fill(random);
    c.fill(random);
    const auto x = upload(ctx, a);
    const auto y = upload(ctx, b);
    const auto z = upload(ctx, c);
    const auto all = tenon::empty<TestType>(ctx, sizes);
    const auto one = tenon::empty<TestType>(ctx, sizes);
    const auto run = [&](const PointwiseView<TestType, Cuda>& out, const char* text, const Views<TestType>& views) {
      tenon::pointwise(ctx, out, views, pointwise_program(text));
    };
    run(all, "01*2+s0*r", {x, y, z});
    run(one, "01*", {x, y});
    run(one, "01+", {one, z});
    run(one, "0s", {one});
    run(one, "01*", {one, x});
    run(one, "0r", {one});
    const auto expected = support::bits(View<TestType, 4>(all.cpu(ctx)));
    CHECK(support::bits(View<TestType, 4>(one.cpu(ctx))) == expected);
    run(one, "01*2+s0*r", {x, y, z});
    CHECK(support::bits(View<TestType, 4>(one.cpu(ctx))) == expected);

    const auto captured = tenon::zeros<TestType>(ctx, sizes);
    tenon::detail::CudaGraph graph(ctx, [&] { run(captured, "01*2+s0*r", {x, y, z}); });
    for (int i = 0; i < 2; ++i) {
      graph.launch(ctx);
      CHECK(support::bits(View<TestType, 4>(captured.cpu(ctx))) == expected);
      tenon::copy(ctx, PointwiseView<TestType, Cuda>(captured), PointwiseView<const TestType, Cuda>(x));
    }
  }
}

TEMPLATE_TEST_CASE("pointwise on CUDA without silu gives the bits of the reference", "[cuda][pointwise]", float, double,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  for (const char* text : {"01*2+", "01c2+", "01+2*"}) {
    const Sizes<4> sizes{1, 3, 100, 2};
    Operand<TestType, 4> a(sizes);
    Operand<TestType, 4> b(sizes);
    Operand<TestType, 4> c(sizes);
    // Few bits, so that no sum in double needs a second rounding to float.
    for (auto* x : {&a, &b, &c}) x->fill([&] { return static_cast<double>(random() % 255) / 64.0 - 2.0; });
    const auto out = tenon::empty<TestType>(ctx, sizes);
    const auto x = upload(ctx, a);
    const auto y = upload(ctx, b);
    const auto z = upload(ctx, c);
    tenon::pointwise(ctx, PointwiseView<TestType, Cuda>(out), Views<TestType>{x, y, z}, pointwise_program(text));
    const std::vector<PointwiseView<const TestType, Cpu>> host{a.view(), b.view(), c.view()};
    INFO(text);
    CHECK(support::mismatch(View<TestType, 4>(out.cpu(ctx)),
                            tenon::reference::pointwise<TestType>(host, sizes, pointwise_program(text)), {}) == "");
  }
}

TEMPLATE_TEST_CASE("pointwise on CUDA works in place in every layout", "[cuda][pointwise]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(5);
  const Sizes<4> sizes{3, 1, 21, 264};
  Operand<TestType, 4> a(sizes);
  Operand<TestType, 4> b(sizes);
  a.fill(random, -3, 3);
  b.fill(random, -3, 3);
  const auto x = upload(ctx, a);
  const auto y = upload(ctx, b);
  const PointwiseProgram program = pointwise_program("01*0+s");
  const auto out = tenon::empty<TestType>(ctx, sizes);
  tenon::pointwise(ctx, PointwiseView<TestType, Cuda>(out), Views<TestType>{x, y}, program);
  const auto expected = support::bits(View<TestType, 4>(out.cpu(ctx)));
  for (const Form form : support::writable_forms) {
    Operand<TestType, 4> result(sizes, form);
    const OnDevice strided(ctx, result);
    tenon::copy(ctx, strided.view(), PointwiseView<const TestType, Cuda>(x));
    tenon::pointwise(ctx, strided.view(), Views<TestType>{strided.view(), y}, program);
    strided.read_back(result);
    INFO(support::form_name(form));
    CHECK(support::bits(result.view()) == expected);
    CHECK(result.intact());
  }
  tenon::pointwise(ctx, PointwiseView<TestType, Cuda>(x), Views<TestType>{x, y}, program);
  CHECK(support::bits(View<TestType, 4>(x.cpu(ctx))) == expected);
}

TEMPLATE_TEST_CASE("pointwise on CUDA: a thread takes many groups, and elements after the last", "[cuda][pointwise]",
                   float, double, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(7);
  const std::int64_t threads = std::int64_t{ctx.properties().multiprocessors} * 2048;
  constexpr std::int64_t pack = 16 / sizeof(TestType);
  for (const std::int64_t count : {3 * threads * pack + 1, 2 * threads * pack - 1}) {
    const Sizes<4> sizes{1, 1, 1, count};
    Operand<TestType, 4> a(sizes);
    Operand<TestType, 4> b(sizes);
    Operand<TestType, 4> one({1, 1, 1, 1});
    a.fill(random, -3, 3);
    b.fill(random, -3, 3);
    one.fill(random, -3, 3);
    const auto x = upload(ctx, a);
    const auto y = upload(ctx, b);
    const auto z = upload(ctx, one);
    const PointwiseProgram program = pointwise_program("01*2+s0*r");
    const Views<TestType> views{x, y, PointwiseView<const TestType, Cuda>(z.expand(sizes))};
    const std::vector<PointwiseView<const TestType, Cpu>> host{
        a.view(), b.view(), PointwiseView<const TestType, Cpu>(one.view().expand(sizes))};
    tenon::pointwise(ctx, PointwiseView<TestType, Cuda>(x), views, program);
    INFO(count << " elements");
    CHECK(support::mismatch(View<TestType, 4>(x.cpu(ctx)), tenon::reference::pointwise<TestType>(host, sizes, program),
                            support::pointwise_tolerance<TestType>()) == "");
  }
}

TEST_CASE("silu on CUDA is good to a few units in the last place, of small and large numbers", "[cuda][pointwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t count = 100'000;
  const Sizes<4> sizes{1, 1, 1, count};
  Operand<float, 4> a(sizes);
  std::vector<double> expected;
  a.fill([&, i = std::int64_t{0}]() mutable {
    const auto x = static_cast<float>(-104.0 + 208.0 * static_cast<double>(i++) / count);
    expected.push_back(double{x} / (1.0 + std::exp(-double{x})));
    return x;
  });
  const auto x = upload(ctx, a);
  tenon::pointwise(ctx, PointwiseView<float, Cuda>(x), Views<float>{x}, pointwise_program("0s"));
  // exp overflows below -88.7, and the quotient is zero.
  CHECK(support::mismatch(View<float, 4>(x.cpu(ctx)), expected, {3e-37, 5 * support::epsilon<float>()}) == "");
}

TEST_CASE("pointwise on CUDA keeps NaN and infinities, and integers wrap", "[cuda][pointwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::int64_t n : {1, 5, 40}) {
    for (const auto& [text, value, expected] : {std::tuple{"0r", nan, nan},
                                                {"0r", -inf, 0.0},
                                                {"0r", inf, inf},
                                                {"0s", inf, inf},
                                                {"0s", -inf, nan},
                                                {"0s", nan, nan},
                                                {"00+", inf, inf},
                                                {"00*", -inf, inf},
                                                {"00+", 3e38, inf},
                                                {"0s", 0.0, 0.0}}) {
      const auto x = tenon::full<float>(ctx, {1, 1, 1, n}, static_cast<float>(value));
      tenon::pointwise(ctx, PointwiseView<float, Cuda>(x), Views<float>{x}, pointwise_program(text));
      INFO(text << " of " << value);
      CHECK(support::mismatch(View<float, 4>(x.cpu(ctx)), std::vector<double>(static_cast<std::size_t>(n), expected),
                              {}) == "");
    }
  }
  const auto large = tenon::full<std::int64_t>(ctx, {1, 1, 1, 3}, std::numeric_limits<std::int64_t>::max());
  tenon::pointwise(ctx, PointwiseView<std::int64_t, Cuda>(large), Views<std::int64_t>{large}, pointwise_program("00+"));
  CHECK(large.cpu(ctx)(0, 0, 0, 2) == -2);
}

TEST_CASE("G10: pointwise on CUDA reaches elements more than 2^31 apart", "[cuda][pointwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;  // elements: 4.3 GB
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  for (const std::int64_t n : {64, 63}) {  // packs, and single elements
    const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
    const PointwiseView<tenon::bfloat16, Cuda> far(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                                   tenon::Layout<4>({1, 1, 2, n}, {0, 0, gap, 1}));
    Operand<tenon::bfloat16, 4> host({1, 1, 2, n});
    std::mt19937 random(6);
    host.fill(random);
    const auto near = upload(ctx, host);
    tenon::copy(ctx, far, PointwiseView<const tenon::bfloat16, Cuda>(near));
    const PointwiseProgram program = pointwise_program("01+");
    tenon::pointwise(ctx, far, Views<tenon::bfloat16>{far, near}, program);
    const auto out = tenon::empty<tenon::bfloat16>(ctx, {1, 1, 2, n});
    tenon::copy(ctx, PointwiseView<tenon::bfloat16, Cuda>(out), PointwiseView<const tenon::bfloat16, Cuda>(far));
    const std::vector<PointwiseView<const tenon::bfloat16, Cpu>> operands{host.view(), host.view()};
    INFO("n = " << n);
    CHECK(support::mismatch(View<tenon::bfloat16, 4>(out.cpu(ctx)),
                            tenon::reference::pointwise<tenon::bfloat16>(operands, {1, 1, 2, n}, program), {}) == "");
  }
}

TEST_CASE("pointwise on CUDA refuses what it refuses on the CPU, in the same words", "[cuda][pointwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  const auto call = []<class T>(auto& c, const auto& out, const std::vector<tenon::Sizes<4>>& sizes, const char* text,
                                T) {
    using Device = typename std::remove_reference_t<decltype(c)>::device_type;
    std::vector<tenon::Tensor<T, 4, Device>> tensors;
    std::vector<PointwiseView<const T, Device>> views;
    for (const auto& size : sizes) {
      tensors.push_back(tenon::zeros<T>(c, size));
      views.push_back(tensors.back());
    }
    tenon::pointwise(c, PointwiseView<T, Device>(out), views, pointwise_program(text));
  };
  check([&](auto& c) { call(c, tenon::zeros<float>(c, {1, 2, 3, 4}), {{1, 2, 3, 4}}, "01+", 0.0f); });
  check([&](auto& c) { call(c, tenon::zeros<float>(c, {1, 2, 3, 4}), {{1, 2, 3, 4}, {1, 2, 4, 3}}, "01+", 0.0f); });
  check([&](auto& c) { call(c, tenon::zeros<float>(c, {1, 2, 3, 4}), {{1, 2, 3, 4}, {1, 2, 3, 4}}, "01c", 0.0f); });
  check([&](auto& c) {
    call(c, tenon::zeros<float>(c, {1, 2, 3, 1}).expand({1, 2, 3, 4}), {{1, 2, 3, 4}}, "0r", 0.0f);
  });
  check([&](auto& c) { call(c, tenon::zeros<std::int64_t>(c, {1, 2, 3, 4}), {{1, 2, 3, 4}}, "0s", std::int64_t{0}); });
}
