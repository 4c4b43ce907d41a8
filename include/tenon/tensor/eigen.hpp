// as_eigen: a tensor as an Eigen expression, without a copy.
#pragma once

#include <string>
#include <type_traits>

#include <Eigen/Core>

#include <tenon/core/config.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
template <class T, class Matrix>
using EigenBase = std::conditional_t<std::is_const_v<T>, const Matrix, Matrix>;

template <std::size_t Rank>
void check_eigen_strides(const Sizes<Rank>& sizes, const Sizes<Rank>& strides) {
  for (std::size_t i = 0; i < Rank; ++i) {
    if (strides[i] < 0 && sizes[i] > 1) {
      throw ShapeError("as_eigen: strides " + shape_string(strides) + " are negative, which Eigen::Map does not take");
    }
  }
}
}  // namespace detail

template <class T>
using EigenMatrixMap = Eigen::Map<
    detail::EigenBase<T, Eigen::Matrix<std::remove_cv_t<T>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>>,
    Eigen::Unaligned, Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>>;
template <class T>
using EigenVectorMap = Eigen::Map<detail::EigenBase<T, Eigen::Matrix<std::remove_cv_t<T>, Eigen::Dynamic, 1>>,
                                  Eigen::Unaligned, Eigen::InnerStride<Eigen::Dynamic>>;

/// A matrix map on the elements of the view, rows and columns as in the tensor; it must not outlive them. For Eigen's
/// own scalar types (float, double, integers). Throws ShapeError for negative strides.
template <class T>
requires std::is_arithmetic_v<T>
[[nodiscard]] EigenMatrixMap<T> as_eigen(const View<T, 2, Cpu>& view) {
  detail::check_eigen_strides(view.sizes(), view.strides());
  return {view.data(), view.size(0), view.size(1),
          Eigen::Stride<Eigen::Dynamic, Eigen::Dynamic>(view.stride(0), view.stride(1))};
}
/// The same for a column vector.
template <class T>
requires std::is_arithmetic_v<T>
[[nodiscard]] EigenVectorMap<T> as_eigen(const View<T, 1, Cpu>& view) {
  detail::check_eigen_strides(view.sizes(), view.strides());
  return {view.data(), view.size(0), Eigen::InnerStride<Eigen::Dynamic>(view.stride(0))};
}

TENON_NAMESPACE_END
