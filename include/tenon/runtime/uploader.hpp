// Uploader: brings tensors from CPU memory, such as mapped files, to where a model computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/error.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// Called while weights are read: bytes done, and bytes in all.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// One object per load and thread. What it returns may be used in its context at once, and in others when `finish` has
/// returned. Uploader<Cuda> is defined with Context<Cuda>.
template <DeviceTag Device>
class Uploader;

/// On the CPU tensors stay where they are, unless their dtype has to change.
template <>
class Uploader<Cpu> {
 public:
  /// `total` bytes are expected; the CPU reports none of them.
  explicit Uploader(Context<Cpu>& ctx, std::int64_t total = 0, const LoadProgress& progress = {}) : ctx_(ctx) {
    static_cast<void>(total);
    static_cast<void>(progress);
  }

  /// The elements of `source` as W. Throws ShapeError for another rank.
  template <class W, std::size_t Rank>
  [[nodiscard]] Tensor<const W, Rank, Cpu> upload(const AnyTensor& source) {
    return source.cast(ctx_, dtype_of<W>).template as<const W, Rank, Cpu>();
  }

  void finish() const noexcept {}

 private:
  Context<Cpu>& ctx_;
};

TENON_NAMESPACE_END
