// embedding on the CPU.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/cpu/elementwise.hpp>
#include <tenon/ops/embedding.hpp>
#include <tenon/runtime/parallel.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T, WeightFor<T> W>
void embedding(Context<Cpu>& ctx, View<T, 2, Cpu> out, std::type_identity_t<View<const std::int64_t, 1, Cpu>> index,
               View<W, 2, Cpu> weight) {
  detail::check_embedding(out.sizes(), index.sizes(), weight.sizes());
  detail::check_output("embedding", "out", out.layout());
  for (std::int64_t i = 0; i < index.size(0); ++i) {
    detail::check_index("embedding", "index", i, index(i), weight.size(0));
  }
  const std::int64_t dim = weight.size(1);
  if (dim == 0) return;
  constexpr std::int64_t grain = 32768;  // elements that are worth a thread
  parallel_for(ctx, index.size(0), ceil_div(grain, dim), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::remove_const_t<W>* row = weight.ptr(index(i), 0);
      detail::convert_stretch(ctx.simd_level(), out.ptr(i, 0), out.stride(1), row, weight.stride(1), dim);
    }
  });
}

TENON_NAMESPACE_END
