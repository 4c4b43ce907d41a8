// CUDA in tests: skipping where there is no device, and operands that mirror those of the CPU.
#pragma once

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <string>

#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>

#include "support/operand.hpp"

/// First line of a test that needs a device.
#define TENON_NEEDS_CUDA() \
  if (tenon::Runtime<tenon::Cuda>::device_count() == 0) SKIP("there is no CUDA device")

namespace support {

/// A copy of an Operand on a device: the same strides, and the same bytes around and between the elements.
template <class T, std::size_t Rank>
class OnDevice {
 public:
  OnDevice(tenon::Context<tenon::Cuda>& ctx, const Operand<T, Rank>& host)
      : ctx_(ctx), storage_(tenon::allocate_storage(ctx, host.memory_bytes())) {
    tenon::detail::copy_bytes(ctx, storage_.data(), host.memory(), host.memory_bytes(), tenon::DeviceKind::cuda,
                              tenon::DeviceKind::cpu);
    auto* first = storage_.data() + (reinterpret_cast<const std::byte*>(host.view().data()) - host.memory());
    view_ = {reinterpret_cast<T*>(first), host.view().layout()};
  }

  [[nodiscard]] const tenon::View<T, Rank, tenon::Cuda>& view() const { return view_; }
  operator tenon::View<T, Rank, tenon::Cuda>() const { return view_; }
  operator tenon::View<const T, Rank, tenon::Cuda>() const { return view_; }

  /// Copies every byte back into the Operand that this was made from, or one of the same size and form.
  void read_back(Operand<T, Rank>& host) const {
    tenon::detail::copy_bytes(ctx_, host.memory(), storage_.data(), host.memory_bytes(), tenon::DeviceKind::cpu,
                              tenon::DeviceKind::cuda);
  }

 private:
  tenon::Context<tenon::Cuda>& ctx_;
  tenon::Storage<tenon::Cuda> storage_;
  tenon::View<T, Rank, tenon::Cuda> view_;
};

template <class T, std::size_t Rank>
OnDevice(tenon::Context<tenon::Cuda>&, const Operand<T, Rank>&) -> OnDevice<T, Rank>;

/// The elements of an operand in a tensor of the device, aligned and without gaps.
template <class T, std::size_t Rank>
tenon::Tensor<T, Rank, tenon::Cuda> upload(tenon::Context<tenon::Cuda>& ctx, const Operand<T, Rank>& host) {
  auto result = tenon::empty<T>(ctx, host.view().sizes());
  tenon::copy(ctx, tenon::View<T, Rank, tenon::Cuda>(result), tenon::View<const T, Rank>(host.view()));
  return result;
}

/// What tenon says when `body` is called.
template <class Body>
std::string message_of(Body&& body) {
  try {
    body();
  } catch (const tenon::Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

}  // namespace support
