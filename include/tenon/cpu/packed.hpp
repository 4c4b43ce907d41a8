// Operands whose rows are contiguous: the views themselves, or copies of them in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenon/ops/rearrange.hpp>
#include <tenon/runtime/workspace.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Whether a kernel that wants contiguous rows can take the view as it is.
template <class T, std::size_t Rank>
bool has_contiguous_rows(const View<T, Rank, Cpu>& x) {
  return x.stride(Rank - 1) == 1 || x.size(Rank - 1) <= 1;
}

/// An uninitialised row-major tensor in the workspace.
template <class T, std::size_t Rank>
View<T, Rank, Cpu> scratch_tensor(Workspace::Scope& scope, const Sizes<Rank>& sizes) {
  const Layout<Rank> layout(sizes);
  return {scope.allocate<T>(layout.numel()), layout};
}

/// `x` itself where its rows are contiguous, else a copy that lives as long as the scope.
template <class T, std::size_t Rank>
View<const T, Rank, Cpu> with_contiguous_rows(Context<Cpu>& ctx, Workspace::Scope& scope,
                                              const View<const T, Rank, Cpu>& x) {
  if (has_contiguous_rows(x)) return x;
  const auto copy = scratch_tensor<T, Rank>(scope, x.sizes());
  rearrange<T, Rank>(ctx, copy, x);
  return copy;
}

}  // namespace detail
TENON_NAMESPACE_END
