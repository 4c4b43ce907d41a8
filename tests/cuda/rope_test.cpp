// rope_table, rope and rope_append on CUDA.
#include <tenon/ops/rope.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <tenon/cpu/reference.hpp>
#include <tenon/ops/rearrange.hpp>
#include <tenon/ops/rope_append.hpp>

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

tenon::Tensor<std::int64_t, 1, Cuda> upload(Context<Cuda>& ctx, const std::vector<std::int64_t>& values) {
  return tenon::from_span<std::int64_t>(ctx, Sizes<1>{static_cast<std::int64_t>(values.size())}, values);
}

template <class T, std::size_t Rank>
std::vector<std::uint64_t> bits(Context<Cuda>& ctx, const tenon::Tensor<T, Rank, Cuda>& x) {
  return support::bits(View<T, Rank>(x.cpu(ctx)));
}

// Products are up to 2 and rounded to T, each perhaps the other way than in the oracle.
template <class T>
support::Tolerance bound() {
  return {2.0 * support::epsilon<T>(), support::epsilon<T>()};
}

struct Known {
  std::int64_t position, dim;
  double theta;
  std::int64_t i;
  double cos, sin;
};

}  // namespace

TEST_CASE("N4, N5, N6: angles on CUDA are formed in float at any position", "[cuda][rope]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  // Computed with NumPy in float32: inv = 1 / theta ** (arange(0, dim, 2) / dim), angle = position * inv.
  constexpr std::array<Known, 8> known{{{15962, 64, 1e6, 0, -0.908015907, 0.418935686},
                                        {15962, 64, 1e6, 5, -0.658610106, 0.752484381},
                                        {15962, 64, 1e6, 20, -0.954414845, 0.298483312},
                                        {15962, 64, 1e6, 31, 0.999697924, 0.0245778318},
                                        {4095, 128, 1e4, 0, -0.0659759939, -0.997821212},
                                        {4095, 128, 1e4, 7, 0.999948323, -0.0101634804},
                                        {4095, 128, 1e4, 40, 0.927488983, 0.373850524},
                                        {4095, 128, 1e4, 63, 0.890258789, 0.455455005}}};
  for (const Known& row : known) {
    const auto cos = tenon::empty<float>(ctx, {1, row.dim / 2});
    const auto sin = tenon::empty<float>(ctx, {1, row.dim / 2});
    tenon::rope_table(ctx, cos, sin, upload(ctx, {row.position}), row.theta);
    INFO("position " << row.position << ", pair " << row.i);
    // The power may differ in its last bit between libraries, which moves an angle by position * 2^-24 or so.
    const double slack = static_cast<double>(row.position) * 0x1p-23 *
                         std::pow(row.theta, -2.0 * static_cast<double>(row.i) / static_cast<double>(row.dim));
    CHECK(std::abs(static_cast<double>(cos.cpu(ctx)(0, row.i)) - row.cos) <= slack + 1e-7);
    CHECK(std::abs(static_cast<double>(sin.cpu(ctx)(0, row.i)) - row.sin) <= slack + 1e-7);
  }
}

TEST_CASE("rope_table on CUDA gives the angles of the CPU, on any strides", "[cuda][rope]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  std::vector<std::int64_t> positions{131071, 1048575, 16777217};
  for (std::int64_t p = 0; p < 5000; p += 37) positions.push_back(p);
  const auto tokens = static_cast<std::int64_t>(positions.size());
  const auto device_positions = upload(ctx, positions);
  const View<const std::int64_t, 1> ids(positions.data(), {tokens});
  for (const double theta : {1e4, 1e6}) {
    for (const std::int64_t half : {1, 16, 33, 64, 200}) {
      const auto expected_cos = tenon::empty<float>(host, {tokens, half});
      const auto expected_sin = tenon::empty<float>(host, {tokens, half});
      tenon::rope_table(host, expected_cos, expected_sin, ids, theta);
      Operand<float, 2> cos({tokens, half}, Form::transposed);
      Operand<float, 2> sin({tokens, half}, Form::padded);
      const OnDevice cos_device(ctx, cos);
      const OnDevice sin_device(ctx, sin);
      tenon::rope_table(ctx, cos_device.view(), sin_device.view(), device_positions, theta);
      cos_device.read_back(cos);
      sin_device.read_back(sin);
      INFO("theta " << theta << ", half " << half);
      CHECK(cos.intact());
      CHECK(sin.intact());
      std::int64_t equal = 0;
      for (std::int64_t t = 0; t < tokens; ++t) {
        for (std::int64_t i = 0; i < half; ++i) {
          // A power whose last bit differs moves the angle by a unit or two of its own.
          const double slack = static_cast<double>(positions[static_cast<std::size_t>(t)]) *
                               std::pow(theta, -static_cast<double>(i) / static_cast<double>(half)) * 0x1p-22;
          REQUIRE(std::abs(static_cast<double>(cos.view()(t, i) - expected_cos(t, i))) <= slack + 1.2e-7);
          REQUIRE(std::abs(static_cast<double>(sin.view()(t, i) - expected_sin(t, i))) <= slack + 1.2e-7);
          equal += cos.view()(t, i) == expected_cos(t, i) && sin.view()(t, i) == expected_sin(t, i);
        }
      }
      CHECK(equal >= tokens * half * 9 / 10);
      // The same bits with other strides, alone and among other tokens.
      const auto packed_cos = tenon::empty<float>(ctx, {tokens, half});
      const auto packed_sin = tenon::empty<float>(ctx, {tokens, half});
      for (const std::int64_t t : {std::int64_t{0}, tokens - 1}) {
        tenon::rope_table(ctx, packed_cos.slice(0, t, t + 1), packed_sin.slice(0, t, t + 1),
                          device_positions.slice(0, t, t + 1), theta);
        CHECK(support::bits(View<float, 2>(packed_cos.slice(0, t, t + 1).cpu(ctx))) ==
              support::bits(cos.view().slice(0, t, t + 1)));
        CHECK(support::bits(View<float, 2>(packed_sin.slice(0, t, t + 1).cpu(ctx))) ==
              support::bits(sin.view().slice(0, t, t + 1)));
      }
    }
  }
  const auto none = tenon::empty<float>(ctx, {0, 8});
  CHECK_NOTHROW(tenon::rope_table(ctx, none, none, tenon::empty<std::int64_t>(ctx, {0}), 1e4));
  // More tokens than a grid has rows.
  const auto many = tenon::empty<float>(ctx, {70000, 2});
  const auto many_sin = tenon::empty<float>(ctx, {70000, 2});
  tenon::rope_table(ctx, many, many_sin, tenon::arange<std::int64_t>(ctx, 70000), 1e4);
  const auto last = many.cpu(ctx);
  CHECK(std::abs(static_cast<double>(last(69999, 0)) - std::cos(69999.0)) < 1e-6);
  CHECK(std::abs(static_cast<double>(last(4096, 0)) - std::cos(4096.0)) < 1e-6);
}

TEMPLATE_TEST_CASE("rope on CUDA equals its definition for every size and layout", "[cuda][rope]", float, double,
                   tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(1);
  for (const Sizes<3> sizes :
       {Sizes<3>{1, 1, 2}, {0, 2, 8}, {3, 0, 8}, {2, 3, 0}, {3, 2, 32}, {5, 3, 46}, {4, 14, 64}, {2, 3, 128}}) {
    for (const Form form : support::all_forms) {
      Operand<TestType, 3> in(sizes, form);
      Operand<float, 2> cos({sizes[0], sizes[2] / 2}, form);
      Operand<float, 2> sin({sizes[0], sizes[2] / 2}, form);
      in.fill(random);
      cos.fill(random, -1, 1);
      sin.fill(random, -1, 1);
      const auto expected = tenon::reference::rope(in.view(), cos.view(), sin.view());
      INFO(support::form_name(form) << ", " << tenon::shape_string(sizes));
      const OnDevice in_device(ctx, in);
      const OnDevice cos_device(ctx, cos);
      const OnDevice sin_device(ctx, sin);
      Operand<TestType, 3> out(sizes, form == Form::broadcast ? Form::padded : form);
      const OnDevice out_device(ctx, out);
      tenon::rope(ctx, out_device.view(), in_device.view(), cos_device.view(), sin_device.view());
      out_device.read_back(out);
      CHECK(support::mismatch(out.view(), expected, bound<TestType>()) == "");
      CHECK(out.intact());
      // The same bits from aligned heads, and in place.
      const auto heads = upload(ctx, in);
      tenon::rope(ctx, heads, heads, upload(ctx, cos), upload(ctx, sin));
      CHECK(bits(ctx, heads) == support::bits(out.view()));
      if (form == Form::broadcast) continue;
      tenon::rope(ctx, in_device.view(), in_device.view(), cos_device.view(), sin_device.view());
      in_device.read_back(in);
      CHECK(support::bits(in.view()) == support::bits(out.view()));
      CHECK(in.intact());
    }
  }
}

TEMPLATE_TEST_CASE("rope on CUDA rounds cos, sin, products and sums to T", "[cuda][rope]", tenon::float16,
                   tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(2);
  const auto round = [](float x) { return static_cast<float>(TestType(x)); };
  for (const std::int64_t half : {33, 32}) {
    Operand<TestType, 3> in({7, 2, 2 * half});
    Operand<float, 2> cos({7, half});
    Operand<float, 2> sin({7, half});
    in.fill(random);
    cos.fill(random, -1, 1);
    sin.fill(random, -1, 1);
    const auto out = tenon::empty<TestType>(ctx, {7, 2, 2 * half});
    tenon::rope(ctx, out, upload(ctx, in), upload(ctx, cos), upload(ctx, sin));
    const auto result = out.cpu(ctx);
    for (std::int64_t t = 0; t < 7; ++t) {
      for (std::int64_t h = 0; h < 2; ++h) {
        for (std::int64_t i = 0; i < half; ++i) {
          const float c = round(cos.view()(t, i));
          const float s = round(sin.view()(t, i));
          const float x = in.view()(t, h, i);
          const float y = in.view()(t, h, i + half);
          REQUIRE(static_cast<float>(result(t, h, i)) == round(round(x * c) - round(y * s)));
          REQUIRE(static_cast<float>(result(t, h, i + half)) == round(round(y * c) + round(x * s)));
        }
      }
    }
  }
}

TEMPLATE_TEST_CASE("rope on CUDA with positions equals rope with their table", "[cuda][rope]", float, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(3);
  Operand<TestType, 3> in({129, 7, 64});
  in.fill(random);
  std::vector<std::int64_t> positions;
  for (std::int64_t t = 0; t < 129; ++t) positions.push_back(1000 + 3 * t);
  const auto x = upload(ctx, in);
  const auto ids = upload(ctx, positions);
  const auto cos = tenon::empty<float>(ctx, {129, 32});
  const auto sin = tenon::empty<float>(ctx, {129, 32});
  tenon::rope_table(ctx, cos, sin, ids, 1e6);
  const auto a = tenon::empty<TestType>(ctx, {129, 7, 64});
  const auto b = tenon::empty<TestType>(ctx, {129, 7, 64});
  tenon::rope(ctx, a, x, cos, sin);
  tenon::rope(ctx, b, x, ids, 1e6);
  CHECK(bits(ctx, a) == bits(ctx, b));
  // Position 0 changes nothing.
  tenon::rope(ctx, b, x, tenon::zeros<std::int64_t>(ctx, {129}), 1e6);
  CHECK(bits(ctx, b) == support::bits(in.view()));
}

TEMPLATE_TEST_CASE("rope_append on CUDA gives the bits of rope and rearrange, in every layout", "[cuda][rope]", float,
                   double, tenon::float16, tenon::bfloat16) {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  std::mt19937 random(4);
  struct Shape {
    std::int64_t tokens, heads, kv_heads, d, dv;
  };
  for (const auto& [tokens, heads, kv_heads, d, dv] : {Shape{1, 1, 1, 2, 2},
                                                       {0, 2, 1, 8, 8},
                                                       {3, 0, 0, 8, 8},
                                                       {3, 2, 1, 0, 0},
                                                       {5, 6, 2, 46, 30},
                                                       {3, 14, 2, 64, 64},
                                                       {1, 12, 2, 128, 128},
                                                       {2, 4, 1, 32, 7}}) {
    for (const Form form : support::all_forms) {
      const Form out_form = form == Form::broadcast ? Form::padded : form;
      Operand<TestType, 3> q({tokens, heads, d}, form);
      Operand<TestType, 3> k({tokens, kv_heads, d}, support::all_forms[random() % support::all_forms.size()]);
      Operand<TestType, 3> v({tokens, kv_heads, dv}, support::all_forms[random() % support::all_forms.size()]);
      Operand<float, 2> cos({tokens, d / 2}, form);
      Operand<float, 2> sin({tokens, d / 2});
      q.fill(random);
      k.fill(random);
      v.fill(random);
      cos.fill(random, -1, 1);
      sin.fill(random, -1, 1);
      INFO(support::form_name(form) << ", tokens " << tokens << ", heads " << heads << " and " << kv_heads << ", d "
                                    << d << ", dv " << dv);
      const auto c = upload(ctx, cos);
      const auto s = upload(ctx, sin);
      const auto q_in = upload(ctx, q);
      const auto k_in = upload(ctx, k);
      const auto v_in = upload(ctx, v);
      const auto q_expected = tenon::empty<TestType>(ctx, q.view().sizes());
      const auto k_expected = tenon::empty<TestType>(ctx, k.view().sizes());
      tenon::rope(ctx, q_expected, q_in, c, s);
      tenon::rope(ctx, k_expected, k_in, c, s);
      const auto q_bits = bits(ctx, q_expected);
      const auto k_bits = bits(ctx, k_expected);
      const auto v_bits = support::bits(v.view());
      {
        Operand<TestType, 3> q_out(q.view().sizes(), out_form);
        Operand<TestType, 3> k_out(k.view().sizes(), out_form);
        Operand<TestType, 3> v_out(v.view().sizes(), out_form);
        const OnDevice q_device(ctx, q_out);
        const OnDevice k_device(ctx, k_out);
        const OnDevice v_device(ctx, v_out);
        const OnDevice q_from(ctx, q);
        const OnDevice k_from(ctx, k);
        const OnDevice v_from(ctx, v);
        const OnDevice c_from(ctx, cos);
        tenon::rope_append(ctx, q_device.view(), k_device.view(), v_device.view(), q_from.view(), k_from.view(),
                           v_from.view(), c_from.view(), s);
        q_device.read_back(q_out);
        k_device.read_back(k_out);
        v_device.read_back(v_out);
        CHECK(support::bits(q_out.view()) == q_bits);
        CHECK(support::bits(k_out.view()) == k_bits);
        CHECK(support::bits(v_out.view()) == v_bits);
        CHECK(q_out.intact());
        CHECK(k_out.intact());
        CHECK(v_out.intact());
      }
      const auto k_out = tenon::empty<TestType>(ctx, k.view().sizes());
      const auto v_out = tenon::empty<TestType>(ctx, v.view().sizes());
      tenon::rope_append(ctx, q_in, k_out, v_out, q_in, k_in, v_in, c, s);  // q in place
      CHECK(bits(ctx, q_in) == q_bits);
      CHECK(bits(ctx, k_out) == k_bits);
      CHECK(bits(ctx, v_out) == v_bits);
    }
  }
}

TEST_CASE("rope_append on CUDA from one joined projection into a cache", "[cuda][rope]") {
  TENON_NEEDS_CUDA();
  using T = tenon::bfloat16;
  Context<Cuda> ctx;
  std::mt19937 random(5);
  const std::int64_t heads = 6;
  const std::int64_t kv_heads = 2;
  const std::int64_t d = 64;
  for (const std::int64_t tokens : {1, 9}) {
    Operand<T, 2> joined({tokens, (heads + 2 * kv_heads) * d});
    joined.fill(random);
    const auto device = upload(ctx, joined);
    const auto part = [&](std::int64_t begin, std::int64_t count) {
      return device.slice(1, begin * d, (begin + count) * d).view({tokens, count, d});
    };
    const auto q = part(0, heads);
    const auto k = part(heads, kv_heads);
    const auto v = part(heads + kv_heads, kv_heads);
    const auto keys = tenon::full<T>(ctx, {32, kv_heads, d}, 7);
    const auto values = tenon::full<T>(ctx, {32, kv_heads, d}, 7);
    const auto cos = tenon::empty<float>(ctx, {tokens, d / 2});
    const auto sin = tenon::empty<float>(ctx, {tokens, d / 2});
    tenon::rope_table(ctx, cos, sin, tenon::arange<std::int64_t>(ctx, 11 + tokens).slice(0, 11, 11 + tokens), 1e4);
    const auto q_expected = tenon::empty<T>(ctx, {tokens, heads, d});
    const auto k_expected = tenon::empty<T>(ctx, {tokens, kv_heads, d});
    const auto v_expected = tenon::empty<T>(ctx, {tokens, kv_heads, d});
    tenon::rope(ctx, q_expected, q, cos, sin);
    tenon::rope(ctx, k_expected, k, cos, sin);
    tenon::rearrange(ctx, v_expected, v);
    tenon::rope_append(ctx, q, keys.slice(0, 11, 11 + tokens), values.slice(0, 11, 11 + tokens), q, k, v, cos, sin);
    INFO("tokens " << tokens);
    CHECK(bits(ctx, q.contiguous(ctx)) == bits(ctx, q_expected));
    CHECK(bits(ctx, keys.slice(0, 11, 11 + tokens)) == bits(ctx, k_expected));
    CHECK(bits(ctx, values.slice(0, 11, 11 + tokens)) == bits(ctx, v_expected));
    for (const auto* cache : {&keys, &values}) {
      for (const auto& rest : {cache->slice(0, 0, 11), cache->slice(0, 11 + tokens, 32)}) {
        for (const double x : tenon::reference::elements(View<T, 3>(rest.cpu(ctx)))) REQUIRE(x == 7.0);
      }
    }
  }
}

TEST_CASE("G10: rope and rope_append on CUDA with tokens more than 2^31 elements apart", "[cuda][rope]") {
  TENON_NEEDS_CUDA();
  using T = tenon::bfloat16;
  Context<Cuda> ctx;
  constexpr std::int64_t gap = (std::int64_t{1} << 31) + 64;
  if (tenon::Runtime<Cuda>::free_memory() < (std::size_t{8} << 30)) SKIP("this needs 8 GiB of device memory");
  const auto memory = tenon::allocate_storage(ctx, static_cast<std::size_t>(gap + 128) * 2);
  for (const std::int64_t d : {64, 46}) {
    const View<T, 3, Cuda> far(reinterpret_cast<T*>(memory.data()), tenon::Layout<3>({2, 2, d}, {gap, d, 1}));
    Operand<T, 3> in({2, 2, d});
    std::mt19937 random(6);
    in.fill(random);
    const auto x = upload(ctx, in);
    const auto ids = upload(ctx, {3, 400});
    const auto cos = tenon::empty<float>(ctx, {2, d / 2});
    const auto sin = tenon::empty<float>(ctx, {2, d / 2});
    tenon::rope_table(ctx, cos, sin, ids, 1e4);
    const auto expected = tenon::empty<T>(ctx, {2, 2, d});
    tenon::rope(ctx, expected, x, cos, sin);
    const auto out = tenon::empty<T>(ctx, {2, 2, d});
    tenon::rearrange(ctx, far, x);
    tenon::rope(ctx, far, far, cos, sin);
    tenon::rearrange(ctx, out, far);
    INFO("d " << d);
    CHECK(bits(ctx, out) == bits(ctx, expected));
    const auto k_out = tenon::empty<T>(ctx, {2, 2, d});
    tenon::rope_append(ctx, out, k_out, far, x, x, x, cos, sin);
    CHECK(bits(ctx, out) == bits(ctx, expected));
    CHECK(bits(ctx, k_out) == bits(ctx, expected));
    tenon::rearrange(ctx, out, far);
    CHECK(bits(ctx, out) == bits(ctx, x));
  }
}

TEST_CASE("rope and its kin on CUDA refuse what they refuse on the CPU, in the same words", "[cuda][rope]") {
  TENON_NEEDS_CUDA();
  Context<Cuda> ctx;
  Context<Cpu> host(1);
  const auto check = [&](auto&& call) {
    const std::string on_cpu = message_of([&] { call(host); });
    CHECK(on_cpu != "nothing was thrown");
    CHECK(message_of([&] { call(ctx); }) == on_cpu);
  };
  const auto rotate = [](auto& c, const Sizes<3>& out, const Sizes<3>& in, const Sizes<2>& cos, const Sizes<2>& sin) {
    tenon::rope(c, tenon::zeros<float>(c, out), tenon::zeros<float>(c, in), tenon::zeros<float>(c, cos),
                tenon::zeros<float>(c, sin));
  };
  check([&](auto& c) { rotate(c, {2, 1, 7}, {2, 1, 7}, {2, 3}, {2, 3}); });
  check([&](auto& c) { rotate(c, {2, 1, 8}, {2, 1, 8}, {2, 3}, {2, 4}); });
  check([&](auto& c) { rotate(c, {2, 1, 8}, {2, 1, 8}, {2, 4}, {2, 3}); });
  check([&](auto& c) { rotate(c, {2, 1, 8}, {2, 2, 8}, {2, 4}, {2, 4}); });
  const auto by_position = [](auto& c, std::int64_t positions, double theta) {
    const auto x = tenon::zeros<float>(c, {2, 1, 8});
    tenon::rope(c, x, x, tenon::zeros<std::int64_t>(c, {positions}), theta);
  };
  check([&](auto& c) { by_position(c, 3, 1e4); });
  for (const double theta : {0.0, -1.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    check([&](auto& c) { by_position(c, 2, theta); });
  }
  check([](auto& c) {
    tenon::rope_table(c, tenon::zeros<float>(c, {3, 4}), tenon::zeros<float>(c, {3, 4}),
                      tenon::zeros<std::int64_t>(c, {2}), 1e4);
  });
  check([](auto& c) {
    tenon::rope_table(c, tenon::zeros<float>(c, {3, 4}), tenon::zeros<float>(c, {3, 1}).expand({3, 4}),
                      tenon::zeros<std::int64_t>(c, {3}), 1e4);
  });
  const auto append = [](auto& c, const Sizes<3>& k_out, const Sizes<3>& v_out, const Sizes<3>& k, const Sizes<3>& v,
                         bool shared) {
    const auto q = tenon::zeros<float>(c, {2, 4, 8});
    const auto table = tenon::zeros<float>(c, {2, 4});
    auto to = tenon::zeros<float>(c, v_out);
    if (shared) to = tenon::zeros<float>(c, {1, v_out[1], v_out[2]}).expand(v_out);
    tenon::rope_append(c, q, tenon::zeros<float>(c, k_out), to, q, tenon::zeros<float>(c, k), tenon::zeros<float>(c, v),
                       table, table);
  };
  const Sizes<3> right{2, 2, 8};
  const Sizes<3> wrong{3, 2, 8};
  check([&](auto& c) { append(c, wrong, right, right, right, false); });
  check([&](auto& c) { append(c, right, wrong, right, right, false); });
  check([&](auto& c) { append(c, right, right, wrong, right, false); });
  check([&](auto& c) { append(c, right, right, right, wrong, false); });
  check([&](auto& c) { append(c, right, right, right, right, true); });
}
