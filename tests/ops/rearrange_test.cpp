#include <tenon/ops/rearrange.hpp>

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>

#include <array>
#include <cstdint>
#include <random>

#include <tenon/cpu/reference.hpp>

#include "support/compare.hpp"
#include "support/contexts.hpp"
#include "support/operand.hpp"

using support::Form;
using support::Operand;
using tenon::Sizes;

TEMPLATE_TEST_CASE("rearrange copies between any two layouts", "[ops][rearrange]", float, double, tenon::bfloat16,
                   std::int8_t, std::int64_t, bool) {
  std::mt19937 random(1);
  tenon::Context<tenon::Cpu> ctx(1);
  for (const Sizes<3> sizes :
       {Sizes<3>{1, 1, 1}, {0, 2, 3}, {2, 0, 3}, {3, 4, 0}, {2, 3, 5}, {1, 70, 67}, {3, 66, 1}}) {
    for (const Form from : support::all_forms) {
      for (const Form to : support::writable_forms) {
        Operand<TestType, 3> in(sizes, from);
        in.fill([&] { return static_cast<double>(random() % 100); });
        Operand<TestType, 3> out(sizes, to);
        tenon::rearrange(ctx, out.view(), in.view());
        INFO(support::form_name(from) << " to " << support::form_name(to));
        CHECK(support::mismatch(out.view(), tenon::reference::elements(in.view()), support::Tolerance{}) == "");
        CHECK(out.intact());
      }
    }
  }
}

TEST_CASE("rearrange makes every permutation of five dimensions contiguous", "[ops][rearrange]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 5> in({2, 17, 3, 19, 5});
  std::int64_t next = 0;
  in.fill([&] { return static_cast<double>(next++); });
  Sizes<5> order{0, 1, 2, 3, 4};
  do {
    const auto turned = in.view().permute(order);
    Operand<float, 5> out(turned.sizes());
    tenon::rearrange(ctx, out.view(), turned);
    REQUIRE(tenon::reference::elements(out.view()) == tenon::reference::elements(turned));
    Operand<float, 5> back(in.view().sizes());
    tenon::rearrange(ctx, back.view().permute(order), turned);
    REQUIRE(tenon::reference::elements(back.view()) == tenon::reference::elements(in.view()));
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("rearrange keeps bits, NaN payloads too", "[ops][rearrange]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<tenon::float16, 2> in({256, 256});
  for (std::int64_t i = 0; i < 65536; ++i)
    in.view().data()[i] = tenon::float16::from_bits(static_cast<std::uint16_t>(i));
  Operand<tenon::float16, 2> out({256, 256});
  tenon::rearrange(ctx, out.view(), in.view().transpose(0, 1));
  for (std::int64_t i = 0; i < 256; ++i) {
    for (std::int64_t j = 0; j < 256; ++j) REQUIRE(out.view()(i, j).bits() == in.view()(j, i).bits());
  }
}

TEST_CASE("rearrange of large tensors on several threads, and scalars", "[ops][rearrange]") {
  tenon::Context<tenon::Cpu> ctx(4);
  std::mt19937 random(2);
  Operand<float, 3> in({3, 257, 301});
  in.fill(random);
  for (const Sizes<3> order : {Sizes<3>{0, 2, 1}, {2, 1, 0}, {2, 0, 1}, {1, 0, 2}}) {
    const auto turned = in.view().permute(order);
    Operand<float, 3> out(turned.sizes(), Form::padded);
    tenon::rearrange(ctx, out.view(), turned);
    CHECK(tenon::reference::elements(out.view()) == tenon::reference::elements(turned));
    CHECK(out.intact());
  }
  Operand<float, 0> one({});
  Operand<float, 0> other({});
  one.fill([] { return 4.0; });
  tenon::rearrange(ctx, other.view(), one.view());
  CHECK(*other.view().data() == 4.0f);
}

TEST_CASE("rearrange names shapes that differ", "[ops][rearrange]") {
  tenon::Context<tenon::Cpu> ctx(1);
  Operand<float, 2> a({2, 3});
  Operand<float, 2> b({3, 2});
  CHECK_THROWS_MATCHES(tenon::rearrange(ctx, a.view(), b.view()), tenon::ShapeError,
                       Catch::Matchers::Message("rearrange: in has shape (3, 2), expected (2, 3) as out"));
}
