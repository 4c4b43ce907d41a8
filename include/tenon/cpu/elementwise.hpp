// What element-wise operators share: the walk over strided operands, and kernels for each instruction set.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include <tenon/cpu/row_loop.hpp>
#include <tenon/cpu/simd/simd.hpp>
#include <tenon/tensor/copy.hpp>
#include <tenon/tensor/view.hpp>

#define TENON_SIMD_BODY <tenon/cpu/elementwise_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Calls `kernel(out, a, b, n)`, which works on contiguous stretches, for all elements of three views of one shape.
/// What is not contiguous goes through small buffers, so that a kernel computes the same for every layout.
template <class T, std::size_t Rank, class Kernel>
void for_each_stretch(Context<Cpu>& ctx, const View<T, Rank, Cpu>& out, const View<const T, Rank, Cpu>& a,
                      const View<const T, Rank, Cpu>& b, std::int64_t grain, Kernel&& kernel) {
  const RowLoop<3, Rank> loop(out.sizes(), std::array<Sizes<Rank>, 3>{out.strides(), a.strides(), b.strides()});
  if (loop.rows_are_contiguous()) {
    loop.run(ctx, grain, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
      kernel(out.data() + at[0], a.data() + at[1], b.data() + at[2], n);
    });
    return;
  }
  loop.run(ctx, grain / 4, [&](const std::array<std::int64_t, 3>& at, std::int64_t n) {
    constexpr std::int64_t length = 256;
    T result[length];
    T left[length];
    T right[length];
    const auto [out_step, a_step, b_step] = loop.strides();
    for (std::int64_t i = 0; i < n; i += length) {
      const std::int64_t count = std::min(length, n - i);
      const T* from_a = a.data() + at[1] + i * a_step;
      const T* from_b = b.data() + at[2] + i * b_step;
      T* to = out.data() + at[0] + i * out_step;
      for (std::int64_t k = 0; k < count; ++k) left[k] = from_a[k * a_step];
      for (std::int64_t k = 0; k < count; ++k) right[k] = from_b[k * b_step];
      kernel(result, left, right, count);
      for (std::int64_t k = 0; k < count; ++k) to[k * out_step] = result[k];
    }
  });
}

/// out[i] = in[i], widened where the types differ.
template <class To, class From>
void convert_stretch(SimdLevel level, To* out, std::int64_t out_step, const From* in, std::int64_t in_step,
                     std::int64_t n) {
  if (out_step != 1 || in_step != 1) {
    for (std::int64_t i = 0; i < n; ++i) out[i * out_step] = convert<To>(in[i * in_step]);
  } else if constexpr (std::is_same_v<To, From>) {
    std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(To));
  } else {
    visit_simd_level(level, [&](auto tag) { convert_row(tag, out, in, n); });
  }
}

}  // namespace detail
TENON_NAMESPACE_END
