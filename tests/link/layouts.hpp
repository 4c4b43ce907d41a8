// G5: sizes and bytes of the classes that cross from files compiled by the host compiler to files compiled by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <tenon/cuda.hpp>

using LayoutTable = std::vector<std::pair<std::string, std::size_t>>;

/// The table as nvcc sees it; layouts_cu.cu.
LayoutTable layouts_of_nvcc();
/// Elements of objects made by the host compiler, read in a function compiled by nvcc.
bool reads_the_same(const tenon::Tensor<float, 3>& tensor, const tenon::AnyTensor& any,
                    tenon::Context<tenon::Cpu>& ctx);

namespace {

template <class T>
void add_layout(LayoutTable& table, const char* name) {
  table.emplace_back(std::string(name) + ": size", sizeof(T));
  table.emplace_back(std::string(name) + ": alignment", alignof(T));
  table.emplace_back(std::string(name) + ": kind", (std::is_trivially_copyable_v<T> ? 1u : 0u) +
                                                       (std::is_standard_layout_v<T> ? 2u : 0u) +
                                                       (std::is_polymorphic_v<T> ? 4u : 0u));
}

/// The bytes of an object with known content, which show where its members are.
template <class T>
void add_bytes(LayoutTable& table, const char* name, const T& object) {
  static_assert(std::is_trivially_copyable_v<T>);
  unsigned char bytes[sizeof(T)];
  std::memcpy(bytes, &object, sizeof(T));
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    table.emplace_back(std::string(name) + ": byte " + std::to_string(i), bytes[i]);
  }
}

inline LayoutTable layouts() {
  using namespace tenon;
  LayoutTable table;
  add_layout<float16>(table, "float16");
  add_layout<bfloat16>(table, "bfloat16");
  add_layout<Layout<0>>(table, "Layout<0>");
  add_layout<Layout<3>>(table, "Layout<3>");
  add_layout<View<float, 2, Cpu>>(table, "View on the CPU");
  add_layout<View<const bfloat16, 4, Cuda>>(table, "View on CUDA");
  add_layout<Storage<Cpu>>(table, "Storage<Cpu>");
  add_layout<Storage<Cuda>>(table, "Storage<Cuda>");
  add_layout<Tensor<float, 3, Cpu>>(table, "Tensor on the CPU");
  add_layout<Tensor<float16, 3, Cuda>>(table, "Tensor on CUDA");
  add_layout<AnyTensor>(table, "AnyTensor");
  add_layout<BasicWorkspace<Cpu>>(table, "Workspace");
  add_layout<BasicWorkspace<Cuda>>(table, "BasicWorkspace<Cuda>");
  add_layout<Context<Cpu>>(table, "Context<Cpu>");
  add_layout<Context<Cuda>>(table, "Context<Cuda>");
  add_layout<Stream<Cuda>>(table, "Stream<Cuda>");
  add_layout<Event<Cuda>>(table, "Event<Cuda>");
  add_layout<DeviceProperties>(table, "DeviceProperties");
  add_layout<detail::DeviceMemory>(table, "DeviceMemory");
  add_layout<detail::StridedView>(table, "StridedView");
  add_layout<detail::ConstStridedView>(table, "ConstStridedView");
  add_layout<ModelConfig>(table, "ModelConfig");
  add_layout<LinearWeight<bfloat16, Cuda>>(table, "LinearWeight");
  add_layout<DecoderLayer<bfloat16, Cuda>>(table, "DecoderLayer");
  add_layout<KvCache<bfloat16, Cuda>>(table, "KvCache");
  add_layout<Decoder<bfloat16, Cuda>>(table, "Decoder");

  const Layout<2> layout(Sizes<2>{3, 5}, Sizes<2>{70, -11});
  auto* address = reinterpret_cast<float*>(std::uintptr_t{0x123456789abcdef0});
  const View<float, 2, Cuda> view(address, layout);
  add_bytes(table, "Layout<2>", layout);
  add_bytes(table, "View", view);
  return table;
}

}  // namespace
