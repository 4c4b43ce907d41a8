// add on CUDA.
#pragma once

#include <cstddef>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/add.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

struct AddOp {
  template <class K>
  __device__ __forceinline__ K operator()(K a, K b) const {
    return narrow<K>(widen(a) + widen(b));
  }
};

}  // namespace detail

template <FloatElement T, std::size_t Rank>
void add(Context<Cuda>& ctx, View<T, Rank, Cuda> out, std::type_identity_t<View<const T, Rank, Cuda>> a,
         std::type_identity_t<View<const T, Rank, Cuda>> b) {
  detail::check_add(out.sizes(), a.sizes(), b.sizes());
  detail::check_output("add", "out", out.layout());
  detail::check_devices(ctx, "add", out.data(), a.data(), b.data());
  if (out.empty()) return;
  detail::map_elements(ctx, "add", detail::AddOp{},
                       {detail::strided(out.layout()), detail::strided(a.layout()), detail::strided(b.layout())},
                       detail::kernel_pointer(out.data()), detail::kernel_pointer(a.data()),
                       detail::kernel_pointer(b.data()));
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
