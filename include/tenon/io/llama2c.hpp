// Checkpoints of llama2.c: the legacy file, version 1 (float32) and version 2 (int8 in groups), as tensors and as a model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/io/llama2c_header.hpp>
#include <tenon/models/config.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/tensor/any_tensor.hpp>

TENON_NAMESPACE_BEGIN

/// One int8 matrix of a version 2 file: element (i, j) is values(i, j) * scales(i, j / group_size).
struct Llama2cQuantized {
  AnyTensor values;  ///< int8 (rows, columns)
  AnyTensor scales;  ///< float32 (rows, columns / group_size)
  std::int64_t group_size = 0;
};

/// A checked and mapped checkpoint of llama2.c. Copies share the mapping, and so do the tensors taken from it, which may
/// outlive the object. It never changes after construction: any number of threads may use it.
///
/// Tensors have llama2.c's names and layout, pairs of the rotary embedding side by side: token_embedding_table
/// (vocab_size, dim), rms_att_weight and rms_ffn_weight (n_layers, dim), wq and wo (n_layers, dim, dim), wk and wv
/// (n_layers, kv_dim, dim), w1 and w3 (n_layers, hidden_dim, dim), w2 (n_layers, dim, hidden_dim), rms_final_weight
/// (dim), and wcls (vocab_size, dim), which is token_embedding_table where the classifier is shared.
class Llama2cCheckpoint {
 public:
  /// Maps the file and checks its header and size; no tensor is read. Throws FileError if it cannot be read, and
  /// FormatError that names the file and the field or tensor.
  explicit Llama2cCheckpoint(const std::filesystem::path& path) : Llama2cCheckpoint(FileMap::open(path)) {}

  /// The same for bytes that are there already, for example from `FileMap::read`.
  explicit Llama2cCheckpoint(FileMap map) {
    auto state = std::make_shared<State>();
    state->map = std::move(map);
    state->header = detail::parse_llama2c_header(state->map);
    state->parts = detail::llama2c_parts(state->map, state->header);
    state_ = std::move(state);
  }

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return state_->map.path(); }
  /// model_type is "llama"; the norm's epsilon, RoPE's base and the ids of BOS and EOS are those of llama2.c's program.
  [[nodiscard]] const ModelConfig& config() const noexcept { return state_->header.config; }
  /// 0 (legacy), 1 or 2.
  [[nodiscard]] int version() const noexcept { return state_->header.version; }
  /// Elements that share a scale; 0 unless the version is 2.
  [[nodiscard]] std::int64_t group_size() const noexcept { return state_->header.group_size; }

  /// Whether the tensor is int8 with scales. Throws FormatError for a name that llama2.c does not have.
  [[nodiscard]] bool is_quantized(std::string_view name) const { return part(name).quantized; }

  /// A float32 tensor, read-only, without a copy. Throws FormatError for an unknown name, DTypeError for a quantised one.
  [[nodiscard]] AnyTensor tensor(std::string_view name) const {
    const detail::Llama2cPart& found = part(name);
    if (found.quantized) {
      throw DTypeError("tensor '" + std::string(name) + "' of " + detail::quoted(path()) + " is quantised");
    }
    return AnyTensor::from_external(DType::float32, found.sizes, data(found.begin), state_);
  }

  /// One matrix of a quantised tensor as the file has it, without a copy but for scales that are not aligned. `layer` is 0
  /// for those that no layer owns. Throws FormatError for an unknown name, DTypeError for a float32 tensor, and IndexError
  /// for a layer out of range.
  [[nodiscard]] Llama2cQuantized quantized(std::string_view name, std::int64_t layer = 0) const {
    const detail::Llama2cPart& found = part(name);
    if (!found.quantized) {
      throw DTypeError("tensor '" + std::string(name) + "' of " + detail::quoted(path()) + " is not quantised");
    }
    const std::int64_t layers = found.sizes.size() == 3 ? found.sizes[0] : 1;
    if (layer < 0 || layer >= layers) {
      throw IndexError("tensor '" + std::string(name) + "' of " + detail::quoted(path()) + " has no layer " +
                       std::to_string(layer) + ", only " + std::to_string(layers));
    }
    const std::int64_t columns = found.sizes.back();
    const std::int64_t rows = found.sizes[found.sizes.size() - 2];
    const std::byte* values = data(found.begin + static_cast<std::uint64_t>(layer) * found.layer_bytes);
    const std::byte* scales = values + rows * columns;
    Llama2cQuantized result;
    result.group_size = group_size();
    result.values = AnyTensor::from_external(DType::int8, {rows, columns}, values, state_);
    const std::vector<std::int64_t> scale_sizes{rows, columns / group_size()};
    if (reinterpret_cast<std::uintptr_t>(scales) % alignof(float) == 0) {
      result.scales = AnyTensor::from_external(DType::float32, scale_sizes, scales, state_);
    } else {
      Context<Cpu> ctx(1);
      result.scales = AnyTensor::empty(ctx, DType::float32, scale_sizes);
      result.scales.load(ctx, std::span<const std::byte>(scales, result.scales.nbytes()));
    }
    return result;
  }

  /// The tensor in float32 whatever the file has: int8 times scale, rounded once. Throws FormatError for an unknown name.
  [[nodiscard]] AnyTensor dequantized(std::string_view name) const {
    const detail::Llama2cPart& found = part(name);
    if (!found.quantized) return tensor(name);
    Context<Cpu> ctx(1);
    std::vector<std::int64_t> sizes = found.sizes;
    if (sizes.size() == 2) sizes.insert(sizes.begin(), 1);
    const AnyTensor result = AnyTensor::empty(ctx, DType::float32, sizes);
    const auto matrices = result.as<float, 3>();
    for (std::int64_t layer = 0; layer < sizes[0]; ++layer) {
      const Llama2cQuantized matrix = quantized(name, layer);
      const auto* values = matrix.values.as<const std::int8_t, 2>().data();
      const auto* scales = matrix.scales.as<const float, 2>().data();
      float* to = matrices.select(0, layer).data();
      for (std::int64_t i = 0; i < matrix.values.numel(); ++i) {
        to[i] = static_cast<float>(values[i]) * scales[i / matrix.group_size];
      }
    }
    return result.view(found.sizes);
  }

 private:
  /// What copies and tensors share; built once, const from then on.
  struct State {
    FileMap map;
    detail::Llama2cHeader header;
    std::vector<detail::Llama2cPart> parts;
  };

  [[nodiscard]] const std::byte* data(std::uint64_t offset) const noexcept {
    return state_->map.bytes().data() + static_cast<std::size_t>(offset);
  }

  [[nodiscard]] const detail::Llama2cPart& part(std::string_view name) const {
    const std::string_view stored = name == "wcls" && config().tie_word_embeddings ? "token_embedding_table" : name;
    for (const detail::Llama2cPart& candidate : state_->parts) {
      if (candidate.name == stored) return candidate;
    }
    throw FormatError(detail::quoted(path()) + " holds no tensor '" + std::string(name) + "'");
  }

  std::shared_ptr<const State> state_;
};

/// The weights under Hugging Face's names, for `Llama`. What is float32 in the file stays where it is, but for the rows of
/// wq and wk: llama2.c rotates the pairs (2i, 2i + 1) of a head, Hugging Face (i, i + head_dim / 2), so each head's even
/// rows come first here. Version 2 is dequantised.
inline WeightMap read_llama2c_weights(const Llama2cCheckpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  const std::int64_t dim = config.hidden_size;
  Context<Cpu> ctx(1);
  const auto split_halves = [&](const AnyTensor& matrix, std::int64_t heads) {
    return matrix.view({heads, config.head_dim / 2, 2, dim})
        .permute({0, 2, 1, 3})
        .contiguous(ctx)
        .view({heads * config.head_dim, dim});
  };
  struct Parameter {
    std::string_view stored;
    std::string_view name;
    std::int64_t rotated_heads = 0;
  };
  const Parameter parameters[] = {
      {"rms_att_weight", "input_layernorm"},
      {"wq", "self_attn.q_proj", config.num_attention_heads},
      {"wk", "self_attn.k_proj", config.num_key_value_heads},
      {"wv", "self_attn.v_proj"},
      {"wo", "self_attn.o_proj"},
      {"rms_ffn_weight", "post_attention_layernorm"},
      {"w1", "mlp.gate_proj"},
      {"w2", "mlp.down_proj"},
      {"w3", "mlp.up_proj"},
  };
  WeightMap weights;
  for (const Parameter& parameter : parameters) {
    const AnyTensor layers = checkpoint.dequantized(parameter.stored);
    for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
      AnyTensor matrix = layers.select(0, i);
      if (parameter.rotated_heads != 0) matrix = split_halves(matrix, parameter.rotated_heads);
      weights.emplace("model.layers." + std::to_string(i) + "." + std::string(parameter.name) + ".weight",
                      std::move(matrix));
    }
  }
  weights.emplace("model.embed_tokens.weight", checkpoint.dequantized("token_embedding_table"));
  weights.emplace("model.norm.weight", checkpoint.tensor("rms_final_weight"));
  if (!config.tie_word_embeddings) weights.emplace("lm_head.weight", checkpoint.dequantized("wcls"));
  return weights;
}

/// Loads `Model` (Llama<T, Device>) from a checkpoint of llama2.c. Throws FileError or FormatError that names the file and
/// the field or tensor.
template <class Model>
[[nodiscard]] Model load_llama2c(Context<typename Model::device_type>& ctx, const std::filesystem::path& path) {
  const Llama2cCheckpoint checkpoint(path);
  try {
    return Model(ctx, checkpoint.config(), read_llama2c_weights(checkpoint));
  } catch (const FormatError& error) {
    throw FormatError(detail::quoted(path) + ": " + error.what());
  }
}

TENON_NAMESPACE_END
