// The oracle of graph tests: interprets a graph statement by statement, in double, with NumPy's rules for shared memory.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <tenon/graph/graph.hpp>
#include <tenon/graph/nodes/rms_norm.hpp>

namespace graph_test {

using tenon::DType;
using tenon::graph::Graph;
using tenon::graph::Node;
using tenon::graph::NodeId;
using tenon::graph::NodeKind;
using tenon::graph::Shape;
using tenon::graph::TensorType;

/// A number, and how far a sound implementation may be off: its own roundings, and what its operands were off by.
struct Element {
  double value = 0;
  double error = 0;
  std::int64_t whole = 0;  ///< in place of both where the dtype is int64
};
using Elements = std::vector<Element>;
using ElementMap = std::map<std::string, Elements>;

/// Largest relative error of rounding to a dtype, and half its smallest positive value.
inline double rounding(DType dtype) {
  return dtype == DType::float16 ? 0x1p-11 : dtype == DType::bfloat16 ? 0x1p-8 : 0x1p-24;
}
inline double smallest(DType dtype) { return dtype == DType::float16 ? 0x1p-25 : 0x1p-127; }
/// The same of the float in which every dtype is computed.
inline constexpr double float_rounding = 0x1p-24;

/// Memory seen through a shape and strides.
struct Array {
  std::shared_ptr<Elements> memory;
  TensorType type;
  std::int64_t offset = 0;
  std::vector<std::int64_t> strides;

  /// New memory, row-major.
  static Array owner(const TensorType& type) {
    Array array{std::make_shared<Elements>(static_cast<std::size_t>(type.numel())), type, 0, {}};
    array.strides.assign(type.rank(), 1);
    for (std::size_t i = type.rank() - 1; i-- > 0;) array.strides[i] = array.strides[i + 1] * type.shape[i + 1];
    return array;
  }

  /// The element number `index` in row-major order.
  [[nodiscard]] Element& operator[](std::int64_t index) const {
    std::int64_t at = offset;
    for (std::size_t i = type.rank(); i-- > 0;) {
      at += index % type.shape[i] * strides[i];
      index /= type.shape[i];
    }
    return (*memory)[static_cast<std::size_t>(at)];
  }
  /// The element that is broadcast to number `index` of `shape`.
  [[nodiscard]] Element& broadcast(std::int64_t index, const Shape& shape) const {
    std::int64_t at = offset;
    for (std::size_t i = type.rank(); i-- > 0;) {
      if (type.shape[i] != 1) at += index % shape[i] * strides[i];
      index /= shape[i];
    }
    return (*memory)[static_cast<std::size_t>(at)];
  }

  [[nodiscard]] Elements elements() const {
    Elements result;
    for (std::int64_t i = 0; i < type.numel(); ++i) result.push_back((*this)[i]);
    return result;
  }
  [[nodiscard]] Array copy() const {
    Array result = owner(type);
    *result.memory = elements();
    return result;
  }
};

/// Adds the error of rounding to a dtype.
inline Element rounded(Element x, DType dtype) {
  x.error += rounding(dtype) * (std::abs(x.value) + x.error) + smallest(dtype);
  return x;
}
inline Element sum_of(const Element& a, const Element& b) {
  return {a.value + b.value, a.error + b.error, a.whole + b.whole};
}
inline Element product_of(const Element& a, const Element& b) {
  return {a.value * b.value, std::abs(a.value) * b.error + std::abs(b.value) * a.error + a.error * b.error,
          a.whole * b.whole};
}
inline Element relu_of(const Element& x) {
  return {std::max(x.value, 0.0), x.error, std::max<std::int64_t>(x.whole, 0)};
}
/// Its slope is below 1.1 everywhere.
inline Element silu_of(const Element& x) {
  const double value = x.value / (1 + std::exp(-x.value));
  return {value, 1.1 * x.error + float_rounding * (8 + std::abs(x.value)) * std::abs(value), 0};
}

/// Runs a graph that no pass has changed, one evaluation after another. Buffers keep their elements, at first zero.
class Reference {
 public:
  Reference(const Graph& graph, const ElementMap& constants) : graph_(graph) {
    for (const Node& node : graph.nodes()) {
      if (node.kind == NodeKind::constant_tensor) named_[node.name] = given(node, constants.at(node.name));
      if (node.kind == NodeKind::buffer_tensor) named_[node.name] = Array::owner(node.type);
    }
  }

  Elements evaluate(const ElementMap& inputs) {
    std::vector<Array> arrays;
    for (const Node& node : graph_.nodes()) {
      std::vector<Array> x;
      for (const NodeId operand : node.operands) x.push_back(arrays[operand]);
      if (node.kind == NodeKind::input_tensor) named_[node.name] = given(node, inputs.at(node.name));
      arrays.push_back(node.name.empty() ? run(node, x) : named_.at(node.name));
      if (arrays.back().type != node.type) throw std::logic_error("a node has another type than its elements");
    }
    return arrays[graph_.result()].elements();
  }

  [[nodiscard]] Elements buffer(const std::string& name) const { return named_.at(name).elements(); }

 private:
  static Array given(const Node& node, const Elements& elements) {
    Array array = Array::owner(node.type);
    *array.memory = elements;
    return array;
  }

  static Array run(const Node& node, const std::vector<Array>& x) {
    using enum tenon::PointwiseCode;
    switch (node.kind) {
      case NodeKind::sum: return pointwise(node, x, {{load, 0}, {load, 1}, {sum, 0}});
      case NodeKind::hadamard_product: return pointwise(node, x, {{load, 0}, {load, 1}, {hadamard_product, 0}});
      case NodeKind::complex_hadamard_product:
        return pointwise(node, x, {{load, 0}, {load, 1}, {complex_hadamard_product, 0}});
      case NodeKind::relu: return pointwise(node, x, {{load, 0}, {relu, 0}});
      case NodeKind::silu: return pointwise(node, x, {{load, 0}, {silu, 0}});
      case NodeKind::pointwise: return pointwise(node, x, node.program);
      case NodeKind::matmul: return matmul(node, x);
      case NodeKind::matmul_pointwise: {
        std::vector<Array> operands{matmul(node, x)};
        operands.insert(operands.end(), x.begin() + 2, x.end());
        return pointwise(node, operands, node.program);
      }
      case NodeKind::slice: {
        Array result = x[0];
        result.offset += node.numbers[0] * result.strides[0];
        result.type.shape[0] = node.numbers[1] - node.numbers[0];
        return result;
      }
      case NodeKind::permute: {
        Array result = x[0];
        for (std::size_t i = 0; i < node.numbers.size(); ++i) {
          const auto from = static_cast<std::size_t>(node.numbers[i]);
          result.type.shape[i] = x[0].type.shape[from];
          result.strides[i] = x[0].strides[from];
        }
        return result;
      }
      case NodeKind::reshape: return reshape(x[0], node.numbers);
      case NodeKind::replace_slice: return replace_slice(x);
      case NodeKind::rms_norm: return rms_norm(node, x);
      case NodeKind::sliced_softmax:
        return sliced_softmax(node, x[0], node.numbers.empty() ? x[1][0].whole : node.numbers[0]);
      default: throw std::logic_error("no such node");
    }
  }

  /// Element by element; complex products need the value of both neighbours, so steps run one after another on all.
  static Array pointwise(const Node& node, const std::vector<Array>& x,
                         const std::vector<tenon::PointwiseStep>& program) {
    const DType dtype = node.type.dtype;
    const auto count = static_cast<std::size_t>(node.type.numel());
    std::vector<Elements> stack;
    for (const tenon::PointwiseStep& step : program) {
      if (step.code == tenon::PointwiseCode::load) {
        Elements loaded;
        for (std::size_t i = 0; i < count; ++i) {
          loaded.push_back(x[step.operand].broadcast(static_cast<std::int64_t>(i), node.type.shape));
        }
        stack.push_back(std::move(loaded));
        continue;
      }
      Elements b;
      if (step.code != tenon::PointwiseCode::relu && step.code != tenon::PointwiseCode::silu) {
        b = std::move(stack.back());
        stack.pop_back();
      }
      const Elements a = stack.back();
      for (std::size_t i = 0; i < count; ++i) {
        Element& result = stack.back()[i];
        switch (step.code) {
          case tenon::PointwiseCode::sum: result = rounded(sum_of(a[i], b[i]), dtype); break;
          case tenon::PointwiseCode::hadamard_product: result = rounded(product_of(a[i], b[i]), dtype); break;
          case tenon::PointwiseCode::complex_hadamard_product: {
            const std::size_t re = i / 2 * 2;
            const Element first = product_of(a[re], b[i]);  // (re re', re im')
            Element second = product_of(a[re + 1], b[re + (1 - i % 2)]);
            const double size = std::abs(first.value) + std::abs(second.value);
            if (i % 2 == 0) second.value = -second.value;
            result = sum_of(first, second);
            result.error += 4 * float_rounding * size;
            result = rounded(result, dtype);
            break;
          }
          case tenon::PointwiseCode::relu: result = relu_of(a[i]); break;
          default: result = rounded(silu_of(a[i]), dtype); break;
        }
      }
    }
    Array result = Array::owner(node.type);
    *result.memory = stack.back();
    return result;
  }

  static Array matmul(const Node& node, const std::vector<Array>& x) {
    Array result = Array::owner(node.type);
    const Shape& a = x[0].type.shape;
    const std::int64_t n = a.back();
    const std::int64_t k = node.type.shape.back();
    const std::int64_t rows = a.size() > 1 ? a[a.size() - 2] : 1;
    for (std::int64_t i = 0; i < node.type.numel() / k; ++i) {
      for (std::int64_t column = 0; column < k; ++column) {
        Element total;
        double size = 0;
        for (std::int64_t j = 0; j < n; ++j) {
          const Element product = product_of(x[0][i * n + j], x[1][(i / rows * n + j) * k + column]);
          size += std::abs(product.value) + product.error;
          total = sum_of(total, product);
        }
        total.error += float_rounding * static_cast<double>(n + 2) * size;
        result[i * k + column] = rounded(total, node.type.dtype);
      }
    }
    return result;
  }

  /// NumPy's reshape: a view where any strides name the same elements in the same order, else a copy.
  static Array reshape(const Array& x, const Shape& shape) {
    Array result = x;
    result.type.shape = shape;
    result.strides.assign(shape.size(), 0);
    const auto address = [](const Array& array, std::int64_t index) { return &array[index] - array.memory->data(); };
    std::int64_t step = 1;
    for (std::size_t i = shape.size(); i-- > 0;) {
      if (shape[i] > 1) result.strides[i] = address(x, step) - address(x, 0);
      step *= shape[i];
    }
    for (std::int64_t i = 0; i < step; ++i) {
      // What the strides would name may lie outside of the memory, so it is not formed as an element.
      std::int64_t at = result.offset;
      std::int64_t rest = i;
      for (std::size_t dim = shape.size(); dim-- > 0;) {
        at += rest % shape[dim] * result.strides[dim];
        rest /= shape[dim];
      }
      if (at == address(x, i)) continue;
      const Array copied = x.copy();
      result = Array::owner({x.type.dtype, shape});
      result.memory = copied.memory;
      return result;
    }
    return result;
  }

  static Array replace_slice(const std::vector<Array>& x) {
    const std::int64_t begin = x[2][0].whole;
    const std::int64_t count = x[1].type.shape[0];
    if (begin < 0 || begin + count > x[0].type.shape[0] || x[3][0].whole != begin + count) {
      throw std::logic_error("the rows of a ReplaceSlice are out of range");
    }
    const Elements rows = x[1].elements();
    const std::int64_t row = x[1].type.numel() / count;
    for (std::size_t i = 0; i < rows.size(); ++i) x[0][begin * row + static_cast<std::int64_t>(i)] = rows[i];
    return x[0];
  }

  static Array rms_norm(const Node& node, const std::vector<Array>& x) {
    Array result = Array::owner(node.type);
    const std::int64_t n = node.type.numel();
    double mean = 0;
    double spread = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const Element& at = x[0][i];
      mean += at.value * at.value / static_cast<double>(n);
      spread += (2 * std::abs(at.value) + at.error) * at.error / static_cast<double>(n);
    }
    mean += tenon::graph::rms_norm_epsilon;
    const double scale = 1 / std::sqrt(mean);
    const double largest = 1 / std::sqrt(std::max(mean - spread, tenon::graph::rms_norm_epsilon));
    const Element factor{scale, std::max(largest - scale, scale - 1 / std::sqrt(mean + spread)), 0};
    for (std::int64_t i = 0; i < n; ++i) {
      Element normal = product_of(x[0][i], factor);
      normal.error += float_rounding * static_cast<double>(n + 8) * std::abs(normal.value);
      result[i] = rounded(product_of(rounded(normal, node.type.dtype), x[1][i]), node.type.dtype);
    }
    return result;
  }

  static Array sliced_softmax(const Node& node, const Array& x, std::int64_t prefix) {
    const std::int64_t n = node.type.shape.back();
    if (prefix < 0 || prefix > n) throw std::logic_error("a prefix is out of range");
    Array result = x.copy();
    for (std::int64_t row = 0; row < node.type.numel() / n; ++row) {
      double largest = -INFINITY;
      double least = INFINITY;
      double error = 0;
      for (std::int64_t i = 0; i < prefix; ++i) {
        const Element& at = x[row * n + i];
        largest = std::max(largest, at.value);
        least = std::min(least, at.value);
        error = std::max(error, at.error);
      }
      double sum = 0;
      for (std::int64_t i = 0; i < prefix; ++i) sum += std::exp(x[row * n + i].value - largest);
      for (std::int64_t i = 0; i < prefix; ++i) {
        Element& at = result[row * n + i];
        at.value = std::exp(x[row * n + i].value - largest) / sum;
        at.error = at.value * (std::expm1(2 * error) +
                               float_rounding * (16 + static_cast<double>(prefix) + 2 * (largest - least)));
        at = rounded(at, node.type.dtype);
      }
    }
    return result;
  }

  const Graph& graph_;
  std::map<std::string, Array> named_;
};

}  // namespace graph_test
