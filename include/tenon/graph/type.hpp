// What a tensor in a graph is: dtype and shape, known when the graph is built.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/float16.hpp>
#include <tenon/core/math.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

using Shape = std::vector<std::int64_t>;

/// Most dimensions of a tensor in a graph.
inline constexpr std::size_t max_rank = 4;

/// "[2, 3]", as scripts write it.
[[nodiscard]] inline std::string shape_text(const Shape& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) text += (text.size() == 1 ? "" : ", ") + std::to_string(size);
  return text + "]";
}

struct TensorType {
  DType dtype = DType::float32;
  Shape shape;

  bool operator==(const TensorType&) const = default;

  [[nodiscard]] std::size_t rank() const noexcept { return shape.size(); }
  [[nodiscard]] std::int64_t numel() const noexcept {
    std::int64_t count = 1;
    for (const std::int64_t size : shape) count *= size;
    return count;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return static_cast<std::size_t>(numel()) * dtype_size(dtype); }
};

/// "float32 [2, 3]".
[[nodiscard]] inline std::string type_text(const TensorType& type) {
  return std::string(dtype_name(type.dtype)) + " " + shape_text(type.shape);
}

namespace detail {

/// Calls `body` with the type of a floating-point tensor.
template <class Body>
void visit_float(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::float16: body(std::type_identity<float16>{}); break;
    case DType::bfloat16: body(std::type_identity<bfloat16>{}); break;
    default: body(std::type_identity<float>{}); break;
  }
}

/// The same of any tensor.
template <class Body>
void visit_type(DType dtype, Body&& body) {
  if (dtype == DType::int64) {
    body(std::type_identity<std::int64_t>{});
  } else {
    visit_float(dtype, body);
  }
}

/// Throws DTypeError or ShapeError that begins with `where`, for what no tensor in a graph can be: another dtype than
/// float32, float16, bfloat16 and int64, no dimension or more than max_rank, an empty one, more bytes than addresses.
inline void check_type(std::string_view where, const TensorType& type) {
  const std::string start = std::string(where) + ": ";
  if (type.dtype != DType::float32 && type.dtype != DType::float16 && type.dtype != DType::bfloat16 &&
      type.dtype != DType::int64) {
    throw DTypeError(start + std::string(dtype_name(type.dtype)) +
                     " is no type of a graph, which are float32, float16, bfloat16 and int64");
  }
  if (type.shape.empty() || type.shape.size() > max_rank) {
    throw ShapeError(start + "shape " + shape_text(type.shape) + " has " + std::to_string(type.shape.size()) +
                     " dimensions, not 1 to " + std::to_string(max_rank));
  }
  auto bytes = static_cast<std::int64_t>(dtype_size(type.dtype));
  for (const std::int64_t size : type.shape) {
    if (size < 1) throw ShapeError(start + "shape " + shape_text(type.shape) + " has a dimension below 1");
    if (size > std::numeric_limits<std::int64_t>::max() / 2 / bytes) {
      throw ShapeError(start + "shape " + shape_text(type.shape) + " has more bytes than there are addresses");
    }
    bytes *= size;
  }
}

}  // namespace detail
}  // namespace graph
TENON_NAMESPACE_END
