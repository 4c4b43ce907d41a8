// linear on CUDA: which of the products serves a call.
//
//   gemv.cuh             up to eight rows: limited by reading the weights
//   gemv_tensor.cuh      the same for five to eight rows of 16-bit types
//   cublas.hpp           more rows: limited by arithmetic
//   general_product.cuh  what neither takes
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include <tenon/core/math.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.cuh>
#include <tenon/cuda/gemv.cuh>
#include <tenon/cuda/gemv_tensor.cuh>
#include <tenon/cuda/general_product.cuh>
#include <tenon/ops/linear.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// Up to this many rows the weights are streamed by kernels of our own.
inline constexpr std::int64_t gemv_max_rows = 8;

/// Rows whose elements follow each other.
template <class T>
bool rows_contiguous(const View<T, 2, Cuda>& matrix) {
  return matrix.size(1) <= 1 || matrix.stride(1) == 1;
}
/// And whose rows come one after another without overlapping, which is what cuBLASLt takes.
template <class T>
bool rows_in_order(const View<T, 2, Cuda>& matrix) {
  return rows_contiguous(matrix) &&
         (matrix.size(0) <= 1 || matrix.stride(0) >= std::max<std::int64_t>(matrix.size(1), 1));
}
/// Distance of rows that are in order; a row on its own may have any.
template <class T>
std::int64_t row_distance(const View<T, 2, Cuda>& matrix) {
  return matrix.size(0) <= 1 ? align_up<std::int64_t>(matrix.size(1), 16 / sizeof(T)) : matrix.stride(0);
}

/// A copy in scratch memory with rows in order, each starting at a multiple of 16 bytes.
template <class T, class From>
View<T, 2, Cuda> packed_rows(Context<Cuda>& ctx, BasicWorkspace<Cuda>::Scope& scope, const View<From, 2, Cuda>& from) {
  const std::int64_t distance = align_up<std::int64_t>(from.size(1), 16 / sizeof(T));
  T* data = scope.allocate<T>(from.size(0) * distance);
  const View<T, 2, Cuda> to(data, Layout<2>(from.sizes(), {distance, 1}));
  copy_strided(ctx, strided(to), const_strided(from));
  return to;
}

/// Weights that have to be converted or packed take scratch memory of about this much at a time.
inline constexpr std::int64_t packed_weight_bytes = std::int64_t{64} << 20;

/// Calls body(from, to, rows) with packed_rows of one range of the weights' rows after another, while it returns true.
/// Returns what the last call did.
template <class T, class W, class Body>
bool each_packed(Context<Cuda>& ctx, const View<const W, 2, Cuda>& weight, Body&& body) {
  const std::int64_t n = weight.size(0);
  const std::int64_t row_bytes = std::max<std::int64_t>(weight.size(1), 1) * std::int64_t{sizeof(T)};
  const std::int64_t at_once = std::max<std::int64_t>(packed_weight_bytes / row_bytes / 256 * 256, 256);
  for (std::int64_t from = 0; from < n; from += at_once) {
    const std::int64_t to = std::min(from + at_once, n);
    auto scope = ctx.workspace().scope();
    const View<const T, 2, Cuda> rows = packed_rows<T>(ctx, scope, weight.slice(0, from, to));
    if (!body(from, to, rows)) return false;
  }
  return true;
}

/// Up to gemv_max_rows rows and a matrix with contiguous rows. False where its rows are too long for that many.
template <class T, class W>
bool linear_gemv(Context<Cuda>& ctx, const View<T, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                 const View<const W, 2, Cuda>& weight, const std::optional<View<const W, 1, Cuda>>& bias) {
  const std::int64_t m = out.size(0);
  const std::int64_t n = out.size(1);
  const std::int64_t k = in.size(1);
  const bool vectorized = reinterpret_cast<std::uintptr_t>(in.data()) % 16 == 0 && in.stride(1) == 1 &&
                          (m == 1 || in.stride(0) % static_cast<std::int64_t>(16 / sizeof(T)) == 0);
  const RowsInput<T> input{kernel_pointer(in.data()), in.stride(0), in.stride(1), static_cast<int>(m), vectorized};
  const LinearOutput<T, W> output{
      kernel_pointer(out.data()), out.stride(0),      out.stride(1), bias ? kernel_pointer(bias->data()) : nullptr,
      bias ? bias->stride(0) : 0, static_cast<int>(m)};
  if constexpr (!std::is_same_v<T, double>) {
    const auto run = [&]<int M, int R, int C>() {
      if (!gemv_fits<T>(ctx, weight.data(), weight.stride(0), n, k, M)) return false;
      launch_gemv<T, W, M, R, C, false>(ctx, "linear", weight.data(), weight.stride(0), n, k, input, output);
      return true;
    };
    bool done = false;
    if (m > 4) {
      if constexpr (sizeof(T) == 2) {
        done = gemv_tensor_fits(ctx, weight.data(), weight.stride(0), n, k);
        if (done) launch_gemv_tensor(ctx, "linear", weight.data(), weight.stride(0), n, k, input, output);
      } else {
        done = run.template operator()<8, 2, 3>();
      }
    } else if (m > 2) {
      done = run.template operator()<4, 2, 6>();
    } else if (m == 2) {
      done = run.template operator()<2, 2, 6>();
    } else if (n <= std::int64_t{gemv_warps} * ctx.properties().multiprocessors) {
      done = run.template operator()<1, 1, 12>();
    } else {
      done = run.template operator()<1, 2, 6>();
    }
    if (done) return true;
    // Rows that only their number keeps from fitting are cuBLASLt's.
    if (m > 1 && gemv_fits<T>(ctx, weight.data(), weight.stride(0), n, k, 1)) return false;
  }
  if (m == 1) {
    launch_general_gemv<T, W, 1>(ctx, "linear", weight.data(), weight.stride(0), n, k, input, output);
  } else {
    launch_general_gemv<T, W, 8>(ctx, "linear", weight.data(), weight.stride(0), n, k, input, output);
  }
  return true;
}

/// out (m, n) = sums (m, n) + bias (n), rounded once: rows of `out` are contiguous. With `Packs`, n is a multiple of 8 and
/// everything is aligned to 16 bytes.
template <class K, bool Packs>
__global__ void __launch_bounds__(256)
    add_bias_kernel(K* out, std::int64_t out_row, const float* sums, const K* bias, std::int64_t m, std::int64_t n) {
  constexpr int N = Packs ? 8 : 1;
  const std::int64_t per_row = n / N;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < m * per_row; i += step) {
    const std::int64_t row = i / per_row;
    const std::int64_t column = (i - row * per_row) * N;
    Pack<K, N> result;
    if constexpr (Packs) {
      const auto low = load_pack<4>(sums + row * n + column);
      const auto high = load_pack<4>(sums + row * n + column + 4);
      const auto with = load_pack<8>(bias + column);
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        result.value[e] = narrow<K>(low.value[e] + widen(with.value[e]));
        result.value[e + 4] = narrow<K>(high.value[e] + widen(with.value[e + 4]));
      }
    } else {
      result.value[0] = narrow<K>(sums[row * n + column] + widen(bias[column]));
    }
    store_pack(out + row * out_row + column, result);
  }
}

template <class T>
void add_bias(Context<Cuda>& ctx, const View<T, 2, Cuda>& out, const float* sums, const T* bias) {
  const std::int64_t m = out.size(0);
  const std::int64_t n = out.size(1);
  const bool packs = n % 8 == 0 && (m == 1 || out.stride(0) % 8 == 0) &&
                     (reinterpret_cast<std::uintptr_t>(out.data()) | reinterpret_cast<std::uintptr_t>(bias)) % 16 == 0;
  LaunchShape shape;
  shape.grid = dim3(grid_blocks(packs ? m * n / 8 : m * n, 256, 16 * ctx.properties().multiprocessors));
  shape.block = dim3(256);
  launch(ctx, "linear", shape, packs ? add_bias_kernel<kernel_t<T>, true> : add_bias_kernel<kernel_t<T>, false>,
         kernel_pointer(out.data()), out.stride(0), sums, kernel_pointer(bias), m, n);
}

/// out = in · weightᵀ + bias where cuBLASLt has an algorithm for it; false where not, and nothing is written then.
template <class T, class Out>
bool cublas_product(Context<Cuda>& ctx, const View<Out, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                    const View<const T, 2, Cuda>& weight, const T* bias) {
  ProductShape shape;
  shape.dtype = dtype_of<T>;
  shape.out_dtype = dtype_of<Out>;
  shape.has_bias = bias != nullptr;
  shape.m = out.size(0);
  shape.n = out.size(1);
  shape.k = in.size(1);
  shape.out_row = row_distance(out);
  shape.in_row = row_distance(in);
  shape.weight_row = row_distance(weight);
  constexpr std::int64_t size = sizeof(T);
  shape.out_alignment = row_alignment(out.data(), shape.out_row * std::int64_t{sizeof(Out)});
  shape.in_alignment = row_alignment(in.data(), shape.in_row * size);
  shape.weight_alignment = row_alignment(weight.data(), shape.weight_row * size);
  const auto device = ctx.activate();
  return ctx.cublas().multiply(ctx.stream(), shape, out.data(), in.data(), weight.data(), bias);
}

/// Any number of rows; `in` and `weight` with rows in order, the bias contiguous and aligned to 16 bytes.
///
/// Sums of 16-bit types that a bias joins are formed in float first: some algorithms of cuBLASLt round them to the type of
/// the output before their epilogue adds the bias (measured with CUDA 13.0 on an H200, with 9 to 64 rows).
template <class T>
void linear_product(Context<Cuda>& ctx, const View<T, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                    const View<const T, 2, Cuda>& weight, const T* bias) {
  if constexpr (sizeof(T) == 2) {
    if (bias != nullptr) {
      const std::int64_t n = out.size(1);
      const std::int64_t at_once =
          std::max<std::int64_t>(packed_weight_bytes / (std::int64_t{sizeof(float)} * n) / 256 * 256, 256);
      for (std::int64_t from = 0; from < out.size(0); from += at_once) {
        const std::int64_t to = std::min(from + at_once, out.size(0));
        auto scope = ctx.workspace().scope();
        const View<float, 2, Cuda> sums(scope.allocate<float>((to - from) * n), Sizes<2>{to - from, n});
        const auto part = out.slice(0, from, to);
        const auto rows = in.slice(0, from, to);
        if (cublas_product<T, float>(ctx, sums, rows, weight, nullptr)) {
          add_bias(ctx, part, sums.data(), bias);
        } else {
          launch_general_product<T>(ctx, "linear", part, rows, weight, bias);
        }
      }
      return;
    }
  }
  if (!cublas_product<T, T>(ctx, out, in, weight, bias)) {
    launch_general_product<T>(ctx, "linear", out, in, weight, bias);
  }
}

/// More rows, or anything else that linear_gemv does not take.
template <class T, class W>
void linear_gemm(Context<Cuda>& ctx, const View<T, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                 const View<const W, 2, Cuda>& weight, const std::optional<View<const W, 1, Cuda>>& bias) {
  const std::int64_t n = out.size(1);
  auto scope = ctx.workspace().scope();
  const View<const T, 2, Cuda> rows = rows_in_order(in) ? in : packed_rows<T>(ctx, scope, in);
  const T* offset = nullptr;
  if (bias) {
    if constexpr (std::is_same_v<T, W>) {
      const bool usable = reinterpret_cast<std::uintptr_t>(bias->data()) % 16 == 0 && (n == 1 || bias->stride(0) == 1);
      if (usable) offset = bias->data();
    }
    if (offset == nullptr) offset = packed_rows<T>(ctx, scope, bias->unsqueeze(0)).data();
  }
  const bool out_usable = rows_in_order(out);
  const View<T, 2, Cuda> target =
      out_usable ? out : View<T, 2, Cuda>(scope.allocate<T>(out.size(0) * n), Sizes<2>{out.size(0), n});
  const auto all = [&] {
    if constexpr (std::is_same_v<T, W>) {
      if (!rows_in_order(weight)) return false;
      linear_product<T>(ctx, target, rows, weight, offset);
      return true;
    }
    return false;
  };
  if (!all()) {
    each_packed<T, W>(ctx, weight, [&](std::int64_t from, std::int64_t to, const View<const T, 2, Cuda>& part) {
      linear_product<T>(ctx, target.slice(1, from, to), rows, part, offset == nullptr ? nullptr : offset + from);
      return true;
    });
  }
  if (!out_usable) copy_strided(ctx, strided(out), const_strided(target));
}

template <class T, class W>
void linear_dispatch(Context<Cuda>& ctx, const View<T, 2, Cuda>& out, const View<const T, 2, Cuda>& in,
                     const View<const W, 2, Cuda>& weight, const std::optional<View<const W, 1, Cuda>>& bias) {
  if (in.size(1) == 0) {
    auto scope = ctx.workspace().scope();
    const T* offset = bias ? packed_rows<T>(ctx, scope, bias->unsqueeze(0)).data() : nullptr;
    const View<const T, 2, Cuda> none(nullptr, Layout<2>(weight.sizes(), {0, 1}));
    launch_general_product<T>(ctx, "linear", out, in, none, offset);
    return;
  }
  if (out.size(0) <= gemv_max_rows) {
    if (rows_contiguous(weight)) {
      if (linear_gemv(ctx, out, in, weight, bias)) return;
    } else {
      const auto part = [&](std::int64_t from, std::int64_t to, const View<const W, 2, Cuda>& rows) {
        std::optional<View<const W, 1, Cuda>> part_bias;
        if (bias) part_bias = bias->slice(0, from, to);
        return linear_gemv(ctx, out.slice(1, from, to), in, rows, part_bias);
      };
      if (each_packed<W, W>(ctx, weight, part)) return;
    }
  }
  linear_gemm<T, W>(ctx, out, in, weight, bias);
}

}  // namespace detail

template <FloatElement T, WeightFor<T> W>
void linear(Context<Cuda>& ctx, View<T, 2, Cuda> out, std::type_identity_t<View<const T, 2, Cuda>> in,
            View<W, 2, Cuda> weight,
            std::type_identity_t<std::optional<View<const std::remove_const_t<W>, 1, Cuda>>> bias) {
  const Sizes<1> bias_sizes = bias ? bias->sizes() : Sizes<1>{};
  detail::check_linear(out.sizes(), in.sizes(), weight.sizes(), bias ? &bias_sizes : nullptr);
  detail::check_output("linear", "out", out.layout());
  detail::check_devices(ctx, "linear", out.data(), in.data(), weight.data(), bias ? bias->data() : nullptr);
  if (out.empty()) return;
  using Weight = std::remove_const_t<W>;
  detail::linear_dispatch<T, Weight>(ctx, out, in, View<const Weight, 2, Cuda>(weight), bias);
}

TENON_HIDDEN_END
TENON_NAMESPACE_END
