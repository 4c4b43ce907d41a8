// rope: rotary position embedding, in the half-split arrangement of Hugging Face.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/format.hpp>
#include <tenon/ops/check.hpp>
#include <tenon/tensor/view.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline void check_rope_table(const Sizes<2>& cos, const Sizes<2>& sin, const Sizes<1>& pos_ids, double theta) {
  check_shape("rope_table", "cos", cos, Sizes<2>{pos_ids[0], cos[1]}, "(size of pos_ids, half of the head dimension)");
  check_shape("rope_table", "sin", sin, cos, "as cos");
  if (!(theta > 0.0) || std::isinf(theta)) {
    throw ValueError("rope: theta is " + detail::number_text(theta) + ", not a finite positive number");
  }
}
inline void check_rope(const Sizes<3>& out, const Sizes<3>& in, const Sizes<2>& cos, const Sizes<2>& sin) {
  check_shape("rope", "out", out, in, "as in");
  if (in[2] % 2 != 0) throw ShapeError("rope: in has shape " + shape_string(in) + ", and its last size is odd");
  check_shape("rope", "cos", cos, Sizes<2>{in[0], in[2] / 2}, "(tokens, half of the last size of in)");
  check_shape("rope", "sin", sin, cos, "as cos");
}
}  // namespace detail

/// cos[t][i] and sin[t][i] of the angle pos_ids[t] / theta^(2 i / d), i < d / 2: cos and sin (tokens, d / 2), pos_ids
/// (tokens). Angles are formed in float whatever the model's dtype, as Hugging Face forms them. One table serves every
/// layer of a model. Throws ShapeError, and ValueError for a theta that is not positive.
inline void rope_table(Context<Cpu>& ctx, View<float, 2, Cpu> cos, View<float, 2, Cpu> sin,
                       View<const std::int64_t, 1, Cpu> pos_ids, double theta);
template <std::same_as<Cuda> Device>
void rope_table(Context<Device>& ctx, std::type_identity_t<View<float, 2, Device>> cos,
                std::type_identity_t<View<float, 2, Device>> sin,
                std::type_identity_t<View<const std::int64_t, 1, Device>> pos_ids, double theta);

/// Rotates the pairs (in[t][h][i], in[t][h][i + d/2]) by the angles of a table: out and in (tokens, heads, d), d even.
/// cos and sin are rounded to T, and so is every product and sum, as in Hugging Face's apply_rotary_pos_emb (for float and
/// double, one product of a pair may be fused with the sum and then is not rounded). Su et al. 2021. Any strides; `out` may be `in` itself. Throws ShapeError.
template <FloatElement T>
void rope(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
          View<const float, 2, Cpu> cos, View<const float, 2, Cpu> sin);
template <FloatElement T>
void rope(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
          View<const float, 2, Cuda> cos, View<const float, 2, Cuda> sin);

/// The same with the table made on the way: pos_ids (tokens), theta > 0.
template <FloatElement T>
void rope(Context<Cpu>& ctx, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
          View<const std::int64_t, 1, Cpu> pos_ids, double theta);
template <FloatElement T>
void rope(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
          View<const std::int64_t, 1, Cuda> pos_ids, double theta);

TENON_NAMESPACE_END

#ifndef __CUDACC__
#include <tenon/cpu/rope.hpp>
#endif
