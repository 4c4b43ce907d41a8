// LLaMA 2 as a graph: one position per evaluation, keys and values in buffers.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/graph/builder.hpp>
#include <tenon/graph/executable.hpp>
#include <tenon/models/config.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN

/// Which rows of a head of wq and wk the rotary embedding turns together.
enum class RotaryPairs : std::uint8_t {
  neighbours,  ///< 2i and 2i + 1, as llama2.c's files
  halves,      ///< i and i + head_dim / 2, as Hugging Face's
};

namespace detail {

inline void check_graph_config(const ModelConfig& config) {
  config.validate();
  const auto refuse = [](const std::string& what) { throw ValueError("llama graph: " + what); };
  if (config.rms_norm_eps != graph::rms_norm_epsilon) {
    refuse("rms_norm_eps is " + number_text(config.rms_norm_eps) + ", and RmsNormNode has " +
           number_text(graph::rms_norm_epsilon) + "; Llama<T, Device> takes any");
  }
  if (config.attention_bias || config.attention_output_bias || config.mlp_bias) refuse("a configuration with biases");
  if (config.sliding_window) refuse("a configuration with a sliding window");
}

}  // namespace detail

/// The decoder for one token. Inputs: `embedding` (hidden_size), the token's row; `rotation` (1, head_dim / 2, 2), cosine
/// and sine of its position's angles; `position` and `length`, int64 of size 1, length = position + 1. The result: logits
/// (vocab_size). Positions must follow each other from 0, on buffers that are zero, because rows beyond `length` count.
///
/// Constants have llama2.c's names with the layer behind: `rms_att_weight_0`, `wq_0`, … `rms_final_weight`, `wcls`, all
/// matrices (outputs, inputs); and `attention_scale` (1, 1, 1). Throws ValueError for what the nodes cannot say: biases, a
/// sliding window, another epsilon than RmsNormNode's.
///
/// Shapes do not change from token to token: each reads all `capacity` rows of the caches, however few count. Choose the
/// capacity for the tokens that are to be read.
[[nodiscard]] inline graph::Graph llama_graph(const ModelConfig& config, std::int64_t capacity, RotaryPairs pairs,
                                              DType dtype = DType::float32) {
  detail::check_graph_config(config);
  if (capacity < 1 || capacity > config.max_position_embeddings) {
    throw ValueError("llama graph: a capacity of " + std::to_string(capacity) + " positions, not within 1 and " +
                     std::to_string(config.max_position_embeddings));
  }
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = config.num_attention_heads;
  const std::int64_t kv_heads = config.num_key_value_heads;
  const std::int64_t dim = config.head_dim;
  const std::int64_t q_size = config.query_size();
  const std::int64_t kv_size = config.key_value_size();

  graph::Builder b;
  using graph::Value;
  const auto norm_weight = [&](const std::string& name) { return b.constant(name, dtype, {hidden}); };
  const auto project = [&](Value x, const std::string& name, std::int64_t rows) {
    return matmul(x, b.constant(name, dtype, {rows, x.type().shape[0]}).permute({1, 0}));
  };
  const Value rotation = b.input("rotation", dtype, {1, dim / 2, 2});
  const auto rotate = [&](Value x, std::int64_t count) {
    if (pairs == RotaryPairs::neighbours) return complex_multiply(x.reshape({count, dim / 2, 2}), rotation);
    return complex_multiply(x.reshape({count, 2, dim / 2}).permute({0, 2, 1}), rotation);
  };
  const Value position = b.input("position", DType::int64, {1});
  const Value length = b.input("length", DType::int64, {1});
  const Value scale = b.constant("attention_scale", dtype, {1, 1, 1});

  Value x = b.input("embedding", dtype, {hidden});
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    std::string layer = "_";
    layer += std::to_string(i);
    const auto append = [&](const char* cache, Value rows) {  // (kv heads, capacity, dim), a view
      return b.buffer(cache + layer, dtype, {capacity, kv_size})
          .replace_slice(rows.reshape({1, kv_size}), position, length)
          .reshape({capacity, kv_heads, dim})
          .permute({1, 0, 2});
    };
    const Value attention_input = rms_norm(x, norm_weight("rms_att_weight" + layer));
    const Value q = rotate(project(attention_input, "wq" + layer, q_size), heads);
    const Value k = rotate(project(attention_input, "wk" + layer, kv_size), kv_heads);
    const Value v = project(attention_input, "wv" + layer, kv_size);
    const Value keys = append("keys", k);
    const Value values = append("values", v);
    const Value scores = matmul(q.reshape({kv_heads, heads / kv_heads, dim}), keys.permute({0, 2, 1})) * scale;
    const Value attended = matmul(sliced_softmax(scores, length), values).reshape({q_size});
    x = x + project(attended, "wo" + layer, hidden);

    const Value mlp_input = rms_norm(x, norm_weight("rms_ffn_weight" + layer));
    const Value gate = project(mlp_input, "w1" + layer, config.intermediate_size);
    const Value up = project(mlp_input, "w3" + layer, config.intermediate_size);
    x = x + project(silu(gate) * up, "w2" + layer, hidden);
  }
  return b.finish(project(rms_norm(x, norm_weight("rms_final_weight")), "wcls", config.vocab_size));
}

/// The constants of llama_graph from weights under Hugging Face's names, shared where they have its dtype. Throws FormatError
/// for a weight that is missing, of another shape or left over, as Llama<T, Device> does, and DTypeError for one that is not
/// of a floating-point type.
[[nodiscard]] inline graph::TensorMap llama_graph_constants(const ModelConfig& config, const WeightMap& weights,
                                                            DType dtype = DType::float32) {
  detail::check_graph_config(config);
  graph::TensorMap constants;
  Context<Cpu> host(1);
  detail::WeightBinder binder(weights);
  const auto take = [&](const std::string& name, const std::string& from, const std::vector<std::int64_t>& sizes) {
    constants.emplace(name, binder.take(from + ".weight", sizes).cast(host, dtype));
  };
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t query = config.query_size();
  const std::int64_t key_value = config.key_value_size();
  const std::int64_t intermediate = config.intermediate_size;
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    std::string layer = "_";
    layer += std::to_string(i);
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    take("rms_att_weight" + layer, prefix + "input_layernorm", {hidden});
    take("wq" + layer, prefix + "self_attn.q_proj", {query, hidden});
    take("wk" + layer, prefix + "self_attn.k_proj", {key_value, hidden});
    take("wv" + layer, prefix + "self_attn.v_proj", {key_value, hidden});
    take("wo" + layer, prefix + "self_attn.o_proj", {hidden, query});
    take("rms_ffn_weight" + layer, prefix + "post_attention_layernorm", {hidden});
    take("w1" + layer, prefix + "mlp.gate_proj", {intermediate, hidden});
    take("w2" + layer, prefix + "mlp.down_proj", {hidden, intermediate});
    take("w3" + layer, prefix + "mlp.up_proj", {intermediate, hidden});
  }
  take("rms_final_weight", "model.norm", {hidden});
  // A tied model shares the embedding, also where the file holds a copy under the name of the output projection.
  const AnyTensor embedding = binder.take("model.embed_tokens.weight", {config.vocab_size, hidden});
  if (config.tie_word_embeddings) {
    binder.drop("lm_head.weight");
    constants.emplace("wcls", embedding.cast(host, dtype));
  } else {
    take("wcls", "lm_head", {config.vocab_size, hidden});
  }
  binder.finish();
  return constants;
}

/// llama_graph, compiled, with what turns a token into its inputs. One thread at a time; sequences that are read at the same
/// time need a decoder each.
template <DeviceTag Device>
class LlamaGraphDecoder {
 public:
  /// `embedding` (vocab_size, hidden_size) in CPU memory, of any floating-point dtype; `constants` as llama_graph names
  /// them, without attention_scale. Throws what compiling throws, and FormatError where `wcls` holds zeros only: then every
  /// token is as probable as every other.
  LlamaGraphDecoder(Context<Device>& ctx, ModelConfig config, std::int64_t capacity, RotaryPairs pairs,
                    const AnyTensor& embedding, graph::TensorMap constants, DType dtype = DType::float32,
                    const graph::CompileOptions<Device>& options = {})
      : config_(std::move(config)),
        capacity_(capacity),
        embedding_(checked(embedding, config_)),
        executable_(ctx, llama_graph(config_, capacity, pairs, dtype), with_scale(config_, std::move(constants), dtype),
                    options) {
    logits_.resize(static_cast<std::size_t>(config_.vocab_size));
    frequencies_.resize(static_cast<std::size_t>(config_.head_dim / 2));
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config_.head_dim);
      frequencies_[i] = static_cast<float>(1.0 / std::pow(config_.rope_theta, exponent));
    }
  }

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }
  [[nodiscard]] const graph::Executable<Device>& executable() const noexcept { return executable_; }
  /// Tokens that fit, and tokens that were read.
  [[nodiscard]] std::int64_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

  /// Reads a token behind those before it. Returns the logits of what follows it, valid until the next call. Throws IndexError
  /// for an id outside the vocabulary and ValueError where the capacity is used up; nothing has changed then.
  std::span<const float> forward(Context<Device>& ctx, std::int64_t id) {
    if (id < 0 || id >= config_.vocab_size) {
      throw IndexError("llama graph: id " + std::to_string(id) + " is not in [0, " +
                       std::to_string(config_.vocab_size) + ")");
    }
    if (length_ == capacity_) {
      throw ValueError("llama graph: position " + std::to_string(length_) + " is beyond the capacity of " +
                       std::to_string(capacity_));
    }
    set_inputs(id);
    executable_.run(ctx);
    ++length_;
    read_logits(ctx);
    return logits_;
  }

  /// Forgets everything.
  void reset(Context<Device>& ctx) {
    executable_.reset_buffers(ctx);
    length_ = 0;
  }

 private:
  /// The embedding, row-major.
  static AnyTensor checked(const AnyTensor& embedding, const ModelConfig& config) {
    if (embedding.sizes() != std::vector<std::int64_t>{config.vocab_size, config.hidden_size}) {
      throw ShapeError("llama graph: the embedding has shape " + shape_string(embedding.sizes()) + ", expected (" +
                       std::to_string(config.vocab_size) + ", " + std::to_string(config.hidden_size) + ")");
    }
    const DType dtype = embedding.dtype();
    if (dtype != DType::float32 && dtype != DType::float16 && dtype != DType::bfloat16) {
      throw DTypeError("llama graph: the embedding has dtype " + std::string(dtype_name(dtype)) +
                       ", expected float32, float16 or bfloat16");
    }
    Context<Cpu> host(1);
    return embedding.contiguous(host);
  }
  static graph::TensorMap with_scale(const ModelConfig& config, graph::TensorMap constants, DType dtype) {
    const auto output = constants.find("wcls");
    if (output != constants.end() && output->second.device() == DeviceKind::cpu &&
        !detail::any_nonzero(output->second)) {
      throw FormatError("weights: the output projection holds zeros only");
    }
    Context<Cpu> host(1);
    const auto scale =
        full<float>(host, {1, 1, 1}, static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim))));
    constants.insert_or_assign("attention_scale", AnyTensor(scale).cast(host, dtype));
    return constants;
  }

  void set_inputs(std::int64_t id) {
    const auto write = [](const AnyTensor& to, DType from_dtype, const std::byte* from) {
      tenon::detail::convert_run(to.dtype(), const_cast<std::byte*>(to.data()), from_dtype, from, 1, to.numel());
    };
    const auto row = static_cast<std::size_t>(id * config_.hidden_size) * dtype_size(embedding_.dtype());
    write(executable_.input("embedding"), embedding_.dtype(), embedding_.data() + row);
    angles_.resize(2 * frequencies_.size());
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const float angle = static_cast<float>(length_) * frequencies_[i];
      angles_[2 * i] = std::cos(angle);
      angles_[2 * i + 1] = std::sin(angle);
    }
    write(executable_.input("rotation"), DType::float32, reinterpret_cast<const std::byte*>(angles_.data()));
    const std::int64_t length = length_ + 1;
    write(executable_.input("position"), DType::int64, reinterpret_cast<const std::byte*>(&length_));
    write(executable_.input("length"), DType::int64, reinterpret_cast<const std::byte*>(&length));
  }

  void read_logits(Context<Device>& ctx) {
    const AnyTensor& result = executable_.result();
    auto* to = reinterpret_cast<std::byte*>(logits_.data());
    if (result.device() == DeviceKind::cpu) {
      tenon::detail::convert_run(DType::float32, to, result.dtype(), result.data(), 1, result.numel());
    } else {
      const AnyTensor host = result.cpu(ctx);
      tenon::detail::convert_run(DType::float32, to, host.dtype(), host.data(), 1, host.numel());
    }
  }

  ModelConfig config_;
  std::int64_t capacity_;
  AnyTensor embedding_;
  graph::Executable<Device> executable_;
  std::vector<float> logits_;
  std::vector<float> frequencies_;  // of the rotary embedding, radians per position
  std::vector<float> angles_;       // cosine and sine of each
  std::int64_t length_ = 0;
};

TENON_NAMESPACE_END
