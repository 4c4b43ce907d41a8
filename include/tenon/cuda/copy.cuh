// copy and fill on CUDA: what copy.hpp declares. Equal dtypes move as they are; float, float16 and bfloat16 convert
// directly; every other pair goes, element by element, through a type that holds the source exactly, as on the CPU.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/copy.hpp>
#include <tenon/cuda/elementwise.cuh>
#include <tenon/cuda/rearrange.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Between floating-point types of at most 32 bits, which float holds exactly.
template <class To>
struct ConvertOp {
  template <class From>
  __device__ __forceinline__ To operator()(From value) const {
    return narrow<To>(widen(value));
  }
};

template <class K>
struct FillOp {
  K value;
  __device__ __forceinline__ K operator()() const { return value; }
};

/// The limits of an integer, as constants that kernels may use.
template <class To>
struct IntegerRange {
  static constexpr To lowest = std::numeric_limits<To>::min();
  static constexpr To highest = std::numeric_limits<To>::max();
  /// The first double above, a power of two.
  static constexpr double beyond = lowest < 0 ? -static_cast<double>(lowest) : static_cast<double>(highest) + 1.0;
};

/// `convert` of tensor/convert.hpp from double or int64.
template <class To, class Wide>
__device__ __forceinline__ To convert_wide(Wide value) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<double>(value) != 0.0;
  } else if constexpr (std::is_class_v<To>) {
    return To(static_cast<double>(value));
  } else if constexpr (std::is_integral_v<To> && std::is_same_v<Wide, double>) {
    using Range = IntegerRange<To>;
    if (value != value) return To(0);
    if (value < static_cast<double>(Range::lowest)) return Range::lowest;
    return value >= Range::beyond ? Range::highest : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <class T, class Wide>
__device__ __forceinline__ void store_wide(void* to, std::int64_t at, Wide value) {
  static_cast<T*>(to)[at] = convert_wide<T>(value);
}
template <class Wide>
__device__ __forceinline__ void store_wide(void* to, DType dtype, std::int64_t at, Wide value) {
  switch (dtype) {
    case DType::float32: return store_wide<float>(to, at, value);
    case DType::float64: return store_wide<double>(to, at, value);
    case DType::float16: return store_wide<float16>(to, at, value);
    case DType::bfloat16: return store_wide<bfloat16>(to, at, value);
    case DType::float8_e4m3: return store_wide<float8_e4m3>(to, at, value);
    case DType::int8: return store_wide<std::int8_t>(to, at, value);
    case DType::int16: return store_wide<std::int16_t>(to, at, value);
    case DType::int32: return store_wide<std::int32_t>(to, at, value);
    case DType::int64: return store_wide<std::int64_t>(to, at, value);
    case DType::uint8: return store_wide<std::uint8_t>(to, at, value);
    case DType::boolean: return store_wide<bool>(to, at, value);
  }
}

template <class T>
__device__ __forceinline__ T element(const void* from, std::int64_t at) {
  return static_cast<const T*>(from)[at];
}
__device__ __forceinline__ double load_floating(const void* from, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::float64: return element<double>(from, at);
    case DType::float16: return static_cast<float>(element<float16>(from, at));
    case DType::bfloat16: return static_cast<float>(element<bfloat16>(from, at));
    case DType::float8_e4m3: return static_cast<float>(element<float8_e4m3>(from, at));
    default: return element<float>(from, at);
  }
}
__device__ __forceinline__ std::int64_t load_integral(const void* from, DType dtype, std::int64_t at) {
  switch (dtype) {
    case DType::int8: return element<std::int8_t>(from, at);
    case DType::int16: return element<std::int16_t>(from, at);
    case DType::int32: return element<std::int32_t>(from, at);
    case DType::uint8: return element<std::uint8_t>(from, at);
    case DType::boolean: return element<bool>(from, at) ? 1 : 0;
    default: return element<std::int64_t>(from, at);
  }
}

/// Any dtype to any other.
template <class = void>
__global__ void __launch_bounds__(map_threads)
    convert_kernel(const __grid_constant__ Walk<2> walk, std::int64_t count, void* to, DType to_dtype, const void* from,
                   DType from_dtype, bool from_integral) {
  wait_for_previous();
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * map_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * map_threads + threadIdx.x; i < count; i += step) {
    const Offsets<2> at = locate(walk, i);
    if (from_integral) {
      store_wide(to, to_dtype, at.of[0], load_integral(from, from_dtype, at.of[1]));
    } else {
      store_wide(to, to_dtype, at.of[0], load_floating(from, from_dtype, at.of[1]));
    }
  }
}

template <class To, class From>
void convert_elements(Context<Cuda>& ctx, const StridedView& to, const ConstStridedView& from) {
  map_elements(ctx, "copy", ConvertOp<kernel_t<To>>{}, {to.layout, from.layout}, static_cast<kernel_t<To>*>(to.data),
               static_cast<const kernel_t<From>*>(from.data));
}

template <std::same_as<Cuda> Device>
void copy_strided(Context<Device>& ctx, const StridedView& to, const ConstStridedView& from) {
  if (to.dtype == from.dtype) {
    return move_elements(ctx, "copy", to.data, to.layout, from.data, from.layout, dtype_size(to.dtype));
  }
  for (int i = 0; i < to.layout.rank; ++i) {
    if (to.layout.sizes[i] == 0) return;
  }
  const auto is = [&](DType a, DType b) { return from.dtype == a && to.dtype == b; };
  if (is(DType::bfloat16, DType::float32)) return convert_elements<float, bfloat16>(ctx, to, from);
  if (is(DType::float16, DType::float32)) return convert_elements<float, float16>(ctx, to, from);
  if (is(DType::float32, DType::bfloat16)) return convert_elements<bfloat16, float>(ctx, to, from);
  if (is(DType::float32, DType::float16)) return convert_elements<float16, float>(ctx, to, from);
  if (is(DType::bfloat16, DType::float16)) return convert_elements<float16, bfloat16>(ctx, to, from);
  if (is(DType::float16, DType::bfloat16)) return convert_elements<bfloat16, float16>(ctx, to, from);

  const Walk<2> walk = collapse<2>({to.layout, from.layout});
  const std::int64_t count = walk.count();
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(count, map_threads, std::int64_t{1} << 30));
  shape.block = dim3(map_threads);
  shape.dependent = true;
  launch(ctx, "copy", shape, convert_kernel<>, walk, count, to.data, to.dtype, from.data, from.dtype,
         is_integral(from.dtype));
}

template <class K>
void fill_elements(Context<Cuda>& ctx, const StridedView& to, const void* value) {
  FillOp<K> op;
  std::memcpy(&op.value, value, sizeof(K));
  map_elements(ctx, "fill", op, {to.layout}, static_cast<K*>(to.data));
}

template <std::same_as<Cuda> Device>
void fill_strided(Context<Device>& ctx, const StridedView& to, const void* value) {
  for (int i = 0; i < to.layout.rank; ++i) {
    if (to.layout.sizes[i] == 0) return;
  }
  switch (dtype_size(to.dtype)) {
    case 1: return fill_elements<std::uint8_t>(ctx, to, value);
    case 2: return fill_elements<std::uint16_t>(ctx, to, value);
    case 4: return fill_elements<std::uint32_t>(ctx, to, value);
    default: return fill_elements<std::uint64_t>(ctx, to, value);
  }
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
