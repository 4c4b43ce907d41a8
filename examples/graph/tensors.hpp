// Elements for the inputs and constants of a graph: from files, one number, or random.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include <tenon/graph/executable.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/io/safetensors.hpp>

#include "graph/options.hpp"

namespace graph_program {

using tenon::graph::Node;
using tenon::graph::NodeKind;

static_assert(std::endian::native == std::endian::little, "files of elements are little-endian");

/// Any element type of a graph from a number.
template <class T>
T element(double value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value);
  else
    return static_cast<T>(static_cast<float>(value));
}

/// A row-major tensor whose elements `next` gives.
template <class Next>
tenon::AnyTensor generate(const tenon::graph::TensorType& type, Next&& next) {
  tenon::Context<tenon::Cpu> host(1);
  tenon::AnyTensor tensor = tenon::AnyTensor::empty(host, type.dtype, type.shape);
  std::vector<std::byte> bytes(tensor.nbytes());
  tenon::graph::detail::visit_type(type.dtype, [&]<class T>(std::type_identity<T>) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      const T value = element<T>(next());
      std::memcpy(bytes.data() + at, &value, sizeof value);
    }
  });
  tensor.load(host, bytes);
  return tensor;
}

/// The tensor of that name in a .safetensors file, or all bytes of any other one.
inline tenon::AnyTensor read_tensor(const Node& node, const std::filesystem::path& file) {
  if (file.extension() == ".safetensors") return tenon::SafetensorsFile(file).tensor(node.name);
  const std::string quoted = "'" + file.string() + "'";
  std::error_code ignored;
  std::ifstream stream(file, std::ios::binary);
  if (!stream || std::filesystem::is_directory(file, ignored)) throw tenon::FileError(quoted + " cannot be opened");
  std::vector<std::byte> bytes(node.type.bytes());
  stream.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  const bool is_whole = stream.gcount() == static_cast<std::streamsize>(bytes.size());
  if (!is_whole || stream.peek() != std::ifstream::traits_type::eof()) {
    throw tenon::FormatError(quoted + " has " + (is_whole ? "more" : std::to_string(stream.gcount())) + " bytes" +
                             (is_whole ? " than" : ", not") + " the " + std::to_string(bytes.size()) + " of '" +
                             node.name + "', " + tenon::graph::type_text(node.type));
  }
  tenon::Context<tenon::Cpu> host(1);
  tenon::AnyTensor tensor = tenon::AnyTensor::empty(host, node.type.dtype, node.type.shape);
  tensor.load(host, bytes);
  return tensor;
}

/// Whether a number is finite in a floating-point type.
inline bool is_finite_in(tenon::DType dtype, double number) {
  bool result = false;
  tenon::graph::detail::visit_type(
      dtype, [&]<class T>(std::type_identity<T>) { result = std::isfinite(static_cast<float>(element<T>(number))); });
  return result;
}

/// What the command line gives for a node; null: nothing.
inline const Given* given_for(const Options& options, const Node& node) {
  for (const Given& given : options.given) {
    if (given.name == node.name) return &given;
  }
  return nullptr;
}

/// Tensors for all inputs or all constants of a graph. What is not given is random, between -1 and 1; int64 is 0 or 1.
inline tenon::graph::TensorMap tensors(const Options& options, const tenon::graph::Graph& graph, NodeKind kind) {
  std::mt19937_64 random(options.seed + (kind == NodeKind::input_tensor ? 0 : 1));
  tenon::graph::TensorMap result;
  for (const Node& node : graph.nodes()) {
    if (node.kind != kind) continue;
    const Given* given = given_for(options, node);
    const bool whole = node.type.dtype == tenon::DType::int64;
    if (given == nullptr) {
      result.emplace(node.name, generate(node.type, [&] {
                       const std::uint64_t bits = random() >> 40;
                       return whole ? static_cast<double>(bits % 2) : static_cast<double>(bits) * 0x1p-23 - 1;
                     }));
    } else if (!given->file.empty()) {
      result.emplace(node.name, read_tensor(node, given->file));
    } else {
      if (whole && (given->number != std::floor(given->number) || std::abs(given->number) >= 0x1p53)) {
        throw tenon::ValueError("--fill " + node.name + ": elements of " + tenon::graph::type_text(node.type) +
                                " are whole numbers below 2^53");
      }
      if (!whole && !is_finite_in(node.type.dtype, given->number)) {
        throw tenon::ValueError("--fill " + node.name + ": the number is too large for " +
                                tenon::graph::type_text(node.type));
      }
      result.emplace(node.name, generate(node.type, [&] { return given->number; }));
    }
  }
  return result;
}

}  // namespace graph_program
