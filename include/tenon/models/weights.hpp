// Weights of a model: named tensors as a file gives them, and the typed form in which a decoder uses them.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
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
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// Tensors by Hugging Face's parameter names ("model.layers.0.self_attn.q_proj.weight", …).
using WeightMap = std::map<std::string, AnyTensor, std::less<>>;

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
  LinearWeight(Context<Device>& ctx, const AnyTensor& weight, const AnyTensor* bias = nullptr) {
    if constexpr (std::same_as<T, float>) {
      // A bias of another dtype than its matrix would have to be rounded to match: then both are widened instead.
      const DType dtype = bias == nullptr || bias->dtype() == weight.dtype() ? weight.dtype() : DType::float32;
      if (dtype == DType::float16) {
        set<float16>(ctx, weight, bias);
      } else if (dtype == DType::bfloat16) {
        set<bfloat16>(ctx, weight, bias);
      } else {
        set<float>(ctx, weight, bias);
      }
    } else {
      set<T>(ctx, weight, bias);
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

  /// out = in · weightᵀ + bias: in (m, columns), out (m, rows). See linear.
  void multiply(Context<Device>& ctx, View<T, 2, Device> out, View<const T, 2, Device> in) const {
    std::visit(
        [&]<class W>(const Dense<W>& dense) {
          std::optional<View<const W, 1, Device>> bias;
          if (dense.bias) bias = *dense.bias;
          linear(ctx, out, in, View<const W, 2, Device>(dense.weight), bias);
        },
        form_);
  }

  /// out[i] = weight[index[i]]: index (n), out (n, columns). See embedding.
  void look_up(Context<Device>& ctx, View<T, 2, Device> out, View<const std::int64_t, 1, Device> index) const {
    std::visit(
        [&]<class W>(const Dense<W>& dense) { embedding(ctx, out, index, View<const W, 2, Device>(dense.weight)); },
        form_);
  }

 private:
  template <class W>
  void set(Context<Device>& ctx, const AnyTensor& weight, const AnyTensor* bias) {
    Dense<W> dense;
    dense.weight = as_dtype<W, 2>(ctx, weight);
    if (bias != nullptr) dense.bias = as_dtype<W, 1>(ctx, *bias);
    form_ = std::move(dense);
  }

  template <class W, std::size_t Rank>
  static Tensor<const W, Rank, Device> as_dtype(Context<Device>& ctx, const AnyTensor& tensor) {
    return tensor.cast(ctx, dtype_of<W>).template as<const W, Rank, Device>();
  }

  Form form_;
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

/// True if some element is not zero. Stops at the first, so a sound matrix costs one page.
inline bool any_nonzero(Context<Cpu>& ctx, const AnyTensor& tensor) {
  const AnyTensor flat = tensor.contiguous(ctx);
  const auto nonzero = [&]<class T>(std::type_identity<T>) {
    const auto* data = reinterpret_cast<const T*>(flat.data());
    return std::any_of(data, data + flat.numel(), [](T value) { return static_cast<float>(value) != 0.0f; });
  };
  return visit_dtype(tensor.dtype(), nonzero);
}

}  // namespace detail

TENON_NAMESPACE_END
