// Element types: the run-time enum, its mapping to C++ types, and the visitor that goes back.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/float16.hpp>

TENON_NAMESPACE_BEGIN

/// Element types of tensors, with PyTorch's names.
enum class DType : std::uint8_t {
  float32,
  float64,
  float16,
  bfloat16,
  float8_e4m3,
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean
};

namespace detail {
template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<float16> {
  static constexpr DType value = DType::float16;
};
template <>
struct DTypeOf<bfloat16> {
  static constexpr DType value = DType::bfloat16;
};
template <>
struct DTypeOf<float8_e4m3> {
  static constexpr DType value = DType::float8_e4m3;
};
template <>
struct DTypeOf<std::int8_t> {
  static constexpr DType value = DType::int8;
};
template <>
struct DTypeOf<std::int16_t> {
  static constexpr DType value = DType::int16;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};
template <>
struct DTypeOf<std::int64_t> {
  static constexpr DType value = DType::int64;
};
template <>
struct DTypeOf<std::uint8_t> {
  static constexpr DType value = DType::uint8;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::boolean;
};
}  // namespace detail

/// The DType of a C++ element type, const or not.
template <class T>
inline constexpr DType dtype_of = detail::DTypeOf<std::remove_cv_t<T>>::value;

/// Types that a tensor may hold.
template <class T>
concept Element = requires {
  detail::DTypeOf<std::remove_cv_t<T>>::value;
};

/// Types that operators compute with.
template <class T>
concept FloatElement =
    std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, float16> || std::same_as<T, bfloat16>;

/// The type that operators accumulate in: double for double, float for everything else.
template <class T>
using accumulator_t = std::conditional_t<std::same_as<std::remove_cv_t<T>, double>, double, float>;

/// Calls `visitor(std::type_identity<T>{})` with the C++ type of `dtype` and returns what it returns.
template <class Visitor>
constexpr decltype(auto) visit_dtype(DType dtype, Visitor&& visitor) {
  switch (dtype) {
    case DType::float32: return visitor(std::type_identity<float>{});
    case DType::float64: return visitor(std::type_identity<double>{});
    case DType::float16: return visitor(std::type_identity<float16>{});
    case DType::bfloat16: return visitor(std::type_identity<bfloat16>{});
    case DType::float8_e4m3: return visitor(std::type_identity<float8_e4m3>{});
    case DType::int8: return visitor(std::type_identity<std::int8_t>{});
    case DType::int16: return visitor(std::type_identity<std::int16_t>{});
    case DType::int32: return visitor(std::type_identity<std::int32_t>{});
    case DType::int64: return visitor(std::type_identity<std::int64_t>{});
    case DType::uint8: return visitor(std::type_identity<std::uint8_t>{});
    case DType::boolean: return visitor(std::type_identity<bool>{});
  }
  throw DTypeError("dtype " + std::to_string(static_cast<int>(dtype)) + " is not one that tenon knows");
}

/// Bytes of one element.
constexpr std::size_t dtype_size(DType dtype) {
  return visit_dtype(dtype, []<class T>(std::type_identity<T>) { return sizeof(T); });
}

/// "float32", "bfloat16", "bool", … as PyTorch spells them (but "float8_e4m3" for its float8_e4m3fn).
constexpr std::string_view dtype_name(DType dtype) noexcept {
  constexpr std::array<std::string_view, 11> names{"float32", "float64", "float16", "bfloat16", "float8_e4m3", "int8",
                                                   "int16",   "int32",   "int64",   "uint8",    "bool"};
  const auto i = static_cast<std::size_t>(dtype);
  return i < names.size() ? names[i] : std::string_view{"unknown"};
}

TENON_NAMESPACE_END
