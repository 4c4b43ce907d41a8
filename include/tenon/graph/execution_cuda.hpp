// Execution<Cuda>: steps captured in a CUDA graph and replayed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>
#include <tenon/cuda/graph.hpp>
#include <tenon/cuda/runtime.hpp>
#include <tenon/cuda/uploader.hpp>
#include <tenon/graph/execution.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace graph::detail {

/// Runs in a context of its own, whose scratch memory stays where captured work has it. Each run waits for the caller's
/// context first, and has ended when it returns.
template <>
class Execution<Cuda> {
 public:
  explicit Execution(Context<Cuda>& ctx) : own_(ctx.ordinal()) {
    own_.set_graphs(ctx.graphs());
    own_.set_dependent_launch(ctx.dependent_launch());
    ctx.synchronize();  // constants may still be on their way
  }

  std::byte* allocate(std::size_t bytes) {
    storage_ = allocate_storage(own_, bytes);
    clear(storage_.data(), bytes);
    return storage_.data();
  }
  [[nodiscard]] const Storage<Cuda>& storage() const noexcept { return storage_; }

  [[nodiscard]] static bool reads(const Context<Cuda>& ctx, const AnyTensor& tensor) {
    return tensor.device() == DeviceKind::cuda && tensor.is_contiguous() &&
           reinterpret_cast<std::uintptr_t>(tensor.data()) % 16 == 0 &&  // what kernels and cuDNN read at once
           !tenon::detail::is_elsewhere(ctx, tensor.data());
  }

  void upload(std::byte* to, const AnyTensor& from) {
    if (from.device() == DeviceKind::cuda) {
      copy_on_device(to, from);
      return;
    }
    if (!uploader_) uploader_.emplace(own_);
    uploader_->copy(to, from);
  }
  void upload_done() {
    if (uploader_) uploader_->finish();
    uploader_.reset();
    own_.synchronize();
  }
  void clear(std::byte* to, std::size_t bytes) {
    if (bytes == 0) return;
    const auto device = own_.activate();
    tenon::detail::check_cuda(cudaMemsetAsync(to, 0, bytes, own_.stream()), "clearing memory");
    own_.synchronize();
  }

  [[nodiscard]] AnyTensor host_input(std::byte* to, const TensorType& type) {
    const auto device = own_.activate();
    const Storage<Cpu> pinned = Runtime<Cuda>::allocate_pinned(type.bytes());
    std::memset(pinned.data(), 0, type.bytes());
    inputs_.push_back({to, pinned, type.bytes(), false});
    std::vector<std::int64_t> strides(type.rank());
    tenon::detail::row_major_strides(type.shape, strides);
    return tensor_at<Cpu>(pinned, pinned.data(), type.dtype, type.shape, strides);
  }
  void set_input(Context<Cuda>& ctx, std::size_t i, const AnyTensor& host, const AnyTensor& from) {
    auto* to = const_cast<std::byte*>(host.data());
    if (from.device() == DeviceKind::cpu) {
      Context<Cpu> one(1);
      const AnyTensor packed = from.contiguous(one);
      if (to != packed.data()) std::memcpy(to, packed.data(), packed.nbytes());
    } else if (from.dtype() == DType::int64 && from.numel() == 1) {  // places are checked on the host
      const AnyTensor packed = from.cpu(ctx);
      std::memcpy(to, packed.data(), packed.nbytes());
    } else {
      ctx.synchronize();
      if (inputs_[i].to != from.data()) copy_on_device(inputs_[i].to, from);
      inputs_[i].is_set = true;
    }
  }

  /// What was set on the device for an evaluation that did not come about.
  void forget_inputs() noexcept {
    for (Input& input : inputs_) input.is_set = false;
  }

  void run(Context<Cuda>& ctx, std::span<const Step<Cuda>> steps) {
    if (ctx.ordinal() != own_.ordinal()) {
      throw DeviceError("graph: compiled for CUDA device " + std::to_string(own_.ordinal()) +
                        ", but the context is on device " + std::to_string(ctx.ordinal()));
    }
    ctx.synchronize();
    {
      const auto device = own_.activate();
      for (Input& input : inputs_) {
        if (!input.is_set) {
          tenon::detail::check_cuda(
              cudaMemcpyAsync(input.to, input.pinned.data(), input.bytes, cudaMemcpyHostToDevice, own_.stream()),
              "copying an input to the device");
        }
        input.is_set = false;
      }
    }
    const auto work = [&] {
      for (const Step<Cuda>& step : steps) step(own_);
    };
    // The first run is not captured, so that every kernel is loaded and scratch memory has its size.
    if (!own_.graphs() || !warm_) {
      work();
    } else {
      if (!captured_) captured_.emplace(own_, work);
      captured_->launch(own_);
    }
    own_.synchronize();
    warm_ = true;
  }

 private:
  struct Input {
    std::byte* to;
    Storage<Cpu> pinned;
    std::size_t bytes;
    bool is_set;  // on the device already, for the next run
  };

  void copy_on_device(std::byte* to, const AnyTensor& from) {
    const AnyTensor packed = from.to(own_).contiguous(own_);
    tenon::detail::copy_bytes(own_, to, packed.data(), packed.nbytes(), DeviceKind::cuda, DeviceKind::cuda);
  }

  Context<Cuda> own_;
  Storage<Cuda> storage_;
  std::optional<Uploader<Cuda>> uploader_;
  std::vector<Input> inputs_;
  std::optional<tenon::detail::CudaGraph> captured_;
  bool warm_ = false;
};

}  // namespace graph::detail
TENON_HIDDEN_END
TENON_NAMESPACE_END
