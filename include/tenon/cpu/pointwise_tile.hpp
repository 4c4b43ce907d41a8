// A tile of a point-wise program: what pointwise runs over its operands and matmul over its results.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/cpu/pointwise_chain.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/pointwise_program.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Elements of a tile at most: the tiles of a whole stack stay in the first-level cache.
inline constexpr std::int64_t pointwise_tile_size = 512;
/// Elements of scratch memory that a tile needs: for copies of all operands, or a stack, and for a result.
inline constexpr std::int64_t pointwise_result = pointwise_tile_size * PointwiseProgram::max_operands;
inline constexpr std::int64_t pointwise_scratch = pointwise_result + pointwise_tile_size;

enum class PointwiseForm : std::uint8_t {
  contiguous,  ///< all elements of the tile follow each other
  scalar,      ///< all are one element
  strided,
};

/// Where an operand of a tile lies: rows `row` apart, whose elements are `step` apart.
template <class T>
struct PointwiseSource {
  const T* data = nullptr;
  std::int64_t row = 0;
  std::int64_t step = 1;
  PointwiseForm form = PointwiseForm::contiguous;

  PointwiseSource() = default;
  PointwiseSource(const T* first, std::int64_t row_stride, std::int64_t column_stride, std::int64_t rows,
                  std::int64_t columns)
      : data(first), row(row_stride), step(column_stride) {
    if ((step == 1 || columns == 1) && (rows == 1 || row == columns)) {
      form = PointwiseForm::contiguous;
    } else if ((step == 0 || columns == 1) && (rows == 1 || row == 0)) {
      form = PointwiseForm::scalar;
    } else {
      form = PointwiseForm::strided;
    }
  }
};

/// Types that SIMD kernels of point-wise steps hold as vectors of float.
template <class T>
inline constexpr bool has_float_vectors =
    std::same_as<T, float> || std::same_as<T, float16> || std::same_as<T, bfloat16>;

/// One step on double or int64. Sums and products of integers wrap.
template <PointwiseCode Code, class T>
T pointwise_plain(T a, T b) {
  if constexpr (Code == PointwiseCode::relu) {
    return T{0} > a ? T{0} : a;
  } else if constexpr (std::same_as<T, std::int64_t>) {
    const auto x = static_cast<std::uint64_t>(a);
    const auto y = static_cast<std::uint64_t>(b);
    return static_cast<std::int64_t>(Code == PointwiseCode::sum ? x + y : x * y);
  } else if constexpr (Code == PointwiseCode::silu) {
    return a / (1.0 + std::exp(-a));
  } else {
    return Code == PointwiseCode::sum ? a + b : a * b;
  }
}

}  // namespace detail
TENON_NAMESPACE_END

#define TENON_SIMD_BODY <tenon/cpu/pointwise_chain_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>
#define TENON_SIMD_BODY <tenon/cpu/pointwise_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// visit_simd_level for kernels that are plain C++ where T has no vectors of float.
template <class T, class Visitor>
void visit_pointwise_level(SimdLevel level, Visitor&& visitor) {
  if constexpr (has_float_vectors<T>) {
    visit_simd_level(level, visitor);
  } else {
    visitor(simd_portable::Level{});
  }
}

}  // namespace detail
TENON_NAMESPACE_END
