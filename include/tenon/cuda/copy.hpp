// copy and fill on CUDA: between the CPU and a device in both directions, and on one device.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/strided.hpp>
#include <tenon/tensor/convert.hpp>
#include <tenon/tensor/copy.hpp>
#include <tenon/tensor/create.hpp>
#include <tenon/tensor/tensor.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN

namespace detail {

// Defined in cuda/copy.cuh.

/// to = from, element by element with conversion as detail::convert makes it, for equal sizes and any strides. Where
/// elements change places, to and from must not overlap.
template <std::same_as<Cuda> Device>
void copy_strided(Context<Device>& ctx, const StridedView& to, const ConstStridedView& from);
/// Every element = the dtype_size(to.dtype) bytes at `value`, in CPU memory and read before the call returns.
template <std::same_as<Cuda> Device>
void fill_strided(Context<Device>& ctx, const StridedView& to, const void* value);

/// Copies bytes to or from the device; returns when `from` may be changed and what came to the CPU may be read.
inline void copy_bytes(Context<Cuda>& ctx, std::byte* to, const std::byte* from, std::size_t bytes,
                       DeviceKind to_device, DeviceKind from_device) {
  if (bytes == 0) return;
  const auto device = ctx.activate();
  const cudaMemcpyKind kind = to_device == DeviceKind::cpu     ? cudaMemcpyDeviceToHost
                              : from_device == DeviceKind::cpu ? cudaMemcpyHostToDevice
                                                               : cudaMemcpyDeviceToDevice;
  check_cuda(cudaMemcpyAsync(to, from, bytes, kind, ctx.stream()), "a copy");
  ctx.synchronize();
}

/// AnyTensor's elements to a row-major block of another dtype.
inline void copy_any(Context<Cuda>& ctx, std::byte* to, DType to_dtype, const std::byte* from, DType from_dtype,
                     const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  if (sizes.size() > max_strided_rank) {
    throw ShapeError("tensor has shape " + shape_string(sizes) + ", and operators on CUDA take at most 8 dimensions");
  }
  StridedView target{to, to_dtype, {}};
  ConstStridedView source{from, from_dtype, {}};
  target.layout.rank = source.layout.rank = static_cast<int>(sizes.size());
  std::vector<std::int64_t> row_major(sizes.size());
  row_major_strides(sizes, row_major);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    target.layout.sizes[i] = source.layout.sizes[i] = sizes[i];
    target.layout.strides[i] = row_major[i];
    source.layout.strides[i] = strides[i];
  }
  copy_strided(ctx, target, source);
}

/// The GPU that memory belongs to, or -1.
inline int device_of(const void* data) {
  cudaPointerAttributes attributes{};
  if (data == nullptr || cudaPointerGetAttributes(&attributes, data) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return -1;
  }
  return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

inline bool is_elsewhere(const Context<Cuda>& ctx, const void* data) {
  if (!ctx.has_neighbours()) return false;
  const int ordinal = device_of(data);
  return ordinal >= 0 && ordinal != ctx.ordinal();
}

/// Calls `read(there, packed)`, which fills row-major memory on the GPU of `from`, and copies it to the context's.
template <class Read>
void copy_across(Context<Cuda>& ctx, void* to, const void* from, std::size_t bytes, const Read& read) {
  Context<Cuda> there(device_of(from));
  const auto packed = allocate_storage(there, bytes);
  {
    const auto device = there.activate();
    check_cuda(cudaDeviceSynchronize(), "waiting for another device");  // whoever writes `from` has ended
  }
  read(there, packed.data());
  there.synchronize();
  const auto device = ctx.activate();
  check_cuda(cudaMemcpyPeerAsync(to, ctx.ordinal(), packed.data(), there.ordinal(), bytes, ctx.stream()),
             "a copy from another device");
  ctx.synchronize();
}

inline void copy_any_across(Context<Cuda>& ctx, std::byte* to, const std::byte* from, DType dtype,
                            const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  std::size_t bytes = dtype_size(dtype);
  for (const std::int64_t size : sizes) bytes *= static_cast<std::size_t>(size);
  copy_across(ctx, to, from, bytes, [&](Context<Cuda>& there, std::byte* packed) {
    copy_any(there, packed, dtype, from, dtype, sizes, strides);
  });
}

template <class T, std::size_t Rank, class U>
void copy_from_other_device(Context<Cuda>& ctx, const View<T, Rank, Cuda>& to, const Tensor<U, Rank, Cuda>& from) {
  if (to.empty()) return;
  const auto bytes = static_cast<std::size_t>(to.numel()) * sizeof(T);
  copy_across(ctx, to.data(), from.data(), bytes, [&](Context<Cuda>& there, std::byte* packed) {
    copy_strided(there, strided(View<T, Rank, Cuda>(reinterpret_cast<T*>(packed), from.sizes())),
                 const_strided(View<const T, Rank, Cuda>(from)));
  });
}

template <std::size_t Rank>
void check_copy(const Sizes<Rank>& dst, const Sizes<Rank>& src) {
  if (dst != src) {
    throw ShapeError("copy: dst has shape " + shape_string(dst) + ", but src has shape " + shape_string(src));
  }
}

}  // namespace detail

/// Copies `src` to `dst` on the context's device, both of one shape and any strides, converting the dtype on the way.
/// Shapes that differ throw ShapeError. The two may be the same elements, but must not overlap otherwise.
template <class T, std::size_t Rank, class U>
requires(!std::is_const_v<T>) void copy(Context<Cuda>& ctx, View<T, Rank, Cuda> dst, View<U, Rank, Cuda> src) {
  detail::check_copy(dst.sizes(), src.sizes());
  detail::check_devices(ctx, "copy", dst.data(), src.data());
  if (!dst.empty()) detail::copy_strided(ctx, detail::strided(dst), detail::const_strided(src));
}

/// The same from the CPU to the device. `src` may be changed when this returns.
template <class T, std::size_t Rank, class U>
requires(!std::is_const_v<T>) void copy(Context<Cuda>& ctx, View<T, Rank, Cuda> dst, View<U, Rank, Cpu> src) {
  using From = std::remove_cv_t<U>;
  detail::check_copy(dst.sizes(), src.sizes());
  if (dst.empty()) return;
  if constexpr (std::same_as<T, From>) {
    if (dst.is_contiguous() && src.is_contiguous()) {
      const auto device = ctx.activate();
      const auto bytes = static_cast<std::size_t>(src.numel()) * sizeof(T);
      detail::check_cuda(cudaMemcpyAsync(dst.data(), src.data(), bytes, cudaMemcpyHostToDevice, ctx.stream()),
                         "a copy to the device");
      ctx.synchronize();  // whether the call itself has read the source depends on the kind of memory
      return;
    }
  }
  Context<Cpu> host(1);
  const auto packed = detail::allocate_host_tensor<T>(src.sizes());
  copy(host, View<T, Rank, Cpu>(packed), src);
  if (dst.is_contiguous()) {
    copy(ctx, dst, View<const T, Rank, Cpu>(packed));
  } else {
    const auto staged = detail::allocate_tensor<T>(ctx, src.sizes());
    copy(ctx, View<T, Rank, Cuda>(staged), View<const T, Rank, Cpu>(packed));
    copy(ctx, dst, View<const T, Rank, Cuda>(staged));
  }
}

/// The same from the device to the CPU. Waits for the context: the elements are there when this returns.
template <class T, std::size_t Rank, class U>
requires(!std::is_const_v<T>) void copy(Context<Cuda>& ctx, View<T, Rank, Cpu> dst, View<U, Rank, Cuda> src) {
  using From = std::remove_cv_t<U>;
  detail::check_copy(dst.sizes(), src.sizes());
  if (dst.empty()) return;
  if (!src.is_contiguous()) {
    const auto staged = detail::allocate_tensor<From>(ctx, src.sizes());
    copy(ctx, View<From, Rank, Cuda>(staged), View<const From, Rank, Cuda>(src));
    copy(ctx, dst, View<const From, Rank, Cuda>(staged));
    return;
  }
  if constexpr (std::same_as<T, From>) {
    if (dst.is_contiguous()) {
      const auto device = ctx.activate();
      const auto bytes = static_cast<std::size_t>(src.numel()) * sizeof(T);
      detail::check_cuda(cudaMemcpyAsync(dst.data(), src.data(), bytes, cudaMemcpyDeviceToHost, ctx.stream()),
                         "a copy from the device");
      ctx.synchronize();
      return;
    }
  }
  Context<Cpu> host(1);
  const auto packed = detail::allocate_host_tensor<From>(src.sizes());
  copy(ctx, View<From, Rank, Cpu>(packed), View<const From, Rank, Cuda>(src));
  copy(host, dst, View<const From, Rank, Cpu>(packed));
}

/// Sets every element of a view on the device, whatever its strides; `value` as for the CPU.
template <Element T, std::size_t Rank>
void fill(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<detail::FillValue<T>> value) {
  const T element = detail::convert<T>(value);
  if (!out.empty()) detail::fill_strided(ctx, detail::strided(out), &element);
}

/// 0, 1, … count - 1.
template <Element T>
[[nodiscard]] Tensor<T, 1, Cuda> arange(Context<Cuda>& ctx, std::int64_t count) {
  Context<Cpu> host(1);
  return arange<T>(host, count).to(ctx);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
