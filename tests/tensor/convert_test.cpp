// Conversion of elements at the edges of their types.
#include <cmath>
#include <cstdint>
#include <limits>

#include <catch2/catch_test_macros.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/create.hpp>

using tenon::detail::convert;

TEST_CASE("floats outside of an integer type become its limits, and NaN becomes zero", "[tensor]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(convert<std::int32_t>(infinity) == std::numeric_limits<std::int32_t>::max());
  CHECK(convert<std::int32_t>(-infinity) == std::numeric_limits<std::int32_t>::min());
  CHECK(convert<std::int32_t>(std::nanf("")) == 0);
  CHECK(convert<std::int32_t>(2147483648.0f) == 2147483647);
  CHECK(convert<std::int32_t>(2147483646.7) == 2147483646);
  CHECK(convert<std::int32_t>(-2147483649.0) == std::numeric_limits<std::int32_t>::min());
  CHECK(convert<std::int64_t>(9223372036854775808.0) == std::numeric_limits<std::int64_t>::max());
  CHECK(convert<std::int64_t>(-9223372036854775808.0) == std::numeric_limits<std::int64_t>::min());
  CHECK(convert<std::uint8_t>(-1.0f) == 0);
  CHECK(convert<std::uint8_t>(255.9f) == 255);
  CHECK(convert<std::uint8_t>(256.0f) == 255);
  CHECK(convert<std::int8_t>(-128.9f) == -128);
  CHECK(convert<std::int8_t>(127.9f) == 127);
  CHECK(convert<std::int8_t>(tenon::float16(-300.0f)) == -128);
  CHECK(convert<std::int16_t>(-1.9f) == -1);
}

TEST_CASE("conversion at run time equals conversion at compile time for every pair of dtypes", "[tensor]") {
  tenon::Context<tenon::Cpu> ctx(1);
  const auto base = tenon::from_list<double>(ctx, {2, 5}, {0, 1, -2, 3.75, 100, 1e6, -0.25, 65504, 17, -129});
  for (int from = 0; from <= static_cast<int>(tenon::DType::boolean); ++from) {
    for (int to = 0; to <= static_cast<int>(tenon::DType::boolean); ++to) {
      CAPTURE(from, to);
      const auto source = tenon::AnyTensor(base).cast(ctx, static_cast<tenon::DType>(from)).permute({1, 0});
      const auto result = source.cast(ctx, static_cast<tenon::DType>(to));
      tenon::visit_dtype(source.dtype(), [&]<class From>(std::type_identity<From>) {
        tenon::visit_dtype(result.dtype(), [&]<class To>(std::type_identity<To>) {
          const auto in = source.as<From, 2>();
          const auto out = result.as<To, 2>();
          for (std::int64_t i = 0; i < 5; ++i) {
            for (std::int64_t j = 0; j < 2; ++j) {
              const double got = static_cast<double>(out(i, j));
              const double expected = static_cast<double>(convert<To>(in(i, j)));
              CHECK((got == expected || (std::isnan(got) && std::isnan(expected))));
            }
          }
        });
      });
    }
  }
}
