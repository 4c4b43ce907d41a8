// The products of a decode step on CUDA: gemv.cuh with a norm in front of it, and a residual sum, a gated activation or a
// conversion behind it.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include <tenon/cuda/decode_linear.hpp>
#include <tenon/cuda/gemv.cuh>
#include <tenon/cuda/general_product.cuh>
#include <tenon/cuda/rms_norm.cuh>
#include <tenon/cuda/swiglu.cuh>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// rms_norm of one row, formed by every block for itself.
template <class T>
struct NormInput {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  static constexpr int rows = 1;
  /// The first pack of norm weights of each thread.
  struct Early {
    Words weight;
  };
  struct State {
    Acc scale;
  };

  const K* x;
  const K* weight;
  std::int64_t columns;
  Acc eps;

  __device__ __forceinline__ Early early() const {
    constexpr int N = pack_size<K>;
    Early result;
    const int at = static_cast<int>(threadIdx.x) * N;
    load_words_once(result.weight, weight + at, at < columns);
    return result;
  }

  /// Every thread normalises the elements that it has loaded itself.
  template <int M, class W>
  __device__ __forceinline__ void stage(Words* staged, Acc* scratch, int vectors, int pitch, const Early& early) const {
    static_assert(M == 1);
    constexpr int N = pack_size<K>;
    using Elements = Pack<K, N>;
    const int thread = static_cast<int>(threadIdx.x);
    const int packs = vectors * staged_pieces<T, W>;
    Acc sum = 0;
#pragma unroll 1
    for (int q = thread; q < packs; q += gemv_threads) {
      const Words words = *reinterpret_cast<const Words*>(x + q * N);
      Acc elements[N];
      unpack<K>(elements, words);
#pragma unroll
      for (int i = 0; i < N; ++i) sum = add_square(sum, elements[i]);
      staged[staged_slot<T, W>(0, q, pitch)] = words;
    }
    const Acc scale = rms_norm_scale(block_sum(sum, scratch), columns, eps);
#pragma unroll 1
    for (int q = thread; q < packs; q += gemv_threads) {
      Words& slot = staged[staged_slot<T, W>(0, q, pitch)];
      const Words first = q == thread ? early.weight : *reinterpret_cast<const Words*>(weight + q * N);
      const auto weights = __builtin_bit_cast(Elements, first);
      auto elements = __builtin_bit_cast(Elements, slot);
#pragma unroll
      for (int i = 0; i < N; ++i) elements.value[i] = normalized(elements.value[i], scale, weights.value[i]);
      slot = __builtin_bit_cast(Words, elements);
    }
  }

  __device__ __forceinline__ State prepare(std::int64_t count, Acc* scratch) const {
    Acc sum = 0;
    for (std::int64_t c = threadIdx.x; c < count; c += blockDim.x) sum = add_square(sum, widen(x[c]));
    return {rms_norm_scale(block_sum(sum, scratch), count, eps)};
  }
  __device__ __forceinline__ Acc value(int, std::int64_t column, const State& state) const {
    return widen(normalized(x[column], state.scale, weight[column]));
  }
};

/// x + linear, each rounded to T.
template <class T, class W>
struct AddOutput {
  using K = kernel_t<T>;
  using KW = kernel_t<W>;
  using Acc = compute_t<K>;
  static constexpr int streams = 1;
  struct Extra {
    KW bias;
    K residual;
  };

  K* x;
  const KW* bias;

  __device__ __forceinline__ Extra early(std::int64_t row, int) const {
    return {bias == nullptr ? narrow<KW>(0) : bias[row], narrow<K>(0)};
  }
  __device__ __forceinline__ void late(Extra& extra, std::int64_t row, int) const { extra.residual = x[row]; }
  __device__ __forceinline__ void write(std::int64_t row, int, const Acc (&sums)[1], const Extra& with) const {
    x[row] = narrow<K>(widen(with.residual) + rounded<K>(sums[0] + widen(with.bias)));
  }
};

/// swiglu of two rows of the matrix, each rounded to T first.
template <class T, class W>
struct SwigluOutput {
  using K = kernel_t<T>;
  using KW = kernel_t<W>;
  using Acc = compute_t<K>;
  static constexpr int streams = 2;
  struct Extra {
    KW gate;
    KW up;
  };

  K* out;
  const KW* bias;
  std::int64_t results;

  __device__ __forceinline__ Extra early(std::int64_t row, int) const {
    if (bias == nullptr) return {narrow<KW>(0), narrow<KW>(0)};
    return {bias[row], bias[results + row]};
  }
  __device__ __forceinline__ void late(Extra&, std::int64_t, int) const {}
  __device__ __forceinline__ void write(std::int64_t row, int, const Acc (&sums)[2], const Extra& with) const {
    out[row] = SwigluOp{}(narrow<K>(sums[0] + widen(with.gate)), narrow<K>(sums[1] + widen(with.up)));
  }
};

/// Rounded to T and widened.
template <class T>
struct LogitsOutput {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  static constexpr int streams = 1;
  struct Extra {};

  float* logits;

  __device__ __forceinline__ Extra early(std::int64_t, int) const { return {}; }
  __device__ __forceinline__ void late(Extra&, std::int64_t, int) const {}
  __device__ __forceinline__ void write(std::int64_t row, int, const Acc (&sums)[1], const Extra&) const {
    logits[row] = static_cast<float>(rounded<K>(sums[0]));
  }
};

/// A row to each warp where they are enough for that, two at a time otherwise. Double has no fast kernel.
template <class T, class W, class Input, class Output>
void decode_product(Context<Cuda>& ctx, std::string_view op, const View<const W, 2, Cuda>& weight, const Input& input,
                    bool input_aligned, const Output& output) {
  const std::int64_t results = weight.size(0) / Output::streams;
  const std::int64_t columns = weight.size(1);
  if (results == 0) return;
  if constexpr (!std::is_same_v<T, double>) {
    if (input_aligned && gemv_fits<T>(ctx, weight.data(), weight.stride(0), weight.size(0), columns, 1)) {
      const auto run = [&]<int R, int C>() {
        launch_gemv<T, W, 1, R, C, true>(ctx, op, weight.data(), weight.stride(0), results, columns, input, output);
      };
      if constexpr (Output::streams == 2) {
        run.template operator()<2, 6>();
      } else if (results <= std::int64_t{gemv_warps} * ctx.properties().multiprocessors) {
        run.template operator()<1, 12>();
      } else {
        run.template operator()<2, 6>();
      }
      return;
    }
  }
  launch_general_gemv<T, W, 1>(ctx, op, weight.data(), weight.stride(0), results, columns, input, output);
}

template <class T>
NormInput<T> norm_input(const T* x, const T* norm_weight, std::int64_t columns, double eps) {
  return {kernel_pointer(x), kernel_pointer(norm_weight), columns, static_cast<compute_t<kernel_t<T>>>(eps)};
}

template <class T, class W>
void decode_norm_linear(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias) {
  const LinearOutput<T, W> output{kernel_pointer(out), 0, 1, kernel_pointer(bias), 1, 1};
  decode_product<T, W>(ctx, "decode_norm_linear", weight, norm_input(x, norm_weight, weight.size(1), eps),
                       is_aligned(x, 16) && is_aligned(norm_weight, 16), output);
}

template <class T, class W>
void decode_norm_swiglu(Context<Cuda>& ctx, T* out, const T* x, const T* norm_weight, double eps,
                        View<const W, 2, Cuda> weight, const W* bias) {
  const SwigluOutput<T, W> output{kernel_pointer(out), kernel_pointer(bias), weight.size(0) / 2};
  decode_product<T, W>(ctx, "decode_norm_swiglu", weight, norm_input(x, norm_weight, weight.size(1), eps),
                       is_aligned(x, 16) && is_aligned(norm_weight, 16), output);
}

template <class T, class W>
void decode_add_linear(Context<Cuda>& ctx, T* x, const T* in, View<const W, 2, Cuda> weight, const W* bias) {
  const RowsInput<T, true> input{kernel_pointer(in), 0, 1, 1, true};
  decode_product<T, W>(ctx, "decode_add_linear", weight, input, is_aligned(in, 16),
                       AddOutput<T, W>{kernel_pointer(x), kernel_pointer(bias)});
}

template <class T, class W>
void decode_logits(Context<Cuda>& ctx, float* logits, const T* x, const T* norm_weight, double eps,
                   View<const W, 2, Cuda> weight) {
  decode_product<T, W>(ctx, "decode_logits", weight, norm_input(x, norm_weight, weight.size(1), eps),
                       is_aligned(x, 16) && is_aligned(norm_weight, 16), LogitsOutput<T>{logits});
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
