// What the kernels of matmul read, and what they do with a sum: the epilogue, run by the thread that has it.
#pragma once

#include <cstddef>
#include <cstdint>

#include <tenon/cuda/launch.cuh>
#include <tenon/cuda/pointwise_steps.cuh>
#include <tenon/cuda/primitives.cuh>
#include <tenon/ops/matmul.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace detail {

/// The factors: a (batches, m, n), b (batches, n, k).
template <class K>
struct MatmulFactors {
  const K* a;
  const K* b;
  std::int64_t a_strides[3];
  std::int64_t b_strides[3];
  std::int64_t batches;
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};
template <class T>
MatmulFactors<kernel_t<T>> matmul_factors(const View<const T, 3, Cuda>& a, const View<const T, 3, Cuda>& b) {
  return {kernel_pointer(a.data()),
          kernel_pointer(b.data()),
          {a.stride(0), a.stride(1), a.stride(2)},
          {b.stride(0), b.stride(1), b.stride(2)},
          a.size(0),
          a.size(1),
          a.size(2),
          b.size(2)};
}

/// The result of matmul. Also an output of gemv.cuh, whose rows are the columns of the first matrix of the batch.
template <class T>
struct MatmulOutput {
  using K = kernel_t<T>;
  using Acc = compute_t<K>;
  static constexpr int streams = 1;
  static constexpr int most = PointwiseProgram::max_operands - 1;
  /// The first operands, read while the sum is formed.
  static constexpr int ahead = 2;
  struct Extra {
    K operand[ahead];
  };

  struct Place {
    K* data = nullptr;
    std::int64_t strides[3] = {};
  };
  struct Source {
    const K* data = nullptr;
    std::int64_t strides[3] = {};
  };

  Place out;
  std::int64_t rows = 0;
  int operands = 0;
  Source operand[most];
  PointwiseProgram program;

  MatmulOutput(const View<T, 3, Cuda>& to, const MatmulEpilogue<T, Cuda>& epilogue)
      : rows(to.size(1)), program(epilogue.program == nullptr ? product_alone() : *epilogue.program) {
    out = {kernel_pointer(to.data()), {to.stride(0), to.stride(1), to.stride(2)}};
    operands = program.operands() - 1;
    for (int i = 0; i < operands; ++i) {
      const auto& from = epilogue.operands[static_cast<std::size_t>(i)];
      operand[i] = {kernel_pointer(from.data()), {from.stride(0), from.stride(1), from.stride(2)}};
    }
  }

  /// `count` rows from `from` on, of the first matrix.
  [[nodiscard]] MatmulOutput part(std::int64_t from, std::int64_t count) const {
    MatmulOutput result = *this;
    result.rows = count;
    result.out.data += from * out.strides[1];
    for (int i = 0; i < operands; ++i) result.operand[i].data += from * operand[i].strides[1];
    return result;
  }

  __device__ __forceinline__ void fetch(Extra& extra, std::int64_t batch, std::int64_t row, std::int64_t column) const {
#pragma unroll
    for (int i = 0; i < ahead; ++i) {
      if (i < operands) extra.operand[i] = read(operand[i], batch, row, column);
    }
  }
  __device__ __forceinline__ void put(std::int64_t batch, std::int64_t row, std::int64_t column, Acc sum,
                                      const Extra& extra) const {
    const Acc product = rounded<K>(sum);
    Acc result[1];
    RegisterStack<Acc, 1> stack;
    run_steps<K, 1>(
        program,
        [&](int i, Acc(&to)[1]) {
          if (i == 0) {
            to[0] = product;
          } else if (i == 1) {
            to[0] = widen(extra.operand[0]);
          } else if (i == 2) {
            to[0] = widen(extra.operand[1]);
          } else {
            to[0] = widen(read(operand[i - 1], batch, row, column));
          }
        },
        stack, result);
    out.data[batch * out.strides[0] + row * out.strides[1] + column * out.strides[2]] = narrow<K>(result[0]);
  }

  // For gemv.cuh.
  __device__ __forceinline__ Extra early(std::int64_t, int) const { return {}; }
  __device__ __forceinline__ void late(Extra& extra, std::int64_t column, int row) const {
    if (row < rows) fetch(extra, 0, row, column);
  }
  __device__ __forceinline__ void write(std::int64_t column, int row, const Acc (&sums)[1], const Extra& extra) const {
    if (row < rows) put(0, row, column, sums[0], extra);
  }

 private:
  static PointwiseProgram product_alone() {
    const PointwiseStep step{PointwiseCode::load, 0};
    return PointwiseProgram({&step, 1});
  }
  static __device__ __forceinline__ K read(const Source& from, std::int64_t batch, std::int64_t row,
                                           std::int64_t column) {
    return from.data[batch * from.strides[0] + row * from.strides[1] + column * from.strides[2]];
  }
};

}  // namespace detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
