// replace_slice on the CPU: the place is checked, then rows are copied as rearrange copies them.
#pragma once

#include <cstdint>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/cpu/rearrange.hpp>
#include <tenon/ops/replace_slice.hpp>

TENON_NAMESPACE_BEGIN

template <PointwiseElement T>
void replace_slice(Context<Cpu>& ctx, View<T, 4, Cpu> x, std::type_identity_t<View<const T, 4, Cpu>> rows,
                   View<const std::int64_t, 1, Cpu> begin, View<const std::int64_t, 1, Cpu> end) {
  detail::check_replace_slice(x.sizes(), rows.sizes(), begin.sizes(), end.sizes());
  detail::check_output("replace_slice", "x", x.layout());
  const std::int64_t first = begin(0);
  detail::check_replace_slice_place(first, end(0), rows.size(0), x.size(0));
  if (rows.empty()) return;
  rearrange<T, 4>(ctx, {x.ptr(first, 0, 0, 0), Layout<4>(rows.sizes(), x.strides())}, rows);
}

TENON_NAMESPACE_END
