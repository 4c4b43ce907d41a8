// Execution<Device>: the memory of a compiled graph and the way in which its steps run on a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/graph/lowering.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/storage.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

/// A tensor on memory that `storage` owns.
template <DeviceTag Device>
AnyTensor tensor_at(const Storage<Device>& storage, std::byte* data, DType dtype, const Shape& sizes,
                    const std::vector<std::int64_t>& strides) {
  AnyTensor result;
  const auto with_rank = [&]<std::size_t Rank>() {
    if (sizes.size() != Rank) return;
    Sizes<Rank> to_sizes{};
    Sizes<Rank> to_strides{};
    std::copy(sizes.begin(), sizes.end(), to_sizes.begin());
    std::copy(strides.begin(), strides.end(), to_strides.begin());
    visit_type(dtype, [&]<class T>(std::type_identity<T>) {
      result = Tensor<T, Rank, Device>(storage, reinterpret_cast<T*>(data), Layout<Rank>(to_sizes, to_strides));
    });
  };
  with_rank.template operator()<1>();
  with_rank.template operator()<2>();
  with_rank.template operator()<3>();
  with_rank.template operator()<4>();
  return result;
}

/// One object per executable, used by whoever runs it. Execution<Cuda> is in graph/execution_cuda.hpp.
template <DeviceTag Device>
class Execution;

template <>
class Execution<Cpu> {
 public:
  explicit Execution(Context<Cpu>&) {}

  /// The one arena, zeros.
  std::byte* allocate(std::size_t bytes) {
    storage_ = tenon::detail::allocate_host_block(bytes);
    std::memset(storage_.data(), 0, bytes);
    return storage_.data();
  }
  [[nodiscard]] const Storage<Cpu>& storage() const noexcept { return storage_; }

  /// Whether steps can read a tensor's elements where they are.
  [[nodiscard]] static bool reads(const Context<Cpu>&, const AnyTensor& tensor) {
    return tensor.device() == DeviceKind::cpu && tensor.is_contiguous() &&
           reinterpret_cast<std::uintptr_t>(tensor.data()) % dtype_size(tensor.dtype()) == 0;
  }

  /// Fills memory of the arena while compiling. Any strides.
  void upload(std::byte* to, const AnyTensor& from) const { write(to, from); }
  void upload_done() const noexcept {}
  void clear(std::byte* to, std::size_t bytes) const { std::memset(to, 0, bytes); }

  /// Memory in which the caller leaves an input, for memory `to` of the arena: here the same.
  [[nodiscard]] AnyTensor host_input(std::byte* to, const TensorType& type) {
    std::vector<std::int64_t> strides(type.rank());
    tenon::detail::row_major_strides(type.shape, strides);
    return tensor_at<Cpu>(storage_, to, type.dtype, type.shape, strides);
  }
  /// An input that is given as a tensor.
  void set_input(Context<Cpu>&, std::size_t, const AnyTensor& host, const AnyTensor& from) const {
    write(const_cast<std::byte*>(host.data()), from);
  }

  void forget_inputs() const noexcept {}

  void run(Context<Cpu>& ctx, std::span<const Step<Cpu>> steps) const {
    for (const Step<Cpu>& step : steps) step(ctx);
  }

 private:
  static void write(std::byte* to, const AnyTensor& from) {
    if (from.is_contiguous()) {
      if (to != from.data()) std::memcpy(to, from.data(), from.nbytes());
      return;
    }
    Context<Cpu> host(1);
    const AnyTensor packed = from.contiguous(host);
    std::memcpy(to, packed.data(), packed.nbytes());
  }

  Storage<Cpu> storage_;
};

}  // namespace graph::detail
TENON_NAMESPACE_END
