// CublasLt: the products that linear and matmul give to cuBLASLt, with the algorithms that were chosen for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/toolkit.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// The largest power of two, at most 256, that divides the address of every row of a matrix, in bytes.
inline std::uint32_t row_alignment(const void* data, std::int64_t row_bytes) noexcept {
  const std::uintptr_t bits = reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(row_bytes) | 256u;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// What decides which algorithms can form out (m, n) = in (m, k) · weight (n, k)ᵀ + bias (n): all but `out` of one dtype,
/// rows contiguous and `…_row` elements apart, at least as many as a row has. Where `…_by_columns` says so, that holds for
/// the columns of a factor instead. The matrices of a batch are `…_batch` elements apart. Alignments as row_alignment gives
/// them.
struct ProductShape {
  DType dtype = DType::float32;
  DType out_dtype = DType::float32;
  bool has_bias = false;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t out_row = 0;
  std::int64_t in_row = 0;
  std::int64_t weight_row = 0;
  bool in_by_columns = false;
  bool weight_by_columns = false;
  std::int32_t batch = 1;
  std::int64_t out_batch = 0;
  std::int64_t in_batch = 0;
  std::int64_t weight_batch = 0;
  std::uint32_t out_alignment = 1;
  std::uint32_t in_alignment = 1;
  std::uint32_t weight_alignment = 1;

  /// An order for maps.
  friend bool operator<(const ProductShape& a, const ProductShape& b) {
    const auto key = [](const ProductShape& s) {
      return std::tie(s.dtype, s.out_dtype, s.has_bias, s.m, s.n, s.k, s.out_row, s.in_row, s.weight_row,
                      s.in_by_columns, s.weight_by_columns, s.batch, s.out_batch, s.in_batch, s.weight_batch,
                      s.out_alignment, s.in_alignment, s.weight_alignment);
    };
    return key(a) < key(b);
  }
};

/// A cuBLASLt handle, made with the first product, its scratch memory, and one algorithm for every shape seen. Products
/// accumulate in float (double for double; no TF32), round once, and give the same bits every time. One thread at a time,
/// with the handle's device current.
class CublasLt {
 public:
  using Allocate = std::function<Storage<Cuda>(std::size_t)>;

  /// `allocate` is called once, for scratch memory of so many bytes, when an algorithm first needs some.
  CublasLt(std::size_t workspace_bytes, Allocate allocate)
      : workspace_bytes_(workspace_bytes), allocate_(std::move(allocate)) {}
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;
  ~CublasLt() {
    if (handle_ != nullptr) static_cast<void>(cublasLtDestroy(handle_));
  }

  [[nodiscard]] cublasLtHandle_t handle() {
    if (handle_ == nullptr) check_cublas(cublasLtCreate(&handle_), "starting cuBLASLt");
    return handle_;
  }

  /// Puts a product into the stream. `bias` has n elements one after another, aligned to 16 bytes, if the shape has one.
  /// False where cuBLASLt has no algorithm for it; nothing has been written then. The first call of a shape chooses the
  /// algorithm, later ones allocate nothing.
  [[nodiscard]] bool multiply(cudaStream_t stream, const ProductShape& shape, void* out, const void* in,
                              const void* weight, const void* bias) {
    Call call(shape, out, in, weight, bias);
    if (const auto found = choices_.find(shape); found != choices_.end()) {
      if (!found->second.usable) return false;
      if (usable(run(stream, call, found->second))) return true;
    }
    if (choices_.size() >= most_choices) choices_.clear();
    for (const Choice& choice : candidates(shape, call)) {
      if (!choice.usable || !usable(run(stream, call, choice))) continue;
      choices_.insert_or_assign(shape, choice);
      return true;
    }
    choices_.insert_or_assign(shape, Choice{});
    return false;
  }

 private:
  /// False for what cuBLASLt does not do. Anything else that is no success, such as short memory, may be another time.
  static bool usable(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
        status == CUBLAS_STATUS_ARCH_MISMATCH) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check_cublas(status, "linear");
    return true;
  }

  /// Prompts of every length add a few shapes each: some hundred bytes a shape.
  static constexpr std::size_t most_choices = 8192;

  struct Choice {
    bool usable = false;
    std::size_t workspace_bytes = 0;
    cublasLtMatmulAlgo_t algorithm{};
  };

  static cudaDataType_t data_type(DType dtype) {
    switch (dtype) {
      case DType::float32: return CUDA_R_32F;
      case DType::float64: return CUDA_R_64F;
      case DType::float16: return CUDA_R_16F;
      case DType::bfloat16: return CUDA_R_16BF;
      default: throw DTypeError("cuda: no matrix product of dtype " + std::string(dtype_name(dtype)));
    }
  }

  /// Operands and descriptors. cuBLASLt thinks in columns: row-major out is outᵀ (n, m) = weight · inᵀ to it, and the rows
  /// of a matrix are its columns.
  struct Call {
    cublasLtMatmulDescOpaque_t product{};
    cublasLtMatrixLayoutOpaque_t weight_layout{};
    cublasLtMatrixLayoutOpaque_t in_layout{};
    cublasLtMatrixLayoutOpaque_t out_layout{};
    void* out;
    const void* in;
    const void* weight;
    bool is_double;

    Call(const ProductShape& shape, void* out_, const void* in_, const void* weight_, const void* bias)
        : out(out_), in(in_), weight(weight_), is_double(shape.dtype == DType::float64) {
      const cudaDataType_t type = data_type(shape.dtype);
      check_cublas(cublasLtMatmulDescInit(&product, is_double ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                          is_double ? CUDA_R_64F : CUDA_R_32F),
                   "linear");
      set(CUBLASLT_MATMUL_DESC_TRANSA, shape.weight_by_columns ? CUBLAS_OP_N : CUBLAS_OP_T);
      set(CUBLASLT_MATMUL_DESC_TRANSB, shape.in_by_columns ? CUBLAS_OP_T : CUBLAS_OP_N);
      if (shape.has_bias) {
        set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type));
        set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
      }
      const auto layout = [&](cublasLtMatrixLayoutOpaque_t& to, std::int64_t rows, std::int64_t columns,
                              std::int64_t stride, std::int64_t batch_stride, cudaDataType_t of) {
        check_cublas(cublasLtMatrixLayoutInit(&to, of, static_cast<std::uint64_t>(rows),
                                              static_cast<std::uint64_t>(columns), stride),
                     "linear");
        if (shape.batch == 1) return;
        check_cublas(
            cublasLtMatrixLayoutSetAttribute(&to, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &shape.batch, sizeof shape.batch),
            "linear");
        check_cublas(cublasLtMatrixLayoutSetAttribute(&to, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &batch_stride,
                                                      sizeof batch_stride),
                     "linear");
      };
      if (shape.weight_by_columns) {
        layout(weight_layout, shape.n, shape.k, shape.weight_row, shape.weight_batch, type);
      } else {
        layout(weight_layout, shape.k, shape.n, shape.weight_row, shape.weight_batch, type);
      }
      if (shape.in_by_columns) {
        layout(in_layout, shape.m, shape.k, shape.in_row, shape.in_batch, type);
      } else {
        layout(in_layout, shape.k, shape.m, shape.in_row, shape.in_batch, type);
      }
      layout(out_layout, shape.n, shape.m, shape.out_row, shape.out_batch, data_type(shape.out_dtype));
    }

   private:
    template <class Value>
    void set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
      check_cublas(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof(value)), "linear");
    }
  };

  /// What cuBLASLt proposes, best first. Partial sums must be added in a fixed order and in the type that they were formed
  /// in, which leaves one way of splitting k.
  [[nodiscard]] std::array<Choice, 8> candidates(const ProductShape& shape, Call& call) {
    cublasLtMatmulPreferenceOpaque_t preference{};
    check_cublas(cublasLtMatmulPreferenceInit(&preference), "linear");
    const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)), "linear");
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace_bytes_));
    prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
           static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.weight_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.in_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape.out_alignment);
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape.out_alignment);

    std::array<cublasLtMatmulHeuristicResult_t, 8> found{};
    std::array<Choice, 8> result{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle(), &call.product, &call.weight_layout, &call.in_layout, &call.out_layout, &call.out_layout, &preference,
        static_cast<int>(found.size()), found.data(), &count);
    if (!usable(status)) count = 0;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      result[i] = {found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= workspace_bytes_,
                   found[i].workspaceSize, found[i].algo};
    }
    return result;
  }

  [[nodiscard]] cublasStatus_t run(cudaStream_t stream, Call& call, const Choice& choice) {
    if (choice.workspace_bytes != 0 && workspace_.data() == nullptr) workspace_ = allocate_(workspace_bytes_);
    static constexpr float one_float = 1.0f;
    static constexpr float zero_float = 0.0f;
    static constexpr double one_double = 1.0;
    static constexpr double zero_double = 0.0;
    const void* one = call.is_double ? static_cast<const void*>(&one_double) : &one_float;
    const void* zero = call.is_double ? static_cast<const void*>(&zero_double) : &zero_float;
    return cublasLtMatmul(handle(), &call.product, one, call.weight, &call.weight_layout, call.in, &call.in_layout,
                          zero, call.out, &call.out_layout, call.out, &call.out_layout, &choice.algorithm,
                          choice.workspace_bytes == 0 ? nullptr : workspace_.data(), choice.workspace_bytes, stream);
  }

  std::size_t workspace_bytes_;
  Allocate allocate_;
  Storage<Cuda> workspace_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<ProductShape, Choice> choices_;
};

}  // namespace detail
TENON_NAMESPACE_END
