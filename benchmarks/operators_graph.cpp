// pointwise, matmul, sliced_softmax, replace_slice, and rms_norm as graphs call them: a large point-wise program, limited
// by the bytes that it moves, and the small calls of a decoder that handles one position, limited by their overhead.

#include <array>
#include <cstdint>
#include <span>

#include <tenon/ops/matmul.hpp>
#include <tenon/ops/pointwise.hpp>
#include <tenon/ops/replace_slice.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/sliced_softmax.hpp>

#include "operators_support.hpp"

#define TENON_SIMD_BODY <operators_graph_inl.hpp>
#include <tenon/cpu/simd/foreach_level.hpp>

namespace {

using bench::random_tensor;
using tenon::Cpu;
using tenon::PointwiseCode;
using tenon::PointwiseProgram;
using tenon::PointwiseStep;
using tenon::PointwiseView;
using tenon::Sizes;
using tenon::View;

constexpr PointwiseStep load(std::uint8_t operand) { return {PointwiseCode::load, operand}; }
constexpr PointwiseStep sum{PointwiseCode::sum, 0};
constexpr PointwiseStep product{PointwiseCode::hadamard_product, 0};
constexpr PointwiseStep complex_product{PointwiseCode::complex_hadamard_product, 0};
constexpr PointwiseStep relu{PointwiseCode::relu, 0};
constexpr PointwiseStep silu{PointwiseCode::silu, 0};

/// Six nodes over 16 Mi elements; with `operands` streams to read and one to write.
constexpr std::array sums{load(0), load(1), sum, relu, load(2), product, load(1), sum, load(0), product, relu};
constexpr std::array gated{load(0), silu, load(1), product, load(2), sum, relu, load(0), product, load(1), sum};
constexpr std::int64_t many = std::int64_t{16} << 20;

struct Streams {
  explicit Streams(bench::CpuContext& ctx) {
    for (auto& x : in) x = random_tensor<float, 4>(ctx, {1, 1, 1, many});
    out = random_tensor<float, 4>(ctx, {1, 1, 1, many});
  }
  std::array<tenon::Tensor<float, 4>, 3> in;
  tenon::Tensor<float, 4> out;
};
constexpr double moved = 4.0 * static_cast<double>(many) * 4.0;

void pointwise_large(benchmark::State& state, std::span<const PointwiseStep> steps) {
  bench::CpuContext ctx(2);
  const Streams x(ctx);
  const PointwiseView<const float, Cpu> operands[] = {x.in[0], x.in[1], x.in[2]};
  const PointwiseProgram program(steps);
  bench::measure_bytes(state, ctx, moved, [&] { tenon::pointwise<float>(ctx, x.out, operands, program); });
}

/// The same bytes: three streams are added, with stores past the caches.
void plain_streams(benchmark::State& state) {
  bench::CpuContext ctx(2);
  const Streams x(ctx);
  bench::measure_bytes(state, ctx, moved, [&] {
    tenon::parallel_for(ctx, many / 64, 1, [&](std::int64_t begin, std::int64_t end) {
      tenon::detail::visit_simd_level(ctx.simd_level(), [&](auto level) {
        add_streams(level, x.out.data(), x.in[0].data(), x.in[1].data(), x.in[2].data(), begin * 64, end * 64);
      });
    });
  });
}

template <class Body>
void measure_calls(benchmark::State& state, Body&& body) {
  for ([[maybe_unused]] auto _ : state) {
    body();
    benchmark::ClobberMemory();
  }
}

/// A call on (…) elements with a second operand of these strides.
void pointwise_small(benchmark::State& state, Sizes<4> sizes, Sizes<4> strides, std::span<const PointwiseStep> steps) {
  bench::CpuContext ctx(1);
  const auto a = random_tensor<float, 4>(ctx, sizes);
  const auto b = random_tensor<float, 4>(ctx, sizes);
  const auto out = random_tensor<float, 4>(ctx, sizes);
  const PointwiseView<const float, Cpu> operands[] = {a, {b.data(), tenon::Layout<4>(sizes, strides)}};
  const PointwiseProgram program(steps);
  measure_calls(state, [&] { tenon::pointwise<float>(ctx, out, operands, program); });
}

constexpr std::array add_steps{load(0), load(1), sum};
constexpr std::array gate_steps{load(0), silu, load(1), product};
constexpr std::array scale_steps{load(0), load(1), product};
constexpr std::array rotate_steps{load(0), load(1), complex_product};

/// a (batch, m, n) · b (batch, n, k) with strides of b.
void matmul_small(benchmark::State& state, Sizes<3> a_sizes, std::int64_t k, Sizes<3> strides,
                  std::span<const PointwiseStep> steps = {}) {
  bench::CpuContext ctx(1);
  const auto a = random_tensor<float, 3>(ctx, a_sizes);
  const Sizes<3> b_sizes{a_sizes[0], a_sizes[2], k};
  std::int64_t last = 0;
  for (std::size_t i = 0; i < 3; ++i) last += (b_sizes[i] - 1) * strides[i];
  const auto memory = random_tensor<float, 1>(ctx, {last + 1});
  const View<const float, 3> b(memory.data(), tenon::Layout<3>(b_sizes, strides));
  const auto out = random_tensor<float, 3>(ctx, {a_sizes[0], a_sizes[1], k});
  const auto other = random_tensor<float, 3>(ctx, out.sizes());
  const View<const float, 3> operand = other;
  tenon::MatmulEpilogue<float, Cpu> epilogue;
  const PointwiseProgram program(steps.empty() ? std::span<const PointwiseStep>(add_steps) : steps);
  if (!steps.empty()) epilogue = {&program, {&operand, 1}};
  measure_calls(state, [&] { tenon::matmul<float>(ctx, out, a, b, epilogue); });
}

void softmax_small(benchmark::State& state, Sizes<3> sizes) {
  bench::CpuContext ctx(1);
  const auto in = random_tensor<float, 3>(ctx, sizes);
  const auto out = random_tensor<float, 3>(ctx, sizes);
  const std::int64_t prefix = sizes[2] * 3 / 4;
  const View<const std::int64_t, 1> place(&prefix, Sizes<1>{1});
  measure_calls(state, [&] { tenon::sliced_softmax<float>(ctx, out, in, place); });
}

void replace_small(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto x = random_tensor<float, 4>(ctx, {256, 1, 4, 8});
  const auto rows = random_tensor<float, 4>(ctx, {1, 1, 4, 8});
  const std::int64_t place[] = {20, 21};
  const View<const std::int64_t, 1> begin(place, Sizes<1>{1});
  const View<const std::int64_t, 1> end(place + 1, Sizes<1>{1});
  measure_calls(state, [&] { tenon::replace_slice<float>(ctx, x, rows, begin, end); });
}

void rms_norm_small(benchmark::State& state) {
  bench::CpuContext ctx(1);
  const auto in = random_tensor<float, 2>(ctx, {1, 64});
  const auto weight = random_tensor<float, 1>(ctx, {64});
  const auto out = random_tensor<float, 2>(ctx, {1, 64});
  measure_calls(state, [&] { tenon::rms_norm<float>(ctx, out, in, weight, 1e-5); });
}

/// The strides of b for a weight (k, n) that is seen transposed, and for a matrix (n, k).
constexpr Sizes<3> transposed(std::int64_t n, std::int64_t k) { return {n * k, 1, n}; }
constexpr Sizes<3> plain(std::int64_t n, std::int64_t k) { return {n * k, k, 1}; }

BENCHMARK_CAPTURE(pointwise_large, 6_nodes, std::span<const PointwiseStep>(sums))
    ->Name("pointwise/float32/six nodes, 3 x 16Mi")
    ->UseRealTime();
BENCHMARK_CAPTURE(pointwise_large, 6_nodes_silu, std::span<const PointwiseStep>(gated))
    ->Name("pointwise/float32/six nodes with silu, 3 x 16Mi")
    ->UseRealTime();
BENCHMARK(plain_streams)->Name("pointwise_loop/float32/3 x 16Mi read and added")->UseRealTime();

#define TENON_BENCH_CALL(function, name, ...) \
  BENCHMARK_CAPTURE(function, call, __VA_ARGS__)->Name(name)->Unit(benchmark::kNanosecond)
using Steps = std::span<const PointwiseStep>;
TENON_BENCH_CALL(pointwise_small, "pointwise/float32/sum 64", Sizes<4>{1, 1, 1, 64}, Sizes<4>{64, 64, 64, 1},
                 Steps(add_steps));
TENON_BENCH_CALL(pointwise_small, "pointwise/float32/silu and product 172", Sizes<4>{1, 1, 1, 172},
                 Sizes<4>{172, 172, 172, 1}, Steps(gate_steps));
TENON_BENCH_CALL(pointwise_small, "pointwise/float32/scaled by a number 4x2x256", Sizes<4>{1, 4, 2, 256},
                 Sizes<4>{0, 0, 0, 0}, Steps(scale_steps));
TENON_BENCH_CALL(pointwise_small, "pointwise/float32/rotation 8x4x2", Sizes<4>{1, 8, 4, 2}, Sizes<4>{0, 0, 2, 1},
                 Steps(rotate_steps));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 64, transposed", Sizes<3>{1, 1, 64}, 64, transposed(64, 64));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 32, transposed", Sizes<3>{1, 1, 64}, 32, transposed(64, 32));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 172, transposed", Sizes<3>{1, 1, 64}, 172, transposed(64, 172));
TENON_BENCH_CALL(matmul_small, "matmul/float32/172 to 64, transposed", Sizes<3>{1, 1, 172}, 64, transposed(172, 64));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 512, transposed", Sizes<3>{1, 1, 64}, 512, transposed(64, 512));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 64", Sizes<3>{1, 1, 64}, 64, plain(64, 64));
TENON_BENCH_CALL(matmul_small, "matmul/float32/172 to 64", Sizes<3>{1, 1, 172}, 64, plain(172, 64));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 64, transposed, with a sum", Sizes<3>{1, 1, 64}, 64,
                 transposed(64, 64), Steps(add_steps));
TENON_BENCH_CALL(matmul_small, "matmul/float32/64 to 172, transposed, with silu and a product", Sizes<3>{1, 1, 64}, 172,
                 transposed(64, 172), Steps(gate_steps));
TENON_BENCH_CALL(matmul_small, "matmul/float32/scores 4x2x8 with 256 keys", Sizes<3>{4, 2, 8}, 256, Sizes<3>{8, 1, 32});
TENON_BENCH_CALL(matmul_small, "matmul/float32/4x2x256 weights with values of 8", Sizes<3>{4, 2, 256}, 8,
                 Sizes<3>{8, 32, 1});
TENON_BENCH_CALL(matmul_small, "matmul/float32/scores 32x1x128 with 256 keys", Sizes<3>{32, 1, 128}, 256,
                 Sizes<3>{128, 1, 4096});
TENON_BENCH_CALL(matmul_small, "matmul/float32/32x1x256 weights with values of 128", Sizes<3>{32, 1, 256}, 128,
                 Sizes<3>{128, 4096, 1});
TENON_BENCH_CALL(softmax_small, "sliced_softmax/float32/4x2x256", Sizes<3>{4, 2, 256});
BENCHMARK(replace_small)->Name("replace_slice/float32/4x8 into 256")->Unit(benchmark::kNanosecond);
BENCHMARK(rms_norm_small)->Name("rms_norm/float32/1x64")->Unit(benchmark::kNanosecond);
#undef TENON_BENCH_CALL

}  // namespace
