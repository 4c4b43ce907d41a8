// rope on CUDA: tables of angles, and one kernel that rotates the heads of up to two tensors and copies those of a third.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/elementwise.cuh>
#include <tenon/ops/rope.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// 1 / theta^(2 i / d) for d = 2 * half, with the roundings of cpu/rope.hpp: exponent, power and reciprocal are floats.
__device__ __forceinline__ float rope_frequency(std::int64_t i, std::int64_t half, double theta) {
  const float exponent = __fdiv_rn(static_cast<float>(2 * i), static_cast<float>(2 * half));
  return __fdiv_rn(1.0f, static_cast<float>(pow(theta, static_cast<double>(exponent))));
}
/// Of the angle position * frequency, which is a float. In double, as on the CPU: rounded to float, both give the same
/// bits but for one in a million.
__device__ __forceinline__ void rope_cos_sin(std::int64_t position, float frequency, float& cos, float& sin) {
  const float angle = __fmul_rn(static_cast<float>(position), frequency);
  double c = 0.0;
  double s = 0.0;
  sincos(static_cast<double>(angle), &s, &c);
  cos = static_cast<float>(c);
  sin = static_cast<float>(s);
}

inline constexpr int rope_threads = 128;

/// Pair i of a thread is the same for every token that it takes, and so is its frequency.
template <class = void>
__global__ void __launch_bounds__(rope_threads)
    rope_table_kernel(float* cos, std::int64_t cos_row, std::int64_t cos_column, float* sin, std::int64_t sin_row,
                      std::int64_t sin_column, const std::int64_t* pos_ids, std::int64_t pos_stride,
                      std::int64_t tokens, std::int64_t half, double theta) {
  const std::int64_t across = static_cast<std::int64_t>(gridDim.x) * rope_threads;
  bool waited = false;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * rope_threads + threadIdx.x; i < half; i += across) {
    const float frequency = rope_frequency(i, half, theta);
    if (!waited) wait_for_previous();  // the power needs no memory
    waited = true;
    for (std::int64_t t = blockIdx.y; t < tokens; t += gridDim.y) {
      float c = 0.0f;
      float s = 0.0f;
      rope_cos_sin(pos_ids[t * pos_stride], frequency, c, s);
      cos[t * cos_row + i * cos_column] = c;
      sin[t * sin_row + i * sin_column] = s;
    }
  }
  if (!waited) wait_for_previous();
}

/// (x, y) rotated. cos and sin are rounded to K, and so are products and sums; for float and double the second product
/// is fused with the sum, always the same one, so that every kernel gives the same bits.
template <class K>
__device__ __forceinline__ void rotate(K& x, K& y, float cos, float sin) {
  using C = compute_t<K>;
  const C a = widen(x);
  const C b = widen(y);
  const C c = rounded<K>(static_cast<C>(cos));
  const C s = rounded<K>(static_cast<C>(sin));
  if constexpr (std::is_same_v<K, float>) {
    x = __fmaf_rn(a, c, -__fmul_rn(b, s));
    y = __fmaf_rn(b, c, __fmul_rn(a, s));
  } else if constexpr (std::is_same_v<K, double>) {
    x = __fma_rn(a, c, -__dmul_rn(b, s));
    y = __fma_rn(b, c, __dmul_rn(a, s));
  } else {
    x = narrow<K>(rounded<K>(a * c) - rounded<K>(b * s));
    y = narrow<K>(rounded<K>(b * c) + rounded<K>(a * s));
  }
}

/// P floats, from an address that is aligned for at most 4 of them.
template <int P>
__device__ __forceinline__ void load_floats(float (&to)[P], const float* from) {
  constexpr int width = P < 4 ? P : 4;
#pragma unroll
  for (int i = 0; i < P; i += width) {
    const Pack<float, width> pack = load_pack<width>(from + i);
#pragma unroll
    for (int k = 0; k < width; ++k) to[i + k] = pack.value[k];
  }
}

/// The heads of one tensor: (tokens, heads, columns) from `in` to `out`. Where they are rotated, `columns` is half of a
/// head.
template <class K>
struct Heads {
  K* out;
  const K* in;
  std::int64_t heads;
  std::int64_t columns;
  std::int64_t out_strides[3];
  std::int64_t in_strides[3];
};
struct RopeTableView {
  const float* cos;
  const float* sin;
  std::int64_t cos_row, cos_column, sin_row, sin_column;
};

struct HeadPlace {
  std::int64_t token, head, pack;
};
template <class Index>
__device__ __forceinline__ HeadPlace place_of(Index item, Index heads, Index packs) {
  const Index row = item / packs;
  const Index token = row / heads;
  return {static_cast<std::int64_t>(token), static_cast<std::int64_t>(row - token * heads),
          static_cast<std::int64_t>(item - row * packs)};
}
template <int P, class K>
__device__ __forceinline__ HeadPlace find_place(const Heads<K>& x, std::int64_t item, bool narrow) {
  const std::int64_t packs = x.columns / P;
  return narrow ? place_of(static_cast<std::uint32_t>(item), static_cast<std::uint32_t>(x.heads),
                           static_cast<std::uint32_t>(packs))
                : place_of(item, x.heads, packs);
}

template <int P, class K>
__device__ __forceinline__ void rotate_item(const Heads<K>& x, const HeadPlace& at, const RopeTableView& table) {
  const std::int64_t column = at.pack * P;
  const K* in = x.in + at.token * x.in_strides[0] + at.head * x.in_strides[1] + column * x.in_strides[2];
  Pack<K, P> first = load_pack<P>(in);
  Pack<K, P> second = load_pack<P>(in + x.columns * x.in_strides[2]);
  float cos[P];
  float sin[P];
  load_floats(cos, table.cos + at.token * table.cos_row + column * table.cos_column);
  load_floats(sin, table.sin + at.token * table.sin_row + column * table.sin_column);
#pragma unroll
  for (int i = 0; i < P; ++i) rotate(first.value[i], second.value[i], cos[i], sin[i]);
  K* out = x.out + at.token * x.out_strides[0] + at.head * x.out_strides[1] + column * x.out_strides[2];
  store_pack(out, first);
  store_pack(out + x.columns * x.out_strides[2], second);
}
template <int P, class K>
__device__ __forceinline__ void copy_item(const Heads<K>& x, const HeadPlace& at) {
  const std::int64_t column = at.pack * P;
  store_pack(x.out + at.token * x.out_strides[0] + at.head * x.out_strides[1] + column * x.out_strides[2],
             load_pack<P>(x.in + at.token * x.in_strides[0] + at.head * x.in_strides[1] + column * x.in_strides[2]));
}

/// Items are packs of P columns; with P = 1 any strides. Those of q come first, then those of k, then those of v. Outputs
/// may be their own inputs: a thread reads both halves of a pair before it writes them.
template <int P, class K>
__global__ void __launch_bounds__(rope_threads)
    rope_kernel(const __grid_constant__ Heads<K> q, const __grid_constant__ Heads<K> k,
                const __grid_constant__ Heads<K> v, const __grid_constant__ RopeTableView table, std::int64_t q_items,
                std::int64_t k_items, std::int64_t v_items, bool narrow) {
  wait_for_previous();
  const std::int64_t items = q_items + k_items + v_items;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * rope_threads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * rope_threads + threadIdx.x; i < items; i += step) {
    if (i < q_items) {
      rotate_item<P>(q, find_place<P>(q, i, narrow), table);
    } else if (i < q_items + k_items) {
      rotate_item<P>(k, find_place<P>(k, i - q_items, narrow), table);
    } else {
      copy_item<P>(v, find_place<P>(v, i - q_items - k_items, narrow));
    }
  }
}

/// `columns` as in Heads.
template <class T>
Heads<kernel_t<T>> heads_of(const View<T, 3, Cuda>& out, const View<const T, 3, Cuda>& in, std::int64_t columns) {
  Heads<kernel_t<T>> result{};
  result.out = kernel_pointer(out.data());
  result.in = kernel_pointer(in.data());
  result.heads = in.size(1);
  result.columns = columns;
  std::copy_n(out.strides().begin(), 3, result.out_strides);
  std::copy_n(in.strides().begin(), 3, result.in_strides);
  return result;
}
template <class K>
bool has_packs(const Heads<K>& x, std::int64_t tokens, std::int64_t pack) {
  const auto fits = [&](const K* data, const std::int64_t(&strides)[3]) {
    return strides[2] == 1 && keeps_packs(tokens, strides[0], pack) && keeps_packs(x.heads, strides[1], pack) &&
           is_aligned(data, sizeof(K) * static_cast<std::size_t>(pack));
  };
  return x.heads == 0 || x.columns == 0 ||
         (x.columns % pack == 0 && fits(x.out, x.out_strides) && fits(x.in, x.in_strides));
}

/// q and k are rotated, v is copied; those without heads do nothing.
template <class K>
void launch_rope(Context<Cuda>& ctx, std::string_view name, std::int64_t tokens, const Heads<K>& q, const Heads<K>& k,
                 const Heads<K>& v, const View<const float, 2, Cuda>& cos, const View<const float, 2, Cuda>& sin) {
  constexpr std::int64_t pack = pack_size<K>;
  constexpr std::int64_t floats = std::min<std::int64_t>(pack, 4);
  const auto table_fits = [&](const View<const float, 2, Cuda>& table) {
    return table.stride(1) == 1 && keeps_packs(tokens, table.stride(0), floats) &&
           is_aligned(table.data(), sizeof(float) * floats);
  };
  const bool packed = has_packs(q, tokens, pack) && has_packs(k, tokens, pack) && has_packs(v, tokens, pack) &&
                      table_fits(cos) && table_fits(sin);
  const auto items_of = [&](const Heads<K>& x) { return tokens * x.heads * (packed ? x.columns / pack : x.columns); };
  const std::int64_t items = items_of(q) + items_of(k) + items_of(v);
  if (items == 0) return;
  RopeTableView table{};
  table.cos = cos.data();
  table.sin = sin.data();
  table.cos_row = cos.stride(0);
  table.cos_column = cos.stride(1);
  table.sin_row = sin.stride(0);
  table.sin_column = sin.stride(1);
  LaunchShape shape;
  shape.block = dim3(rope_threads);
  shape.grid = dim3(grid_blocks(items, rope_threads, std::int64_t{1} << 30));
  shape.dependent = true;
  launch(ctx, name, shape, packed ? rope_kernel<static_cast<int>(pack), K> : rope_kernel<1, K>, q, k, v, table,
         items_of(q), items_of(k), items_of(v), items <= std::int64_t{UINT32_MAX});
}

}  // namespace detail

template <std::same_as<Cuda> Device>
void rope_table(Context<Device>& ctx, std::type_identity_t<View<float, 2, Device>> cos,
                std::type_identity_t<View<float, 2, Device>> sin,
                std::type_identity_t<View<const std::int64_t, 1, Device>> pos_ids, double theta) {
  detail::check_rope_table(cos.sizes(), sin.sizes(), pos_ids.sizes(), theta);
  detail::check_output("rope_table", "cos", cos.layout());
  detail::check_output("rope_table", "sin", sin.layout());
  detail::check_devices(ctx, "rope_table", cos.data(), sin.data(), pos_ids.data());
  if (cos.empty()) return;
  detail::LaunchShape shape;
  shape.block = dim3(detail::rope_threads);
  shape.grid = dim3(detail::grid_blocks(cos.size(1), detail::rope_threads),
                    static_cast<unsigned>(std::min<std::int64_t>(cos.size(0), 4096)));
  shape.dependent = true;
  detail::launch(ctx, "rope_table", shape, detail::rope_table_kernel<>, cos.data(), cos.stride(0), cos.stride(1),
                 sin.data(), sin.stride(0), sin.stride(1), pos_ids.data(), pos_ids.stride(0), cos.size(0), cos.size(1),
                 theta);
}

template <FloatElement T>
void rope(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
          View<const float, 2, Cuda> cos, View<const float, 2, Cuda> sin) {
  detail::check_rope(out.sizes(), in.sizes(), cos.sizes(), sin.sizes());
  detail::check_output("rope", "out", out.layout());
  detail::check_devices(ctx, "rope", out.data(), in.data(), cos.data(), sin.data());
  const detail::Heads<detail::kernel_t<T>> none{};
  detail::launch_rope(ctx, "rope", in.size(0), detail::heads_of<T>(out, in, in.size(2) / 2), none, none, cos, sin);
}

template <FloatElement T>
void rope(Context<Cuda>& ctx, View<T, 3, Cuda> out, std::type_identity_t<View<const T, 3, Cuda>> in,
          View<const std::int64_t, 1, Cuda> pos_ids, double theta) {
  detail::check_shape("rope", "pos_ids", pos_ids.sizes(), Sizes<1>{in.size(0)}, "(tokens of in)");
  auto scope = ctx.workspace().scope();
  const Sizes<2> sizes{in.size(0), in.size(2) / 2};
  const std::int64_t count = sizes[0] * sizes[1];
  const View<float, 2, Cuda> cos(scope.template allocate<float>(count), sizes);
  const View<float, 2, Cuda> sin(scope.template allocate<float>(count), sizes);
  detail::check_rope(out.sizes(), in.sizes(), cos.sizes(), sin.sizes());
  detail::check_output("rope", "out", out.layout());
  rope_table<Cuda>(ctx, cos, sin, pos_ids, theta);
  rope<T>(ctx, out, in, View<const float, 2, Cuda>(cos), View<const float, 2, Cuda>(sin));
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
