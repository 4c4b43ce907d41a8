// Device tags. A device is a type, so that operators are chosen by overload resolution and a tensor on the wrong device
// does not compile.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

#include <tenon/core/config.hpp>

TENON_NAMESPACE_BEGIN

/// The host processor.
struct Cpu {
  static constexpr std::string_view name = "cpu";
};

/// NVIDIA GPUs. `Context<Cuda>` is only declared here: using it in a build without CUDA is an "incomplete type" error.
struct Cuda {
  static constexpr std::string_view name = "cuda";
};

template <class D>
concept DeviceTag = std::same_as<D, Cpu> || std::same_as<D, Cuda>;

/// The device at run time, for type-erased tensors and messages.
enum class DeviceKind : std::uint8_t { cpu, cuda };

template <DeviceTag D>
inline constexpr DeviceKind device_kind_of = std::same_as<D, Cpu> ? DeviceKind::cpu : DeviceKind::cuda;

constexpr std::string_view device_name(DeviceKind kind) noexcept {
  return kind == DeviceKind::cpu ? Cpu::name : Cuda::name;
}

/// What a call needs from its device: threads or stream, library handles, workspace, random state.
template <DeviceTag D>
class Context;

TENON_NAMESPACE_END
