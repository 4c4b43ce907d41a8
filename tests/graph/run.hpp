// Running graphs in tests: compiled and by the oracle, and comparing what they give.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/graph/executable.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>

#include "graph/random_graph.hpp"
#include "graph/reference.hpp"

namespace graph_test {

using tenon::AnyTensor;
using tenon::Context;
using tenon::Cpu;
using tenon::graph::Executable;
using tenon::graph::PassOptions;
using tenon::graph::TensorMap;

/// All passes, none, and all but one.
inline std::vector<std::pair<std::string_view, PassOptions>> pass_settings() {
  std::vector<std::pair<std::string_view, PassOptions>> settings{{"all passes", {}}, {"no pass", PassOptions::none()}};
  settings.emplace_back("all but dead nodes", PassOptions{}).second.dead_nodes = false;
  settings.emplace_back("all but common subexpressions", PassOptions{}).second.common_subexpressions = false;
  settings.emplace_back("all but views", PassOptions{}).second.views = false;
  settings.emplace_back("all but point-wise fusion", PassOptions{}).second.pointwise_fusion = false;
  settings.emplace_back("all but matmul fusion", PassOptions{}).second.matmul_fusion = false;
  return settings;
}

/// A tensor of these elements. Every second element of twice as much memory where not `contiguous`.
inline AnyTensor to_tensor(Context<Cpu>& ctx, const TensorType& type, const Elements& elements,
                           bool contiguous = true) {
  std::vector<std::int64_t> sizes = type.shape;
  if (!contiguous) sizes.push_back(2);
  AnyTensor tensor = AnyTensor::empty(ctx, type.dtype, sizes);
  std::vector<std::byte> bytes(tensor.nbytes(), std::byte{0x5a});
  const std::size_t step = tenon::dtype_size(type.dtype) * (contiguous ? 1 : 2);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    tenon::graph::detail::visit_type(type.dtype, [&]<class T>(std::type_identity<T>) {
      T value{};
      if constexpr (std::is_same_v<T, std::int64_t>) {
        value = elements[i].whole;
      } else {
        value = T(static_cast<float>(elements[i].value));
      }
      std::memcpy(bytes.data() + i * step, &value, sizeof value);
    });
  }
  tensor.load(ctx, bytes);
  return contiguous ? tensor : tensor.select(-1, 0);
}

/// Tensors for the named ones of a graph.
inline TensorMap to_tensors(Context<Cpu>& ctx, const Graph& graph, const ElementMap& elements, bool contiguous = true) {
  TensorMap result;
  for (const auto& [name, values] : elements) {
    result.insert_or_assign(name, to_tensor(ctx, graph.find(name)->type, values, contiguous));
  }
  return result;
}

/// The elements in row-major order, as their bytes.
inline std::vector<std::byte> bytes_of(Context<Cpu>& ctx, const AnyTensor& tensor) {
  const AnyTensor packed = tensor.contiguous(ctx);
  return {packed.data(), packed.data() + packed.nbytes()};
}

/// Empty where a tensor has the type and, within their errors, the values expected; else a sentence.
inline std::string mismatch(Context<Cpu>& ctx, const AnyTensor& tensor, const TensorType& type,
                            const Elements& expected) {
  std::ostringstream text;
  text.precision(17);
  if (tensor.dtype() != type.dtype || tensor.sizes() != type.shape) {
    text << "the type is " << tenon::graph::type_text({tensor.dtype(), tensor.sizes()}) << ", expected "
         << tenon::graph::type_text(type);
    return text.str();
  }
  const std::vector<std::byte> bytes = bytes_of(ctx, tensor);
  for (std::size_t i = 0; i < expected.size() && text.str().empty(); ++i) {
    tenon::graph::detail::visit_type(type.dtype, [&]<class T>(std::type_identity<T>) {
      T value{};
      std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
      if constexpr (std::is_same_v<T, std::int64_t>) {
        if (value != expected[i].whole) text << "element " << i << " is " << value << ", not " << expected[i].whole;
      } else {
        const auto real = static_cast<double>(static_cast<float>(value));
        if (!(std::abs(real - expected[i].value) <= expected[i].error)) {
          text << "element " << i << " is " << real << ", not " << expected[i].value << " within " << expected[i].error;
        }
      }
    });
  }
  return text.str();
}

}  // namespace graph_test
