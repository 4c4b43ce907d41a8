// CudnnPlan: a region as cuDNN compiled it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/cudnn.hpp>
#include <tenon/graph/region_form.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace graph {

struct CudnnOptions {
  /// Most bytes of scratch memory that a plan may need.
  std::size_t workspace_bytes = std::size_t{64} << 20;
  /// Whether products of float32 may round their factors to TF32, 10 bits of mantissa. Off: sums of float products, as
  /// everywhere in tenon.
  bool allow_tf32 = false;
};

namespace detail {

/// An execution plan, with all that it was made of. Immutable; running it takes the handle's lock.
class CudnnPlan {
 public:
  /// Null where cuDNN has nothing that fits; `reason` says why then. The handle is locked and its device current.
  [[nodiscard]] static std::shared_ptr<const CudnnPlan> make(std::shared_ptr<tenon::detail::CudnnHandle> handle,
                                                             const RegionForm& form, const CudnnOptions& options,
                                                             std::string& reason);

  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return workspace_bytes_; }
  /// cuDNN's number for the engine that it chose.
  [[nodiscard]] std::int64_t engine() const noexcept { return engine_; }

  /// Puts the region into the context's stream. `data`: the inputs, then the result.
  void run(Context<Cuda>& ctx, std::span<std::byte* const> data, std::byte* workspace) const;

 private:
  using Descriptor = tenon::detail::CudnnDescriptor;

  CudnnPlan(std::shared_ptr<tenon::detail::CudnnHandle> handle, const RegionForm& form);

  [[nodiscard]] const Descriptor& keep(Descriptor descriptor) {
    parts_.push_back(std::make_unique<Descriptor>(std::move(descriptor)));
    return *parts_.back();
  }
  const Descriptor& add_tensor(const RegionForm& form, std::size_t value);
  const Descriptor& add_step(const RegionForm& form, std::size_t step, const std::vector<const Descriptor*>& tensors);
  /// Takes the first configuration that the heuristics propose, that computes as tenon does, and that can be compiled.
  [[nodiscard]] bool choose_proposed(cudnnBackendHeurMode_t mode, const RegionForm& form, const CudnnOptions& options,
                                     std::string& reason);
  /// The same among all engines: heuristics propose the fastest, which for float32 all round to TF32.
  [[nodiscard]] bool choose_any(const RegionForm& form, const CudnnOptions& options, std::string& reason);
  [[nodiscard]] bool compile(Descriptor& engine, Descriptor& configuration, const CudnnOptions& options,
                             std::string& reason);
  /// Whether the results of an engine are tenon's but for the order of sums; `reason` says why not.
  [[nodiscard]] static bool computes_as_tenon(const Descriptor& engine, const RegionForm& form,
                                              const CudnnOptions& options, std::string& reason);

  std::shared_ptr<tenon::detail::CudnnHandle> handle_;
  std::vector<std::unique_ptr<Descriptor>> parts_;  // in the order in which they were made
  Descriptor graph_{CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR};
  std::unique_ptr<Descriptor> plan_;
  std::vector<std::int64_t> ids_;  // of what is in memory: the inputs, then the result
  std::vector<std::int64_t> alignments_;
  std::size_t workspace_bytes_ = 0;
  std::int64_t engine_ = 0;
};

inline cudnnDataType_t cudnn_type(DType dtype) {
  switch (dtype) {
    case DType::float16: return CUDNN_DATA_HALF;
    case DType::bfloat16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

inline cudnnPointwiseMode_t cudnn_mode(RegionCode code) {
  switch (code) {
    case RegionCode::sum: return CUDNN_POINTWISE_ADD;
    case RegionCode::hadamard_product: return CUDNN_POINTWISE_MUL;
    case RegionCode::relu: return CUDNN_POINTWISE_RELU_FWD;
    default: return CUDNN_POINTWISE_SWISH_FWD;  // with beta 1
  }
}

inline CudnnPlan::CudnnPlan(std::shared_ptr<tenon::detail::CudnnHandle> handle, const RegionForm& form)
    : handle_(std::move(handle)) {
  std::vector<const Descriptor*> tensors;
  for (std::size_t i = 0; i < form.tensors.size(); ++i) tensors.push_back(&add_tensor(form, i));
  std::vector<cudnnBackendDescriptor_t> operations;
  for (std::size_t i = 0; i < form.steps.size(); ++i) operations.push_back(add_step(form, i, tensors).get());
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, handle_->get());
  graph_.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
             std::span<const cudnnBackendDescriptor_t>(operations));
  graph_.finalize("reading a graph");
}

inline const CudnnPlan::Descriptor& CudnnPlan::add_tensor(const RegionForm& form, std::size_t value) {
  const RegionTensor& tensor = form.tensors[value];
  const auto id = static_cast<std::int64_t>(value) + 1;
  const bool is_virtual = tensor.alignment == 0;
  const std::int64_t alignment = is_virtual ? region_alignment : tensor.alignment;
  if (!is_virtual) {
    ids_.push_back(id);
    alignments_.push_back(alignment);
  }
  Descriptor descriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  // Values that are in no memory have the region's type too: cuDNN then rounds where the nodes do.
  descriptor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, cudnn_type(form.dtype));
  descriptor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(tensor.sizes));
  descriptor.set(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, std::span<const std::int64_t>(tensor.strides));
  descriptor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
  descriptor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment);
  descriptor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, is_virtual);
  descriptor.finalize("describing a tensor");
  return keep(std::move(descriptor));
}

inline const CudnnPlan::Descriptor& CudnnPlan::add_step(const RegionForm& form, std::size_t step,
                                                        const std::vector<const Descriptor*>& tensors) {
  const RegionStep& s = form.steps[step];
  const Descriptor& result = *tensors[form.inputs() + step];
  if (s.code == RegionCode::matmul) {
    Descriptor product(CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    product.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT);
    product.finalize("describing a product");
    Descriptor operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_ADESC, *tensors[s.x]);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_BDESC, *tensors[s.y]);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_CDESC, result);
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, keep(std::move(product)));
    operation.finalize("describing a product");
    return keep(std::move(operation));
  }
  Descriptor pointwise(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  pointwise.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, cudnn_mode(s.code));
  pointwise.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_DATA_FLOAT);
  if (s.code == RegionCode::silu) pointwise.set(CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE, 1.0);
  pointwise.finalize("describing a point-wise operation");
  Descriptor operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, keep(std::move(pointwise)));
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_XDESC, *tensors[s.x]);
  if (s.code == RegionCode::sum || s.code == RegionCode::hadamard_product) {
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *tensors[s.y]);
  }
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_YDESC, result);
  operation.finalize("describing a point-wise operation");
  return keep(std::move(operation));
}

inline bool CudnnPlan::computes_as_tenon(const Descriptor& engine, const RegionForm& form, const CudnnOptions& options,
                                         std::string& reason) {
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  const std::size_t count = engine.get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                       std::span<cudnnBackendNumericalNote_t>(notes));
  const bool is_exact = form.dtype == DType::float32 && form.has_product() && !options.allow_tf32;
  const char* flaw = nullptr;
  for (std::size_t i = 0; i < count; ++i) {
    switch (notes[i]) {
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS: flaw = "rounds its inputs"; break;
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION: flaw = "rounds partial sums"; break;
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC: flaw = "sums in no fixed order"; break;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE: flaw = is_exact ? "rounds to TF32" : flaw; break;
      default: break;
    }
  }
  // Such engines have no numerical note, and cuBLASLt takes TF32 for float32 where it is faster.
  std::array<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT> behaviors{};
  const std::size_t behavior_count = engine.get(CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                                std::span<cudnnBackendBehaviorNote_t>(behaviors));
  for (std::size_t i = 0; is_exact && i < behavior_count; ++i) {
    if (behaviors[i] == CUDNN_BEHAVIOR_NOTE_CUBLASLT_DEPENDENCY) flaw = "may round to TF32 in cuBLASLt";
  }
  if (flaw == nullptr) return true;
  reason = "engine " + std::to_string(engine.get_int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)) + " " + flaw;
  return false;
}

inline bool CudnnPlan::compile(Descriptor& engine, Descriptor& configuration, const CudnnOptions& options,
                               std::string& reason) {
  const std::int64_t number = engine.get_int(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  auto plan = std::make_unique<Descriptor>(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, handle_->get());
  plan->set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  if (!plan->try_finalize("compiling for engine " + std::to_string(number), reason)) return false;
  const std::int64_t bytes = plan->get_int(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
  if (bytes < 0 || static_cast<std::uint64_t>(bytes) > options.workspace_bytes) {
    reason = "engine " + std::to_string(number) + " needs " + std::to_string(bytes) + " bytes of scratch memory";
    return false;
  }
  static_cast<void>(keep(std::move(engine)));
  static_cast<void>(keep(std::move(configuration)));
  plan_ = std::move(plan);
  workspace_bytes_ = static_cast<std::size_t>(bytes);
  engine_ = number;
  return true;
}

inline bool CudnnPlan::choose_proposed(cudnnBackendHeurMode_t mode, const RegionForm& form, const CudnnOptions& options,
                                       std::string& reason) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph_);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
  if (!heuristics.try_finalize("choosing an engine", reason)) return false;
  std::vector<Descriptor> configurations;
  std::vector<cudnnBackendDescriptor_t> found;
  for (auto n = heuristics.count(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR); n > 0; --n) {
    configurations.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    found.push_back(configurations.back().get());
  }
  // Fewer come than were promised where cuDNN finds while it hands them out that it cannot run them.
  std::size_t count = 0;
  if (!found.empty()) {
    count = heuristics.get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                           std::span<cudnnBackendDescriptor_t>(found));
  }
  for (std::size_t i = 0; i < count; ++i) {
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t of_configuration = engine.get();
    static_cast<void>(configurations[i].get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            std::span<cudnnBackendDescriptor_t>(&of_configuration, 1)));
    if (computes_as_tenon(engine, form, options, reason) && compile(engine, configurations[i], options, reason)) {
      return true;
    }
  }
  return false;
}

inline bool CudnnPlan::choose_any(const RegionForm& form, const CudnnOptions& options, std::string& reason) {
  const std::int64_t count = graph_.get_int(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  for (std::int64_t number = 0; number < count; ++number) {
    std::string ignored;
    Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph_);
    engine.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number);
    if (!engine.try_finalize("asking for an engine", ignored)) continue;
    if (!computes_as_tenon(engine, form, options, reason)) continue;
    Descriptor configuration(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    configuration.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
    if (!configuration.try_finalize("configuring engine " + std::to_string(number), ignored)) continue;
    if (compile(engine, configuration, options, reason)) return true;
  }
  return false;
}

inline std::shared_ptr<const CudnnPlan> CudnnPlan::make(std::shared_ptr<tenon::detail::CudnnHandle> handle,
                                                        const RegionForm& form, const CudnnOptions& options,
                                                        std::string& reason) {
  try {
    std::shared_ptr<CudnnPlan> plan(new CudnnPlan(std::move(handle), form));
    reason = "no engine supports it";
    if (plan->choose_proposed(CUDNN_HEUR_MODE_A, form, options, reason) ||
        plan->choose_proposed(CUDNN_HEUR_MODE_FALLBACK, form, options, reason) ||
        plan->choose_any(form, options, reason)) {
      reason.clear();
      return plan;
    }
  } catch (const CudnnError& error) {
    if (!error.is_refusal()) throw;
    reason = error.what();
  }
  return nullptr;
}

inline void CudnnPlan::run(Context<Cuda>& ctx, std::span<std::byte* const> data, std::byte* workspace) const {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (reinterpret_cast<std::uintptr_t>(data[i]) % static_cast<std::uintptr_t>(alignments_[i]) == 0) continue;
    throw DeviceError("cudnn: the address of operand " + std::to_string(i) + " of a subgraph is no multiple of " +
                      std::to_string(alignments_[i]) + ": give constants in memory that is aligned to 16 bytes");
  }
  const auto device = ctx.activate();
  const auto lock = handle_->lock();
  handle_->set_stream(ctx.stream());
  std::vector<void*> pointers(data.begin(), data.end());
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, std::span<const std::int64_t>(ids_));
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, std::span<void* const>(pointers));
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, static_cast<void*>(workspace));
  pack.finalize("describing the operands of a subgraph");
  tenon::detail::check_cudnn(cudnnBackendExecute(handle_->get(), plan_->get(), pack.get()), "running a subgraph");
}

}  // namespace detail
}  // namespace graph
TENON_HIDDEN_END
TENON_NAMESPACE_END
