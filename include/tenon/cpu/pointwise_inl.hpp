// Steps of point-wise programs on tiles. Compiled for every level; see simd.hpp. pointwise_tile.hpp has the types.
#include <tenon/core/config.hpp>

#ifdef TENON_SIMD_NAMESPACE

TENON_NAMESPACE_BEGIN
namespace detail::TENON_SIMD_NAMESPACE {

template <PointwiseCode Code>
TENON_SIMD_INLINE Float pointwise_vector(Float a, Float b) {
  if constexpr (Code == PointwiseCode::sum) return add(a, b);
  if constexpr (Code == PointwiseCode::hadamard_product) return mul(a, b);
  if constexpr (Code == PointwiseCode::complex_hadamard_product) return mul_complex(a, b);
  if constexpr (Code == PointwiseCode::relu) return max(zero(), a);
  if constexpr (Code == PointwiseCode::silu) return silu(a);
}

// out[i] = code(a[i], b[i]), where a scalar has one element. `out` may be a or b.
template <PointwiseCode Code, bool ScalarA, bool ScalarB, class T>
TENON_SIMD_TARGET void pointwise_loop(T* out, const T* a, const T* b, std::int64_t n) {
  if constexpr (!has_float_vectors<T>) {
    if constexpr (Code == PointwiseCode::complex_hadamard_product) {
      for (std::int64_t i = 0; i < n; i += 2) {
        const T re = a[i] * b[i] - a[i + 1] * b[i + 1];
        const T im = a[i] * b[i + 1] + a[i + 1] * b[i];
        out[i] = re;
        out[i + 1] = im;
      }
    } else {
      const T left = *a;
      const T right = *b;
      for (std::int64_t i = 0; i < n; ++i) {
        out[i] = pointwise_plain<Code>(ScalarA ? left : a[i], ScalarB ? right : b[i]);
      }
    }
  } else {
    Float left = zero();
    Float right = zero();
    if constexpr (ScalarA) left = broadcast(static_cast<float>(*a));
    if constexpr (ScalarB) right = broadcast(static_cast<float>(*b));
    std::int64_t i = 0;
    for (; i + width <= n; i += width) {
      if constexpr (!ScalarA) left = load(a + i);
      if constexpr (!ScalarB) right = load(b + i);
      store(out + i, pointwise_vector<Code>(left, right));
    }
    if (i < n) {
      if constexpr (!ScalarA) left = load(a + i, n - i);
      if constexpr (!ScalarB) right = load(b + i, n - i);
      store(out + i, pointwise_vector<Code>(left, right), n - i);
    }
  }
}

template <PointwiseCode Code, class T>
TENON_SIMD_INLINE void pointwise_unary(T* out, const T* a, std::int64_t n) {
  pointwise_loop<Code, false, false>(out, a, a, n);
}

template <PointwiseCode Code, class T>
TENON_SIMD_INLINE void pointwise_binary(T* out, const T* a, bool scalar_a, const T* b, bool scalar_b, std::int64_t n) {
  if (scalar_b) return pointwise_loop<Code, false, true>(out, a, b, n);
  if (scalar_a) return pointwise_loop<Code, true, false>(out, a, b, n);
  return pointwise_loop<Code, false, false>(out, a, b, n);
}

template <class T>
TENON_SIMD_TARGET void pointwise_fill(T* out, T value, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = value;
}

// Copies a strided operand.
template <class T>
TENON_SIMD_TARGET void pointwise_gather(T* out, const PointwiseSource<T>& source, std::int64_t rows,
                                        std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i, out += columns) {
    const T* from = source.data + i * source.row;
    if (source.step != 1) {
      for (std::int64_t k = 0; k < columns; ++k) out[k] = from[k * source.step];
    } else if constexpr (std::is_same_v<T, float>) {
      std::int64_t k = 0;
      for (; k + width <= columns; k += width) store(out + k, load(from + k));
      if (k < columns) store(out + k, load(from + k, columns - k), columns - k);
    } else {
      std::memcpy(out, from, static_cast<std::size_t>(columns) * sizeof(T));
    }
  }
}

// A chain needs all operands as they are, or equal elements for a scalar.
template <bool Stream, class T>
TENON_SIMD_TARGET void run_chain_on_tile(Level level, const PointwiseProgram& program, const PointwiseChain& chain,
                                         const PointwiseSource<T>* sources, T* out, std::int64_t rows,
                                         std::int64_t columns, T* scratch) {
  const T* x[PointwiseProgram::max_operands];
  bool repeats[PointwiseProgram::max_operands];
  for (int k = 0; k < program.operands(); ++k) {
    x[k] = sources[k].data;
    repeats[k] = sources[k].form == PointwiseForm::scalar;
    if (sources[k].form == PointwiseForm::contiguous) continue;
    T* to = scratch + k * pointwise_tile_size;
    x[k] = to;
    if (repeats[k]) {
      pointwise_fill(to, *sources[k].data, chain_block);
    } else {
      pointwise_gather(to, sources[k], rows, columns);
    }
  }
  run_chain<Stream>(level, chain, out, x, repeats, program.operands(), rows * columns);
}

// A stack of tiles, one loop for each step.
template <class T>
TENON_SIMD_TARGET void run_stack_on_tile(const PointwiseProgram& program, const PointwiseSource<T>* sources, T* out,
                                         std::int64_t rows, std::int64_t columns, T* scratch) {
  const std::int64_t n = rows * columns;
  const T* stack[PointwiseProgram::max_depth] = {};
  bool scalar[PointwiseProgram::max_depth] = {};
  int top = -1;  // the upper value
  const int last = program.size() - 1;
  for (int s = 0; s <= last; ++s) {
    const PointwiseStep step = program[s];
    if (step.code == PointwiseCode::load) {
      const PointwiseSource<T>& source = sources[step.operand];
      ++top;
      scalar[top] = source.form == PointwiseForm::scalar && !program.is_complex();
      if (scalar[top] || source.form == PointwiseForm::contiguous) {
        stack[top] = source.data;
      } else {
        T* to = scratch + top * pointwise_tile_size;
        pointwise_gather(to, source, rows, columns);
        stack[top] = to;
      }
      continue;
    }
    const bool unary = step.code == PointwiseCode::relu || step.code == PointwiseCode::silu;
    if (!unary) --top;
    T* to = s == last ? out : scratch + top * pointwise_tile_size;
    const T* a = stack[top];
    const bool scalar_a = scalar[top];
    if (unary) {
      const std::int64_t count = scalar_a ? 1 : n;
      if (step.code == PointwiseCode::relu) {
        pointwise_unary<PointwiseCode::relu>(to, a, count);
      } else if constexpr (!std::is_integral_v<T>) {
        pointwise_unary<PointwiseCode::silu>(to, a, count);
      }
    } else {
      const T* b = stack[top + 1];
      const bool both = scalar_a && scalar[top + 1];
      const bool first = scalar_a && !both;
      const bool second = scalar[top + 1] && !both;
      const std::int64_t count = both ? 1 : n;
      if (step.code == PointwiseCode::sum) {
        pointwise_binary<PointwiseCode::sum>(to, a, first, b, second, count);
      } else if (step.code == PointwiseCode::hadamard_product) {
        pointwise_binary<PointwiseCode::hadamard_product>(to, a, first, b, second, count);
      } else if constexpr (!std::is_integral_v<T>) {
        pointwise_loop<PointwiseCode::complex_hadamard_product, false, false>(to, a, b, count);
      }
      scalar[top] = both;
    }
    stack[top] = to;
  }
  if (scalar[0]) {
    pointwise_fill(out, *stack[0], n);
  } else if (stack[0] != out) {
    std::memcpy(out, stack[0], static_cast<std::size_t>(n) * sizeof(T));
  }
}

/// Runs a program on a tile of rows * columns elements in row-major order: at most pointwise_tile_size, unless all sources
/// are contiguous or scalars and there is a chain. `out` is contiguous; it may be a source, or scratch + pointwise_result.
template <class T>
TENON_SIMD_TARGET void run_pointwise(Level level, const PointwiseProgram& program, const PointwiseChain& chain,
                                     const PointwiseSource<T>* sources, T* out, std::int64_t rows, std::int64_t columns,
                                     T* scratch) {
  if constexpr (has_float_vectors<T>) {
    if (chain.size() > 0) {
      return run_chain_on_tile<false>(level, program, chain, sources, out, rows, columns, scratch);
    }
  }
  run_stack_on_tile(program, sources, out, rows, columns, scratch);
}

/// The same with stores past the caches, where `out` is aligned for them and the program has a chain.
template <class T>
TENON_SIMD_TARGET void stream_pointwise(Level level, const PointwiseProgram& program, const PointwiseChain& chain,
                                        const PointwiseSource<T>* sources, T* out, std::int64_t rows,
                                        std::int64_t columns, T* scratch) {
  if constexpr (std::is_same_v<T, float>) {
    if (chain.size() > 0 && reinterpret_cast<std::uintptr_t>(out) % 64 == 0) {
      return run_chain_on_tile<true>(level, program, chain, sources, out, rows, columns, scratch);
    }
  }
  run_pointwise(level, program, chain, sources, out, rows, columns, scratch);
}
TENON_SIMD_TARGET inline void stream_fence(Level) { stream_fence(); }

}  // namespace detail::TENON_SIMD_NAMESPACE
TENON_NAMESPACE_END

#endif
