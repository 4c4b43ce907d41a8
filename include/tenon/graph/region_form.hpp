// RegionForm: sizes, strides and alignment of every value of a region, and the text by which equal ones are known.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/region.hpp>
#include <tenon/graph/type.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// A value of a region. Dimensions along which it is broadcast have size 1.
struct RegionTensor {
  Shape sizes;
  std::vector<std::int64_t> strides;  ///< in elements; of dimensions of size 1 what a contiguous tensor has
  std::int64_t alignment = 0;         ///< bytes by which the address can be divided; 0: the value is in no memory
};

/// What a library has to know to compile a region: nothing about its place in a graph. All values have the same number of
/// dimensions: 3 where there is a product (batch, rows, columns), 3 or 4 otherwise.
struct RegionForm {
  DType dtype = DType::float32;
  std::vector<RegionTensor> tensors;  ///< of each value; the last is the result
  std::vector<RegionStep> steps;  ///< x of a sum or product has the shape of the result, and is computed where one is

  [[nodiscard]] std::size_t inputs() const { return tensors.size() - steps.size(); }
  [[nodiscard]] bool has_product() const {
    return std::any_of(steps.begin(), steps.end(), [](const RegionStep& s) { return s.code == RegionCode::matmul; });
  }
  /// A line for each value. Regions of equal text can share what was compiled.
  [[nodiscard]] std::string trace() const;
};

namespace detail {

/// By this the address of what executables hold in their arena, and of constants that they share, can be divided.
inline constexpr std::int64_t region_alignment = 16;

inline RegionTensor region_input(const Place& place, const TensorType& type) {
  const auto bytes = static_cast<std::uint64_t>(place.offset) * dtype_size(type.dtype);
  const std::uint64_t bits = bytes | static_cast<std::uint64_t>(region_alignment);
  return {type.shape, place.strides, static_cast<std::int64_t>(bits & (~bits + 1))};
}

/// Leading dimensions of size 1 up to `rank`.
inline void pad_rank(RegionTensor& tensor, std::size_t rank) {
  const std::size_t missing = rank - tensor.sizes.size();
  tensor.sizes.insert(tensor.sizes.begin(), missing, 1);
  tensor.strides.insert(tensor.strides.begin(), missing, 0);
}

inline void set_unit_strides(RegionTensor& tensor) {
  std::int64_t contiguous = 1;
  for (std::size_t i = tensor.sizes.size(); i-- > 0;) {
    if (tensor.sizes[i] == 1) tensor.strides[i] = contiguous;
    contiguous = std::max(contiguous, tensor.sizes[i] * tensor.strides[i]);
  }
}

/// Whether dimensions i and i + 1 of an operand can be one, where the result has these sizes.
inline bool can_merge(const RegionTensor& tensor, const Shape& result, std::size_t i) {
  if (result[i] == 1) return true;  // the operand has 1 there too
  if (tensor.sizes[i] != result[i] || tensor.sizes[i + 1] != result[i + 1]) {
    return tensor.sizes[i] == 1 && tensor.sizes[i + 1] == 1;
  }
  return result[i + 1] == 1 || tensor.strides[i] == tensor.strides[i + 1] * tensor.sizes[i + 1];
}

/// Merges neighbouring dimensions that every tensor has together, down to rows and columns, the first ones first. `result`
/// is the shape to which the tensors are broadcast.
inline void merge_dimensions(std::vector<RegionTensor>& tensors, Shape& result) {
  for (std::size_t i = 0; i + 1 < result.size() && result.size() > 2;) {
    const bool fits = std::all_of(tensors.begin(), tensors.end(),
                                  [&](const RegionTensor& tensor) { return can_merge(tensor, result, i); });
    if (!fits) {
      ++i;
      continue;
    }
    for (RegionTensor& tensor : tensors) {
      // The stride of the dimension that counts: where the second has size 1, the first one's.
      if (result[i + 1] == 1) tensor.strides[i + 1] = tensor.strides[i];
      tensor.sizes[i + 1] *= tensor.sizes[i];
      tensor.sizes.erase(tensor.sizes.begin() + static_cast<std::ptrdiff_t>(i));
      tensor.strides.erase(tensor.strides.begin() + static_cast<std::ptrdiff_t>(i));
    }
    result[i + 1] *= result[i];
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

/// The last of four dimensions second: libraries for images want channels there, and innermost in memory.
inline void put_channels_second(RegionTensor& tensor) {
  std::rotate(tensor.sizes.begin() + 1, tensor.sizes.end() - 1, tensor.sizes.end());
  std::rotate(tensor.strides.begin() + 1, tensor.strides.end() - 1, tensor.strides.end());
}

/// Shape of a step's result.
inline Shape step_sizes(const RegionStep& step, const std::vector<RegionTensor>& tensors) {
  Shape sizes = tensors[step.x].sizes;
  const Shape& other = tensors[step.y].sizes;
  if (step.code == RegionCode::matmul) {
    sizes.back() = other.back();
  } else if (step.code == RegionCode::sum || step.code == RegionCode::hadamard_product) {
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i] = std::max(sizes[i], other[i]);
  }
  return sizes;
}

}  // namespace detail

/// `places` are the graph's. Constants that are used where they are have to be aligned to 16 bytes.
[[nodiscard]] inline RegionForm region_form(const Graph& graph, const std::vector<Place>& places,
                                            const Region& region) {
  RegionForm form;
  form.dtype = graph[region.output()].type.dtype;
  form.steps = region.steps;
  for (const NodeId input : region.inputs) {
    form.tensors.push_back(detail::region_input(places[input], graph[input].type));
  }
  Shape result = graph[region.output()].type.shape;
  const bool product = form.has_product();
  if (!product) detail::merge_dimensions(form.tensors, result);
  const std::size_t rank = std::max<std::size_t>(result.size(), 3);
  for (RegionTensor& tensor : form.tensors) {
    detail::pad_rank(tensor, rank);
    detail::set_unit_strides(tensor);
  }

  const std::size_t inputs = form.tensors.size();
  std::vector<bool> after_product(inputs, false);
  for (RegionStep& step : form.steps) {
    const Shape sizes = detail::step_sizes(step, form.tensors);
    if (step.code == RegionCode::sum || step.code == RegionCode::hadamard_product) {
      // Neither sums nor products of two numbers depend on their order.
      const auto rank_of = [&](std::size_t value) {
        const int full = form.tensors[value].sizes == sizes ? 4 : 0;
        return full + (after_product[value] ? 2 : 0) + (value >= inputs ? 1 : 0);
      };
      if (rank_of(step.y) > rank_of(step.x)) std::swap(step.x, step.y);
    }
    const bool binary = step.code != RegionCode::relu && step.code != RegionCode::silu;
    after_product.push_back(step.code == RegionCode::matmul || after_product[step.x] ||
                            (binary && after_product[step.y]));
    RegionTensor tensor{sizes, std::vector<std::int64_t>(sizes.size()), 0};
    tenon::detail::row_major_strides(sizes, tensor.strides);
    form.tensors.push_back(std::move(tensor));
  }
  form.tensors.back().alignment = detail::region_alignment;
  if (rank == 4) {
    for (RegionTensor& tensor : form.tensors) detail::put_channels_second(tensor);
  }
  return form;
}

inline std::string RegionForm::trace() const {
  constexpr std::string_view names[] = {"matmul", "sum", "hadamard_product", "relu", "silu"};
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const RegionTensor& tensor = tensors[i];
    text.append("%").append(std::to_string(i)).append(" = ");
    if (i >= inputs()) {
      const RegionStep& step = steps[i - inputs()];
      text += std::string(names[static_cast<std::size_t>(step.code)]) + "(%" + std::to_string(step.x);
      const bool binary = step.code != RegionCode::relu && step.code != RegionCode::silu;
      if (binary) text.append(", %").append(std::to_string(step.y));
      text += "): ";
    }
    text += std::string(dtype_name(dtype)) + " " + shape_text(tensor.sizes) + " strides " + shape_text(tensor.strides);
    if (tensor.alignment != 0) text += " aligned to " + std::to_string(tensor.alignment);
    text += "\n";
  }
  return text;
}

}  // namespace graph
TENON_NAMESPACE_END
