// Weights of a model: named tensors as a file gives them, and the typed form in which a decoder uses them.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/ops/embedding.hpp>
#include <tenon/ops/linear.hpp>
#include <tenon/runtime/uploader.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// Tensors by Hugging Face's parameter names ("model.layers.0.self_attn.q_proj.weight", …).
using WeightMap = std::map<std::string, AnyTensor, std::less<>>;

/// A matrix of a file and, where there is one, the bias that goes with it.
struct NamedWeight {
  AnyTensor matrix;
  std::optional<AnyTensor> bias;
};

/// A weight matrix (rows = outputs, columns = inputs) with an optional bias, in whatever form it is kept. Const and
/// shareable between threads once made.
///
/// The form is T itself or, where T is float, float16 or bfloat16 as the file holds it: they widen exactly, and half the
/// bytes are read.
template <class T, DeviceTag Device>
class LinearWeight {
  template <class W>
  struct Dense {
    Tensor<const W, 2, Device> weight;
    std::optional<Tensor<const W, 1, Device>> bias;
  };
  using Form = std::conditional_t<std::same_as<T, float>, std::variant<Dense<float>, Dense<float16>, Dense<bfloat16>>,
                                  std::variant<Dense<T>>>;

 public:
  LinearWeight() = default;

  /// Takes a matrix, and a vector where there is a bias; converts them where they cannot be used as they are.
  LinearWeight(Uploader<Device>& uploader, const NamedWeight& weight)
      : LinearWeight(uploader, std::span<const NamedWeight>(&weight, 1)) {}

  /// The same of several matrices with one number of columns, one below the other. On the CPU of one matrix only: there
  /// matrices stay where they are.
  LinearWeight(Uploader<Device>& uploader, std::span<const NamedWeight> parts) {
    for (const NamedWeight& part : parts) {
      if (part.bias.has_value() != parts.front().bias.has_value()) {
        throw ValueError("joined weights: either all parts have a bias or none");
      }
    }
    if (parts.empty() || (std::same_as<Device, Cpu> && parts.size() != 1)) {
      throw ValueError("joined weights: " + std::to_string(parts.size()) + " parts");
    }
    if constexpr (std::same_as<T, float>) {
      // Where dtypes differ, one would have to be rounded to match: then all are widened instead.
      DType dtype = parts.front().matrix.dtype();
      for (const NamedWeight& part : parts) {
        if (part.matrix.dtype() != dtype || (part.bias && part.bias->dtype() != dtype)) dtype = DType::float32;
      }
      if (dtype == DType::float16) {
        set<float16>(uploader, parts);
      } else if (dtype == DType::bfloat16) {
        set<bfloat16>(uploader, parts);
      } else {
        set<float>(uploader, parts);
      }
    } else {
      set<T>(uploader, parts);
    }
  }

  [[nodiscard]] std::int64_t rows() const noexcept {
    return std::visit([](const auto& dense) { return dense.weight.size(0); }, form_);
  }
  [[nodiscard]] std::int64_t columns() const noexcept {
    return std::visit([](const auto& dense) { return dense.weight.size(1); }, form_);
  }
  /// The dtype in which the matrix is read, which is not always T.
  [[nodiscard]] DType dtype() const noexcept {
    return std::visit([](const auto& dense) { return dense.weight.dtype(); }, form_);
  }
  /// Bytes that one product reads.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return rows() * columns() * static_cast<std::int64_t>(dtype_size(dtype()));
  }

  /// Calls `visitor(matrix, bias)` with View<const W, 2, Device> and std::optional<View<const W, 1, Device>>, whatever W
  /// is, and returns what it returns.
  template <class Visitor>
  decltype(auto) visit(Visitor&& visitor) const {
    return std::visit(
        [&]<class W>(const Dense<W>& dense) -> decltype(auto) {
          std::optional<View<const W, 1, Device>> bias;
          if (dense.bias) bias = *dense.bias;
          return visitor(View<const W, 2, Device>(dense.weight), bias);
        },
        form_);
  }

  /// out = in · weightᵀ + bias: in (m, columns), out (m, rows). See linear.
  void multiply(Context<Device>& ctx, View<T, 2, Device> out, View<const T, 2, Device> in) const {
    visit([&](const auto& matrix, const auto& bias) { linear(ctx, out, in, matrix, bias); });
  }

  /// out[i] = weight[index[i]]: index (n), out (n, columns). See embedding.
  void look_up(Context<Device>& ctx, View<T, 2, Device> out, View<const std::int64_t, 1, Device> index) const {
    std::visit(
        [&]<class W>(const Dense<W>& dense) { embedding(ctx, out, index, View<const W, 2, Device>(dense.weight)); },
        form_);
  }

 private:
  template <class W>
  void set(Uploader<Device>& uploader, std::span<const NamedWeight> parts) {
    Dense<W> dense;
    if constexpr (std::same_as<Device, Cpu>) {
      const NamedWeight& part = parts.front();
      dense.weight = uploader.template upload<W, 2>(part.matrix);
      if (part.bias) dense.bias = uploader.template upload<W, 1>(*part.bias);
    } else {
      std::vector<AnyTensor> matrices;
      std::vector<AnyTensor> biases;
      for (const NamedWeight& part : parts) {
        matrices.push_back(part.matrix);
        if (part.bias) biases.push_back(*part.bias);
      }
      dense.weight = uploader.template join<W, 2>(matrices);
      if (!biases.empty()) dense.bias = uploader.template join<W, 1>(biases);
    }
    form_ = std::move(dense);
  }

  Form form_;
};

/// Matrices that multiply the same input: query, key and value; gate and up. On a GPU they lie below each other as one
/// matrix and one product gives all results; on the CPU each stays where the file has it. Const and shareable once made.
template <class T, DeviceTag Device>
class JoinedWeight {
 public:
  JoinedWeight() = default;

  /// All with the same number of columns, and either all with a bias or none.
  JoinedWeight(Uploader<Device>& uploader, std::span<const NamedWeight> parts) {
    if constexpr (std::same_as<Device, Cpu>) {
      for (const NamedWeight& part : parts) matrices_.emplace_back(uploader, part);
    } else {
      matrices_.emplace_back(uploader, parts);
    }
  }

  /// What is multiplied at once.
  [[nodiscard]] std::span<const LinearWeight<T, Device>> matrices() const noexcept { return matrices_; }
  /// Bytes that one product reads.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    std::int64_t sum = 0;
    for (const auto& matrix : matrices_) sum += matrix.bytes();
    return sum;
  }

  /// in (m, columns), out (m, rows of all together): the results of the parts beside each other.
  void multiply(Context<Device>& ctx, View<T, 2, Device> out, View<const T, 2, Device> in) const {
    std::int64_t column = 0;
    for (const auto& matrix : matrices_) {
      matrix.multiply(ctx, out.slice(1, column, column + matrix.rows()), in);
      column += matrix.rows();
    }
  }

 private:
  std::vector<LinearWeight<T, Device>> matrices_;
};

namespace detail {

/// Takes weights out of a map by name, checking shapes, and tells at the end what was left over.
class WeightBinder {
 public:
  explicit WeightBinder(WeightMap weights) : weights_(std::move(weights)) {}

  /// Throws FormatError where the name is missing, the shape differs, or the dtype is no floating-point type.
  AnyTensor take(const std::string& name, const std::vector<std::int64_t>& sizes) {
    const auto found = weights_.find(name);
    if (found == weights_.end()) throw FormatError("weights: tensor '" + name + "' is missing");
    AnyTensor tensor = found->second;
    if (tensor.sizes() != sizes) {
      throw FormatError("weights: tensor '" + name + "' has shape " + shape_string(tensor.sizes()) +
                        ", but the configuration asks for " + shape_string(sizes));
    }
    const DType dtype = tensor.dtype();
    if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16 && dtype != DType::float64) {
      throw DTypeError("weights: tensor '" + name + "' has dtype " + std::string(dtype_name(dtype)) +
                       ", expected float32, float16, bfloat16 or float64");
    }
    weights_.erase(found);
    return tensor;
  }

  void drop(std::string_view name) {
    if (const auto found = weights_.find(name); found != weights_.end()) weights_.erase(found);
  }

  /// Throws FormatError that names up to three weights that no parameter asked for.
  void finish() {
    // Old LLaMA checkpoints carry the table that RoPE is computed from.
    std::erase_if(weights_, [](const auto& entry) { return entry.first.ends_with(".rotary_emb.inv_freq"); });
    if (weights_.empty()) return;
    std::string names;
    std::size_t shown = 0;
    for (const auto& entry : weights_) {
      if (++shown > 3) break;
      names += (shown > 1 ? ", '" : "'") + entry.first + "'";
    }
    throw FormatError("weights: " + std::to_string(weights_.size()) +
                      " tensors belong to no parameter of the model: " + names + (shown > 3 ? ", …" : ""));
  }

 private:
  WeightMap weights_;
};

inline std::int64_t total_bytes(const WeightMap& weights) {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : weights) sum += static_cast<std::int64_t>(tensor.nbytes());
  return sum;
}

/// True if some element is not zero. Stops at the first, so a sound matrix costs one page. Elements on the CPU.
inline bool any_nonzero(const AnyTensor& tensor) {
  Context<Cpu> ctx(1);
  const AnyTensor flat = tensor.contiguous(ctx);
  const auto nonzero = [&]<class T>(std::type_identity<T>) {
    const auto* data = reinterpret_cast<const T*>(flat.data());
    return std::any_of(data, data + flat.numel(), [](T value) { return static_cast<float>(value) != 0.0f; });
  };
  return visit_dtype(tensor.dtype(), nonzero);
}

}  // namespace detail

TENON_NAMESPACE_END
