// Which weight types go with which computation types.
#pragma once

#include <concepts>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>

TENON_NAMESPACE_BEGIN

/// Weights of type W may be used in computations in T without a copy: the same type, or one that widens to T exactly.
template <class W, class T>
concept WeightFor = std::same_as<std::remove_const_t<W>, T> ||
    (std::same_as<T, float> &&
     (std::same_as<std::remove_const_t<W>, float16> || std::same_as<std::remove_const_t<W>, bfloat16>));

TENON_NAMESPACE_END
