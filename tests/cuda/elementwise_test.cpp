// add and swiglu on CUDA.
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/ops/add.hpp>
#include <tenon/ops/swiglu.hpp>

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
using tenon::Tensor;
using tenon::View;

namespace {

// silu is good to a few units of the accumulator and may land on the other side of its rounding to T.
template <class T>
support::Tolerance swiglu_bound() {
  return {2 * support::denormal<T>(), 1.5 * support::epsilon<T>() + 4 * support::epsilon<tenon::accumulator_t<T>>()};
}

template <std::size_t Rank>
std::string describe(const Sizes<Rank>& sizes, Form a, Form b, Form out) {
  return tenon::shape_string(sizes) + ", " + std::string(support::form_name(a)) + " and " +
         std::string(support::form_name(b)) + " to " + std::string(support::form_name(out));
}

/// Runs add and swiglu on operands of one shape and three forms, and compares them with the reference.
template <class T, std::size_t Rank>
void check_forms(Context<Cuda>& ctx, std::mt19937& random, const Sizes<Rank>& sizes, Form a_form, Form b_form,
                 Form out_form) {
  Operand<T, Rank> a(sizes, a_form);
  Operand<T, Rank> b(sizes, b_form);
  a.fill(random, -8, 8);
  b.fill(random, -3, 3);
  const OnDevice a_device(ctx, a);
  const OnDevice b_device(ctx, b);
  INFO(describe(sizes, a_form, b_form, out_form));
  {
    Operand<T, Rank> out(sizes, out_form);
    const OnDevice out_device(ctx, out);
    tenon::add(ctx, out_device.view(), a_device.view(), b_device.view());
    out_device.read_back(out);
    CHECK(support::mismatch(out.view(), tenon::reference::add(a.view(), b.view()), support::tolerance<T>()) == "");
    CHECK(out.intact());
  }
  {
    Operand<T, Rank> out(sizes, out_form);
    const OnDevice out_device(ctx, out);
    tenon::swiglu(ctx, out_device.view(), a_device.view(), b_device.view());
    out_device.read_back(out);
    CHECK(support::mismatch(out.view(), tenon::reference::swiglu(a.view(), b.view()), swiglu_bound<T>()) == "");
    CHECK(out.intact());
  }
}

}  // namespace

TEMPLATE_TEST_CASE("add and swiglu on CUDA equal their definition for every size and layout", "[cuda][elementwise]",
                   float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<2> sizes : {Sizes<2>{1, 1}, {0, 4}, {4, 0}, {1, 15}, {3, 16}, {5, 33}, {7, 131}}) {
    for (const Form form : support::all_forms) {
      const Form other = support::all_forms[random() % support::all_forms.size()];
      check_forms<TestType>(ctx, random, sizes, form, other, form == Form::broadcast ? Form::padded : form);
      check_forms<TestType>(ctx, random, sizes, form, form,
                            support::writable_forms[random() % support::writable_forms.size()]);
    }
  }
  for (const Form form : support::writable_forms) {
    const Form other = support::all_forms[random() % support::all_forms.size()];
    check_forms<TestType>(ctx, random, Sizes<1>{77}, form, other, form);
    check_forms<TestType>(ctx, random, Sizes<3>{3, 5, 17}, form, other, form);
    check_forms<TestType>(ctx, random, Sizes<4>{2, 3, 4, 9}, form, other, form);
  }
}

TEMPLATE_TEST_CASE("add and swiglu on CUDA: aligned stretches with every kind of end", "[cuda][elementwise]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  for (const std::int64_t n : {1, 2, 7, 8, 9, 15, 16, 17, 2048, 2049, 2055, 100003}) {
    Operand<TestType, 1> a({n});
    Operand<TestType, 1> b({n});
    a.fill(random, -8, 8);
    b.fill(random, -3, 3);
    const auto x = upload(ctx, a);
    const auto y = upload(ctx, b);
    // One more pack behind the result, which must stay as it is.
    const auto memory = tenon::full<TestType>(ctx, {n + 16}, 7);
    const auto out = memory.slice(0, 0, n);
    INFO("n = " << n);
    tenon::add(ctx, out, x, y);
    auto result = memory.cpu(ctx);
    CHECK(support::mismatch(View<TestType, 1>(result.slice(0, 0, n)), tenon::reference::add(a.view(), b.view()),
                            support::tolerance<TestType>()) == "");
    tenon::swiglu(ctx, out, x, y);
    result = memory.cpu(ctx);
    CHECK(support::mismatch(View<TestType, 1>(result.slice(0, 0, n)), tenon::reference::swiglu(a.view(), b.view()),
                            swiglu_bound<TestType>()) == "");
    CHECK(tenon::reference::elements(View<TestType, 1>(result.slice(0, n, n + 16))) == std::vector<double>(16, 7.0));
  }
}

TEMPLATE_TEST_CASE("add and swiglu on CUDA: column halves of one matrix, and rows that are broadcast",
                   "[cuda][elementwise]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  for (const std::int64_t n : {16, 48, 50, 264, 1001}) {
    Operand<TestType, 2> both({13, 2 * n});
    both.fill(random, -6, 6);
    const auto device = upload(ctx, both);
    const auto gate = device.slice(1, 0, n);
    const auto up = device.slice(1, n, 2 * n);
    const auto host_gate = both.view().slice(1, 0, n);
    const auto host_up = both.view().slice(1, n, 2 * n);
    INFO("n = " << n);
    const auto out = tenon::zeros<TestType>(ctx, {13, n});
    tenon::swiglu(ctx, out, gate, up);
    CHECK(support::mismatch(View<TestType, 2>(out.cpu(ctx)), tenon::reference::swiglu(host_gate, host_up),
                            swiglu_bound<TestType>()) == "");
    tenon::add(ctx, out, gate, up);
    CHECK(support::mismatch(View<TestType, 2>(out.cpu(ctx)), tenon::reference::add(host_gate, host_up),
                            support::tolerance<TestType>()) == "");
    const auto row = device.slice(0, 5, 6).slice(1, 0, n).expand({13, n});
    tenon::add(ctx, out, up, row);
    CHECK(support::mismatch(View<TestType, 2>(out.cpu(ctx)),
                            tenon::reference::add(host_up, both.view().slice(0, 5, 6).slice(1, 0, n).expand({13, n})),
                            support::tolerance<TestType>()) == "");
    // In place, in the matrix itself: the other half stays as it is.
    tenon::swiglu(ctx, gate, gate, up);
    const auto changed = device.cpu(ctx);
    CHECK(support::mismatch(View<TestType, 2>(changed.slice(1, 0, n)), tenon::reference::swiglu(host_gate, host_up),
                            swiglu_bound<TestType>()) == "");
    CHECK(support::bits(View<TestType, 2>(changed.slice(1, n, 2 * n))) == support::bits(host_up));
  }
}

TEMPLATE_TEST_CASE("add and swiglu on CUDA work in place and give the same bits in every layout and run",
                   "[cuda][elementwise]", float, double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  Operand<TestType, 3> a({3, 21, 264});
  Operand<TestType, 3> b({3, 21, 264});
  a.fill(random, -6, 6);
  b.fill(random);
  const auto x = upload(ctx, a);
  const auto y = upload(ctx, b);
  for (const bool gated : {false, true}) {
    const auto call = [&](const View<TestType, 3, Cuda>& out, const View<const TestType, 3, Cuda>& left,
                          const View<const TestType, 3, Cuda>& right) {
      if (gated) {
        tenon::swiglu(ctx, out, left, right);
      } else {
        tenon::add(ctx, out, left, right);
      }
    };
    INFO((gated ? "swiglu" : "add"));
    const auto out = tenon::empty<TestType>(ctx, {3, 21, 264});
    call(out, x, y);
    const auto expected = support::bits(View<TestType, 3>(out.cpu(ctx)));
    const auto left = x.clone(ctx);
    call(left, left, y);
    CHECK(support::bits(View<TestType, 3>(left.cpu(ctx))) == expected);
    const auto right = y.clone(ctx);
    call(right, x, right);
    CHECK(support::bits(View<TestType, 3>(right.cpu(ctx))) == expected);
    for (const Form form : support::writable_forms) {
      Operand<TestType, 3> result({3, 21, 264}, form);
      const OnDevice strided(ctx, result);
      tenon::copy(ctx, strided.view(), View<const TestType, 3, Cuda>(x));
      call(strided.view(), strided.view(), y);
      strided.read_back(result);
      INFO(support::form_name(form));
      CHECK(support::bits(result.view()) == expected);
    }
  }
}

TEMPLATE_TEST_CASE("add on CUDA passes on infinities and NaN, and rounds to infinity where the range ends",
                   "[cuda][elementwise]", float, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> a_values{inf, -inf, inf, std::nan(""), 0.0, -0.0, 60000.0, 1.0};
  const std::vector<double> b_values{1.0, 1.0, -inf, 1.0, -0.0, -0.0, 60000.0, 0x1p-20};
  Operand<TestType, 1> a({43});
  Operand<TestType, 1> b({43});
  std::size_t i = 0;
  a.fill([&] { return a_values[i++ % 8]; });
  i = 0;
  b.fill([&] { return b_values[i++ % 8]; });
  const auto out = tenon::empty<TestType>(ctx, {43});
  tenon::add(ctx, out, upload(ctx, a), upload(ctx, b));
  const auto result = out.cpu(ctx);
  CHECK(support::mismatch(View<TestType, 1>(result), tenon::reference::add(a.view(), b.view()),
                          support::tolerance<TestType>()) == "");
  CHECK_FALSE(std::signbit(static_cast<float>(result(4))));
  CHECK(std::signbit(static_cast<float>(result(5))));
}

TEMPLATE_TEST_CASE("swiglu on CUDA is accurate over the whole range of the exponential", "[cuda][elementwise]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const std::int64_t n = 40001;
  Operand<TestType, 1> gate({n});
  Operand<TestType, 1> up({n});
  std::int64_t i = 0;
  gate.fill([&] { return static_cast<double>(i++ - 20000) * 0.0043; });  // -86 … 86
  up.fill([] { return 1.0; });
  const auto out = tenon::empty<TestType>(ctx, {n});
  tenon::swiglu(ctx, out, upload(ctx, gate), upload(ctx, up));
  CHECK(support::mismatch(View<TestType, 1>(out.cpu(ctx)), tenon::reference::swiglu(gate.view(), up.view()),
                          swiglu_bound<TestType>()) == "");
}

TEST_CASE("swiglu on CUDA at the ends: zero, overflow of the exponential, infinities, NaN", "[cuda][elementwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> gates{0.0,   -0.0,   88.0,  89.0, 1e30, 3e38,         -88.0,
                                  -89.0, -104.0, -1e30, inf,  1.0,  std::nan(""), -inf};
  const auto n = static_cast<std::int64_t>(gates.size());
  Operand<float, 1> gate({n});
  Operand<float, 1> up({n});
  std::size_t i = 0;
  gate.fill([&] { return gates[i++]; });
  up.fill([] { return 1.0; });
  const auto out = tenon::empty<float>(ctx, {n});
  tenon::swiglu(ctx, out, upload(ctx, gate), upload(ctx, up));
  const auto result = out.cpu(ctx);
  // Results below 1e-35 may be flushed: they are products with an exponential at the end of float's range. NaN for
  // -infinity, as the formula says.
  CHECK(support::mismatch(View<float, 1>(result), tenon::reference::swiglu(gate.view(), up.view()),
                          support::Tolerance{1e-35, 1e-6}) == "");
}

TEMPLATE_TEST_CASE("swiglu on CUDA rounds silu to T before the product", "[cuda][elementwise]", tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(5);
  const std::int64_t n = 4000;
  Operand<TestType, 1> gate({n});
  Operand<TestType, 1> up({n});
  gate.fill(random, -4, 4);
  up.fill(random, -4, 4);
  const auto out = tenon::empty<TestType>(ctx, {n});
  tenon::swiglu(ctx, out, upload(ctx, gate), upload(ctx, up));
  const auto result = out.cpu(ctx);
  int equal = 0;
  int differs_from_one_rounding = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = static_cast<float>(gate.view()(i));
    const float u = static_cast<float>(up.view()(i));
    const TestType silu(static_cast<float>(x / (1.0 + std::exp(-x))));
    const TestType twice(static_cast<float>(silu) * u);
    const TestType once(static_cast<float>(x / (1.0 + std::exp(-x)) * static_cast<double>(u)));
    equal += static_cast<float>(result(i)) == static_cast<float>(twice);
    differs_from_one_rounding += static_cast<float>(twice) != static_cast<float>(once);
  }
  CHECK(equal >= n - 8);  // a silu that lies on a rounding boundary of T to 1e-7 may fall on either side
  CHECK(differs_from_one_rounding > 100);
}

TEST_CASE("G10: add and swiglu on CUDA reach elements more than 2^31 apart", "[cuda][elementwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;  // elements: 4.3 GB
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  for (const std::int64_t n : {64, 63}) {  // packs, and single elements
    const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 64) * 2);
    const View<tenon::bfloat16, 2, Cuda> far(reinterpret_cast<tenon::bfloat16*>(memory.data()),
                                             tenon::Layout<2>({2, n}, {gap, 1}));
    Operand<tenon::bfloat16, 2> host({2, n});
    std::mt19937 random(6);
    host.fill(random);
    const auto near = upload(ctx, host);
    tenon::copy(ctx, far, View<const tenon::bfloat16, 2, Cuda>(near));
    tenon::add(ctx, far, far, near);
    const auto out = tenon::empty<tenon::bfloat16>(ctx, {2, n});
    tenon::copy(ctx, View<tenon::bfloat16, 2, Cuda>(out), View<const tenon::bfloat16, 2, Cuda>(far));
    INFO("n = " << n);
    CHECK(support::mismatch(View<tenon::bfloat16, 2>(out.cpu(ctx)), tenon::reference::add(host.view(), host.view()),
                            support::tolerance<tenon::bfloat16>()) == "");
    tenon::copy(ctx, far, View<const tenon::bfloat16, 2, Cuda>(near));
    tenon::swiglu(ctx, out, far, near);
    CHECK(support::mismatch(View<tenon::bfloat16, 2>(out.cpu(ctx)), tenon::reference::swiglu(host.view(), host.view()),
                            swiglu_bound<tenon::bfloat16>()) == "");
  }
}

TEST_CASE("add and swiglu on CUDA refuse what they refuse on the CPU, in the same words", "[cuda][elementwise]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  check([](auto& c) {
    tenon::add(c, tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {3, 2}), tenon::zeros<float>(c, {2, 3}));
  });
  check([](auto& c) {
    tenon::add(c, tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {3, 2}));
  });
  check([](auto& c) {
    const auto x = tenon::zeros<float>(c, {4, 6});
    tenon::add(c, tenon::zeros<float>(c, {4, 1}).expand({4, 6}), x, x);
  });
  check([](auto& c) {
    tenon::swiglu(c, tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {3, 2}), tenon::zeros<float>(c, {2, 3}));
  });
  check([](auto& c) {
    tenon::swiglu(c, tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {2, 3}), tenon::zeros<float>(c, {3, 2}));
  });
  check([](auto& c) {
    const auto x = tenon::zeros<float>(c, {4, 6});
    tenon::swiglu(c, tenon::zeros<float>(c, {4, 1}).expand({4, 6}), x, x);
  });
}
