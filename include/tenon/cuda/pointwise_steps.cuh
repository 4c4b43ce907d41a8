// The steps of point-wise programs in kernels, on one element or a pack of them at once.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/cuda/swiglu.cuh>
#include <tenon/ops/pointwise.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// What a step on elements of K computes in: float for 16-bit types, else K itself.
template <class K>
using pointwise_t = std::conditional_t<std::is_same_v<K, std::int64_t>, std::int64_t, compute_t<K>>;

template <class K>
__device__ __forceinline__ pointwise_t<K> pointwise_value(K x) {
  if constexpr (std::is_same_v<K, std::int64_t>) {
    return x;
  } else {
    return widen(x);
  }
}
template <class K>
__device__ __forceinline__ K pointwise_element(pointwise_t<K> x) {
  if constexpr (std::is_same_v<K, std::int64_t>) {
    return x;
  } else {
    return narrow<K>(x);
  }
}
/// Rounds to K and back.
template <class K, int P>
__device__ __forceinline__ void round_values(pointwise_t<K> (&x)[P]) {
  if constexpr (sizeof(K) == 2 && P == pack_size<K>) {
    unpack<K>(x, to_words<K>(x));
  } else {
#pragma unroll
    for (int e = 0; e < P; ++e) x[e] = pointwise_value(pointwise_element<K>(x[e]));
  }
}

// Rounded one by one: the compiler must not join a product and a sum. Integers wrap.
__device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }
__device__ __forceinline__ std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
__device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
__device__ __forceinline__ std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

__device__ __forceinline__ bool takes_two(PointwiseCode code) {
  return code == PointwiseCode::sum || code == PointwiseCode::hadamard_product ||
         code == PointwiseCode::complex_hadamard_product;
}

/// Values below the top of the stack, in registers: slots have names, since registers cannot be indexed.
template <class C, int P>
struct RegisterStack {
  C first[P] = {};
  C second[P] = {};
  C third[P] = {};

  __device__ __forceinline__ void push(const C (&value)[P]) {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      third[e] = second[e];
      second[e] = first[e];
      first[e] = value[e];
    }
  }
  __device__ __forceinline__ void pop(C (&value)[P]) {
#pragma unroll
    for (int e = 0; e < P; ++e) {
      value[e] = first[e];
      first[e] = second[e];
      second[e] = third[e];
    }
  }
};

/// Runs a program on P elements at once. load(operand, to) gives those of an operand; `stack` holds what is below the top
/// value; `result` gets what the program leaves, which K holds exactly. A value that the next step takes at once is not
/// put on the stack first.
template <class K, int P, class Load, class Stack>
__device__ __forceinline__ void run_steps(const PointwiseProgram& program, const Load& load, Stack& stack,
                                          pointwise_t<K> (&result)[P]) {
  using C = pointwise_t<K>;
  load(static_cast<int>(program[0].operand), result);
  const int steps = program.size();
#pragma unroll 1
  for (int i = 1; i < steps; ++i) {
    const PointwiseStep step = program[i];
    PointwiseCode code = step.code;
    C other[P];
    if (code == PointwiseCode::load) {
      if (i + 1 < steps) code = program[i + 1].code;
      if (!takes_two(code)) {
        stack.push(result);
        load(static_cast<int>(step.operand), result);
        continue;
      }
      load(static_cast<int>(step.operand), other);
      ++i;
    } else if (takes_two(code)) {
#pragma unroll
      for (int e = 0; e < P; ++e) other[e] = result[e];
      stack.pop(result);
    }
    switch (code) {
      case PointwiseCode::load: break;
      case PointwiseCode::sum:
#pragma unroll
        for (int e = 0; e < P; ++e) result[e] = plus(result[e], other[e]);
        break;
      case PointwiseCode::hadamard_product:
#pragma unroll
        for (int e = 0; e < P; ++e) result[e] = times(result[e], other[e]);
        break;
      case PointwiseCode::complex_hadamard_product:
        if constexpr (P % 2 == 0 && !std::is_same_v<K, std::int64_t>) {
#pragma unroll
          for (int e = 0; e < P; e += 2) {
            const C re = plus(times(result[e], other[e]), -times(result[e + 1], other[e + 1]));
            const C im = plus(times(result[e], other[e + 1]), times(result[e + 1], other[e]));
            result[e] = re;
            result[e + 1] = im;
          }
        }
        break;
      case PointwiseCode::relu:
#pragma unroll
        for (int e = 0; e < P; ++e) result[e] = result[e] < C(0) ? C(0) : result[e];
        break;
      case PointwiseCode::silu:
        if constexpr (!std::is_same_v<K, std::int64_t>) {
#pragma unroll
          for (int e = 0; e < P; ++e) result[e] = silu(result[e]);
        }
        break;
    }
    round_values<K>(result);
  }
}

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
