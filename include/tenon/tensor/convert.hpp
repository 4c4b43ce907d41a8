// Conversion of elements between dtypes: one value, and runs of values whose dtypes are known at run time only.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Float to integer: towards zero, out of range to the nearest limit, NaN to 0.
template <std::integral To, std::floating_point From>
constexpr To saturate(From value) noexcept {
  constexpr From lowest = static_cast<From>(std::numeric_limits<To>::min());  // a power of two: exact
  constexpr From beyond = -lowest == 0 ? static_cast<From>(std::numeric_limits<To>::max()) + 1 : -lowest;
  if (value != value) return 0;
  if (value < lowest) return std::numeric_limits<To>::min();
  return value >= beyond ? std::numeric_limits<To>::max() : static_cast<To>(value);
}

/// Element conversion: narrowing floats round to nearest even, floats become integers as `saturate` says, bool is
/// "not zero", and between integers static_cast.
template <class To, class From>
constexpr To convert(From value) noexcept {
  if constexpr (std::same_as<To, From>) {
    return value;
  } else if constexpr (std::same_as<To, bool>) {
    return static_cast<double>(value) != 0.0;
  } else if constexpr (std::is_class_v<To> && (std::is_same_v<From, float> || std::is_class_v<From>)) {
    return To(static_cast<float>(value));
  } else if constexpr (std::is_class_v<To>) {
    return To(static_cast<double>(value));  // rounds once, where float would round before
  } else if constexpr (std::is_class_v<From>) {
    return convert<To>(static_cast<float>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return saturate<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class To, class From>
void convert_run(void* to, const void* from, std::int64_t from_stride, std::int64_t count) {
  auto* out = static_cast<To*>(to);
  const auto* in = static_cast<const From*>(from);
  if (from_stride == 1) {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i]);
  } else {
    for (std::int64_t i = 0; i < count; ++i) out[i] = convert<To>(in[i * from_stride]);
  }
}

constexpr bool is_integral(DType dtype) {
  return visit_dtype(dtype, []<class T>(std::type_identity<T>) { return std::is_integral_v<T>; });
}

/// Converts `count` elements of dtype `from_dtype`, `from_stride` elements apart, to `to`, which has no gaps.
///
/// Eleven dtypes make 121 pairs. Those that loading needs go directly; every other goes through a buffer of a type that
/// holds all values of the source exactly: double for floating-point types, int64 for integers.
inline void convert_run(DType to_dtype, std::byte* to, DType from_dtype, const std::byte* from,
                        std::int64_t from_stride, std::int64_t count) {
  if (to_dtype == from_dtype) {
    const std::size_t size = dtype_size(to_dtype);
    if (from_stride == 1) {
      if (count > 0) std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    } else {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + static_cast<std::size_t>(i) * size, from + i * from_stride * static_cast<std::int64_t>(size),
                    size);
      }
    }
    return;
  }
  const auto is = [&](DType a, DType b) { return from_dtype == a && to_dtype == b; };
  if (is(DType::bfloat16, DType::float32)) return convert_run<float, bfloat16>(to, from, from_stride, count);
  if (is(DType::float16, DType::float32)) return convert_run<float, float16>(to, from, from_stride, count);
  if (is(DType::float32, DType::bfloat16)) return convert_run<bfloat16, float>(to, from, from_stride, count);
  if (is(DType::float32, DType::float16)) return convert_run<float16, float>(to, from, from_stride, count);
  if (is(DType::bfloat16, DType::float16)) return convert_run<float16, bfloat16>(to, from, from_stride, count);
  if (is(DType::float16, DType::bfloat16)) return convert_run<bfloat16, float16>(to, from, from_stride, count);

  constexpr std::int64_t buffer_size = 256;
  const auto through = [&]<class Wide>(std::array<Wide, buffer_size> buffer) {
    for (std::int64_t done = 0; done < count; done += buffer_size) {
      const std::int64_t part = std::min(buffer_size, count - done);
      visit_dtype(from_dtype, [&]<class From>(std::type_identity<From>) {
        if constexpr (std::is_integral_v<From> == std::is_integral_v<Wide>) {
          convert_run<Wide, From>(buffer.data(), reinterpret_cast<const From*>(from) + done * from_stride, from_stride,
                                  part);
        }
      });
      visit_dtype(to_dtype, [&]<class To>(std::type_identity<To>) {
        convert_run<To, Wide>(reinterpret_cast<To*>(to) + done, buffer.data(), 1, part);
      });
    }
  };
  if (is_integral(from_dtype)) {
    through(std::array<std::int64_t, buffer_size>{});
  } else {
    through(std::array<double, buffer_size>{});
  }
}

}  // namespace detail
TENON_NAMESPACE_END
