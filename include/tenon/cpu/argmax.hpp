// argmax on the CPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/cpu/row_loop.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/ops/argmax.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Index of the first NaN, or else of the first of the largest, among elements first … n - 1 of a row; first < n.
template <class T>
std::int64_t argmax_strided(const T* in, std::int64_t step, std::int64_t first, std::int64_t n) {
  std::int64_t best = first;
  accumulator_t<T> largest = in[first * step];
  for (std::int64_t i = first + 1; i < n && largest == largest; ++i) {
    const accumulator_t<T> x = in[i * step];
    if (x > largest || x != x) {
      largest = x;
      best = i;
    }
  }
  return best;
}

}  // namespace detail
TENON_NAMESPACE_END

#define TENON_SIMD_BODY <tenon/cpu/argmax_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T, std::size_t Rank>
void argmax(Context<Cpu>& ctx, View<std::int64_t, Rank, Cpu> index, View<T, Rank, Cpu> value,
            std::type_identity_t<View<const T, Rank, Cpu>> in) {
  detail::check_argmax(index.sizes(), value.sizes(), in.sizes());
  detail::check_output("argmax", "index", index.layout());
  detail::check_output("argmax", "value", value.layout());
  if (index.empty()) return;
  const std::int64_t n = in.size(Rank - 1);
  const std::int64_t step = in.stride(Rank - 1);
  // The elements of this loop are the rows of `in`.
  const detail::RowLoop<3, Rank> loop(index.sizes(),
                                      std::array<Sizes<Rank>, 3>{index.strides(), value.strides(), in.strides()});
  constexpr std::int64_t grain = 65536;  // elements that are worth a thread
  loop.run(ctx, ceil_div(grain, n), [&](const std::array<std::int64_t, 3>& at, std::int64_t rows) {
    for (std::int64_t i = 0; i < rows; ++i) {
      const T* row = in.data() + at[2] + i * loop.strides()[2];
      std::int64_t best = 0;
      if constexpr (std::is_same_v<T, double>) {
        best = detail::argmax_strided(row, step, 0, n);
      } else if (step != 1) {
        best = detail::argmax_strided(row, step, 0, n);
      } else {
        best = detail::visit_simd_level(ctx.simd_level(), [&](auto level) { return argmax_row(level, row, n); });
      }
      index.data()[at[0] + i * loop.strides()[0]] = best;
      value.data()[at[1] + i * loop.strides()[1]] = row[best * step];
    }
  });
}

TENON_NAMESPACE_END
