// Layouts whose rank is known at run time only, for kernels that take any: one kernel serves every rank.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/tensor/layout.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Most dimensions that operators on CUDA take.
inline constexpr std::size_t max_strided_rank = 8;

/// Sizes and strides in elements, of which the first `rank` count. Trivially copyable; kernels take it by value.
struct StridedLayout {
  int rank = 0;
  std::int64_t sizes[max_strided_rank] = {};
  std::int64_t strides[max_strided_rank] = {};
};

template <std::size_t Rank>
StridedLayout strided(const Layout<Rank>& layout) {
  static_assert(Rank <= max_strided_rank, "operators on CUDA take at most 8 dimensions");
  StridedLayout result;
  result.rank = static_cast<int>(Rank);
  for (std::size_t i = 0; i < Rank; ++i) {
    result.sizes[i] = layout.sizes()[i];
    result.strides[i] = layout.strides()[i];
  }
  return result;
}

/// A view with its dtype and rank as values.
struct StridedView {
  void* data = nullptr;
  DType dtype = DType::float32;
  StridedLayout layout;
};
struct ConstStridedView {
  const void* data = nullptr;
  DType dtype = DType::float32;
  StridedLayout layout;
};

template <class T, std::size_t Rank>
StridedView strided(const View<T, Rank, Cuda>& view) {
  return {view.data(), dtype_of<T>, strided(view.layout())};
}
template <class T, std::size_t Rank>
ConstStridedView const_strided(const View<T, Rank, Cuda>& view) {
  return {view.data(), dtype_of<T>, strided(view.layout())};
}

}  // namespace detail
TENON_NAMESPACE_END
