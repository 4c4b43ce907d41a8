#include <cstdint>
#include <limits>

#include <catch2/catch_test_macros.hpp>

#include <tenon/core/math.hpp>

TEST_CASE("ceil_div and align_up do not overflow before the result does", "[math]") {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  CHECK(tenon::ceil_div<std::int64_t>(0, 3) == 0);
  CHECK(tenon::ceil_div<std::int64_t>(1, 3) == 1);
  CHECK(tenon::ceil_div<std::int64_t>(3, 3) == 1);
  CHECK(tenon::ceil_div<std::int64_t>(4, 3) == 2);
  CHECK(tenon::ceil_div(largest, std::int64_t{1}) == largest);
  CHECK(tenon::ceil_div(largest, std::int64_t{2}) == largest / 2 + 1);
  CHECK(tenon::ceil_div(std::int64_t{3}, largest) == 1);
  CHECK(tenon::align_up<std::int64_t>(0, 64) == 0);
  CHECK(tenon::align_up<std::int64_t>(1, 64) == 64);
  CHECK(tenon::align_up<std::int64_t>(64, 64) == 64);
  CHECK(tenon::align_up<std::int64_t>(65, 64) == 128);
}

TEST_CASE("checked arithmetic reports what does not fit", "[math]") {
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  constexpr auto smallest = std::numeric_limits<std::int64_t>::min();
  CHECK(tenon::checked_mul<std::int64_t>(3, -4) == -12);
  CHECK(tenon::checked_mul(largest, std::int64_t{1}) == largest);
  CHECK_FALSE(tenon::checked_mul(largest, std::int64_t{2}));
  CHECK_FALSE(tenon::checked_mul(smallest, std::int64_t{-1}));
  CHECK_FALSE(tenon::checked_mul(std::int64_t{1} << 32, std::int64_t{1} << 31));
  CHECK(tenon::checked_add(largest, std::int64_t{0}) == largest);
  CHECK_FALSE(tenon::checked_add(largest, std::int64_t{1}));
  CHECK_FALSE(tenon::checked_add(std::numeric_limits<std::size_t>::max(), std::size_t{1}));
}
