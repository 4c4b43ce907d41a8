// linear on a GPU, with the five matrices of Qwen2.5-1.5B: few rows against reading memory, many against a large product.
// The twin is cuBLASLt, asked for its first choice.
#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tenon/ops/linear.hpp>

#include "operators_cuda.hpp"

namespace {

using bench::Card;
using bench::CudaContext;
using bench::DeviceTensor;
using bench::DeviceView;
using tenon::bfloat16;
using tenon::float16;
using tenon::detail::check_cublas;

struct Shape {
  std::int64_t m, n, k;
};

/// out = in · weightᵀ by cuBLASLt: row-major matrices are column-major ones, transposed, so that is outᵀ = weight · inᵀ.
template <class T>
class RawProduct {
 public:
  RawProduct(CudaContext& ctx, const Shape& s)
      : ctx_(ctx), workspace_(tenon::empty<float>(ctx, {workspace_bytes / 4})) {
    const auto device = ctx.activate();
    check_cublas(cublasLtCreate(&handle_), "starting cuBLASLt");
    try {
      choose(s);
    } catch (...) {
      cublasLtDestroy(handle_);
      throw;
    }
  }
  RawProduct(const RawProduct&) = delete;
  RawProduct& operator=(const RawProduct&) = delete;
  ~RawProduct() { cublasLtDestroy(handle_); }

  void operator()(T* out, const T* in, const T* weight) {
    const float one = 1.0f;
    const float zero = 0.0f;
    check_cublas(
        cublasLtMatmul(handle_, &product_, &one, weight, &weight_, in, &in_, &zero, out, &out_, out, &out_,
                       &choice_.algo, workspace_.data(), static_cast<std::size_t>(workspace_bytes), ctx_.stream()),
        "a product of cuBLASLt");
  }

 private:
  static constexpr std::int64_t workspace_bytes = std::int64_t{32} << 20;

  void choose(const Shape& s) {
    check_cublas(cublasLtMatmulDescInit(&product_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cuBLASLt");
    const cublasOperation_t transposed = CUBLAS_OP_T;
    check_cublas(cublasLtMatmulDescSetAttribute(&product_, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed),
                 "cuBLASLt");
    const auto layout = [](cublasLtMatrixLayoutOpaque_t& to, std::int64_t rows, std::int64_t columns) {
      constexpr cudaDataType_t type = std::is_same_v<T, bfloat16>  ? CUDA_R_16BF
                                      : std::is_same_v<T, float16> ? CUDA_R_16F
                                                                   : CUDA_R_32F;
      check_cublas(cublasLtMatrixLayoutInit(&to, type, static_cast<std::uint64_t>(rows),
                                            static_cast<std::uint64_t>(columns), rows),
                   "cuBLASLt");
    };
    layout(weight_, s.k, s.n);
    layout(in_, s.k, s.m);
    layout(out_, s.n, s.m);
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_cublas(cublasLtMatmulPreferenceInit(&preference), "cuBLASLt");
    const auto bytes = static_cast<std::uint64_t>(workspace_bytes);
    check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                      sizeof bytes),
                 "cuBLASLt");
    int found = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(handle_, &product_, &weight_, &in_, &out_, &out_, &preference, 1,
                                                &choice_, &found),
                 "choosing a product of cuBLASLt");
    if (found == 0) throw tenon::DeviceError("cuBLASLt has no product of this shape");
  }

  CudaContext& ctx_;
  DeviceTensor<float, 1> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDescOpaque_t product_{};
  cublasLtMatrixLayoutOpaque_t weight_{};
  cublasLtMatrixLayoutOpaque_t in_{};
  cublasLtMatrixLayoutOpaque_t out_{};
  cublasLtMatmulHeuristicResult_t choice_{};
};

template <class T>
struct Operands {
  Operands(CudaContext& ctx, const Shape& s)
      : in(bench::random_on_device<T, 2>(ctx, {s.m, s.k})),
        weight(bench::random_on_device<T, 2>(ctx, {s.n, s.k})),
        out(tenon::empty<T>(ctx, {s.m, s.n})) {}
  DeviceTensor<T, 2> in, weight, out;
};

template <class T>
void product(benchmark::State& state, Card& card, const Shape& s, bool raw) {
  CudaContext& ctx = card.context();
  const double bytes = static_cast<double>(sizeof(T)) * static_cast<double>(s.n * s.k + s.m * s.k + s.m * s.n);
  const bool few = s.m <= 8;
  const double amount = few ? bytes : 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n * s.k);
  std::vector<Operands<T>> sets;
  const std::size_t count = card.rotation(bytes);
  for (std::size_t i = 0; i < count; ++i) sets.emplace_back(ctx, s);
  const bench::Limit limit = few ? bench::Limit::read : bench::Limit::product;
  if (raw) {
    RawProduct<T> multiply(ctx, s);
    bench::measure<T>(state, card, limit, amount, count,
                      [&](std::size_t i) { multiply(sets[i].out.data(), sets[i].in.data(), sets[i].weight.data()); });
    ctx.synchronize();
  } else {
    bench::measure<T>(state, card, limit, amount, count, [&](std::size_t i) {
      tenon::linear(ctx, DeviceView<T, 2>(sets[i].out), sets[i].in, DeviceView<T, 2>(sets[i].weight));
    });
  }
}

template <class T>
void register_type(Card& card) {
  struct Matrix {
    const char* name;
    std::int64_t n, k;
  };
  static constexpr Matrix matrices[] = {{"qkv_proj", 2048, 1536},
                                        {"o_proj", 1536, 1536},
                                        {"gate_up_proj", 17920, 1536},
                                        {"down_proj", 1536, 8960},
                                        {"lm_head", 151936, 1536}};
  for (const std::int64_t m : {1, 8, 128, 2048}) {
    for (const Matrix& matrix : matrices) {
      for (const bool raw : {false, true}) {
        const Shape shape{m, matrix.n, matrix.k};
        const std::string name = std::string(raw ? "linear_cublaslt/" : "linear/") + bench::type_name<T>() +
                                 "/m=" + std::to_string(m) + " " + matrix.name + " " + std::to_string(matrix.n) + "x" +
                                 std::to_string(matrix.k);
        bench::add_benchmark(name,
                             [&card, shape, raw](benchmark::State& state) { product<T>(state, card, shape, raw); });
      }
    }
  }
}

}  // namespace

namespace bench {

void register_cuda_linear(Card& card) {
  register_type<bfloat16>(card);
  register_type<float16>(card);
  register_type<float>(card);
}

}  // namespace bench
