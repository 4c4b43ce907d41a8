// Decoder: the LLaMA-family transformer that Qwen2 and LLaMA 2 configure. `forward` reads top to bottom as the paper does.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/models/config.hpp>
#include <tenon/models/kv_cache.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/ops/add_rms_norm.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/rope_append.hpp>
#include <tenon/ops/self_attention.hpp>
#include <tenon/ops/swiglu.hpp>
#include <tenon/runtime/context.hpp>
#include <tenon/runtime/uploader.hpp>
#include <tenon/tensor/copy.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {
inline ModelConfig expect_model_type(ModelConfig config, std::string_view model_type) {
  if (config.model_type != model_type) {
    throw FormatError("the configuration has model_type '" + config.model_type + "', expected '" +
                      std::string(model_type) + "'");
  }
  return config;
}
}  // namespace detail

/// Called with hidden states (tokens, hidden_size): 0 is the embedding, i the output of layer i, and the last one is
/// after the final norm, which is how transformers numbers `hidden_states`. The view is valid during the call.
template <class T, DeviceTag Device>
using HiddenStateObserver = std::function<void(std::int64_t index, View<const T, 2, Device> hidden)>;

/// The weights of one transformer block.
template <class T, DeviceTag Device>
struct DecoderLayer {
  Tensor<const T, 1, Device> input_norm;           // (hidden)
  JoinedWeight<T, Device> qkv_proj;                // ((heads + 2 kv heads) * head_dim, hidden): query, key, value
  LinearWeight<T, Device> o_proj;                  // (hidden, heads * head_dim)
  Tensor<const T, 1, Device> post_attention_norm;  // (hidden)
  JoinedWeight<T, Device> gate_up_proj;            // (2 intermediate, hidden): gate, up
  LinearWeight<T, Device> down_proj;               // (hidden, intermediate)
};

/// A causal language model with computations in T. Const after construction: any number of threads may call it at once,
/// each with its own context and cache.
template <class T, DeviceTag Device>
class Decoder {
 public:
  using value_type = T;
  using device_type = Device;
  using Cache = KvCache<T, Device>;

  /// Binds every parameter to exactly one weight. On the CPU weights that need no conversion are shared with the map, not
  /// copied; to a GPU all are copied, which `progress` is told of. Throws FormatError or DTypeError that names the tensor:
  /// missing, superfluous, of another shape, or an output projection of zeros only; Error where memory is short.
  Decoder(Context<Device>& ctx, ModelConfig config, WeightMap weights, const LoadProgress& progress = {});

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }

  // The weights, for code that runs the layers in another way than forward does.
  [[nodiscard]] const LinearWeight<T, Device>& embed_tokens() const noexcept { return embed_tokens_; }
  [[nodiscard]] const std::vector<DecoderLayer<T, Device>>& layers() const noexcept { return layers_; }
  [[nodiscard]] const Tensor<const T, 1, Device>& norm() const noexcept { return norm_; }
  [[nodiscard]] const LinearWeight<T, Device>& lm_head() const noexcept { return lm_head_; }

  /// A cache for one sequence; `capacity` 0 means max_position_embeddings.
  [[nodiscard]] Cache make_cache(Context<Device>& ctx, std::int64_t capacity = 0) const {
    return Cache(ctx, config_, capacity == 0 ? config_.max_position_embeddings : capacity);
  }

  /// Reads `ids` after the tokens that the cache holds, appends them to it, and writes the logits of the last
  /// logits.size(0) of them: logits (r, vocab_size), r at most ids.size(). Row i predicts what follows that token.
  /// The logits of T are rounded to T, as transformers does, and then widened.
  ///
  /// Throws IndexError for ids outside the vocabulary and ValueError where the cache has no room; the cache is then as
  /// it was.
  void forward(Context<Device>& ctx, Cache& cache, std::span<const std::int64_t> ids, View<float, 2, Device> logits,
               const HiddenStateObserver<T, Device>& observer = {}) const;

  /// Logits after the last of `ids`: (vocab_size).
  [[nodiscard]] Tensor<float, 1, Device> forward(Context<Device>& ctx, Cache& cache,
                                                 std::span<const std::int64_t> ids) const {
    auto logits = empty<float>(ctx, {1, config_.vocab_size});
    forward(ctx, cache, ids, logits);
    return logits.select(0, 0);
  }

  /// Bytes of weights that decoding one token reads: every matrix once (the embedding only as output projection).
  [[nodiscard]] std::int64_t bytes_per_token() const noexcept;

  /// Most tokens that pass through the layers at once; longer prompts go in pieces, which bounds scratch memory.
  /// Only an observer makes all tokens go at once.
  static constexpr std::int64_t max_tokens_at_once = std::same_as<Device, Cpu> ? 1024 : 4096;

 private:
  void check_input(const Cache& cache, std::span<const std::int64_t> ids, const Sizes<2>& logits) const;
  void forward_piece(Context<Device>& ctx, Cache& cache, std::span<const std::int64_t> ids,
                     View<float, 2, Device> logits, const HiddenStateObserver<T, Device>& observer) const;
  ModelConfig config_;
  LinearWeight<T, Device> embed_tokens_;  // (vocab, hidden)
  std::vector<DecoderLayer<T, Device>> layers_;
  Tensor<const T, 1, Device> norm_;  // (hidden)
  LinearWeight<T, Device> lm_head_;  // (vocab, hidden); shares embed_tokens_ where tied
};

template <class T, DeviceTag Device>
Decoder<T, Device>::Decoder(Context<Device>& ctx, ModelConfig config, WeightMap weights, const LoadProgress& progress)
    : config_(std::move(config)) {
  config_.validate();
  Uploader<Device> uploader(ctx, detail::total_bytes(weights), progress);
  detail::WeightBinder binder(std::move(weights));
  const std::int64_t hidden = config_.hidden_size;
  const auto part = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool has_bias) {
    NamedWeight result{binder.take(name + ".weight", {rows, columns}), {}};
    if (has_bias) result.bias = binder.take(name + ".bias", {rows});
    return result;
  };
  const auto norm = [&](const std::string& name) {
    return uploader.template upload<T, 1>(binder.take(name + ".weight", {hidden}));
  };

  const NamedWeight embedding_table = part("model.embed_tokens", config_.vocab_size, hidden, false);
  embed_tokens_ = LinearWeight<T, Device>(uploader, embedding_table);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    const std::int64_t query = config_.query_size();
    const std::int64_t key_value = config_.key_value_size();
    const std::int64_t intermediate = config_.intermediate_size;
    DecoderLayer<T, Device> layer;
    layer.input_norm = norm(prefix + "input_layernorm");
    const NamedWeight qkv[] = {part(attention + "q_proj", query, hidden, config_.attention_bias),
                               part(attention + "k_proj", key_value, hidden, config_.attention_bias),
                               part(attention + "v_proj", key_value, hidden, config_.attention_bias)};
    layer.qkv_proj = JoinedWeight<T, Device>(uploader, qkv);
    layer.o_proj = {uploader, part(attention + "o_proj", hidden, query, config_.attention_output_bias)};
    layer.post_attention_norm = norm(prefix + "post_attention_layernorm");
    const NamedWeight gate_up[] = {part(mlp + "gate_proj", intermediate, hidden, config_.mlp_bias),
                                   part(mlp + "up_proj", intermediate, hidden, config_.mlp_bias)};
    layer.gate_up_proj = JoinedWeight<T, Device>(uploader, gate_up);
    layer.down_proj = {uploader, part(mlp + "down_proj", hidden, intermediate, config_.mlp_bias)};
    layers_.push_back(std::move(layer));
  }
  norm_ = norm("model.norm");

  // A tied model shares the embedding, also where the file holds a copy under the name of the output projection.
  NamedWeight output = embedding_table;
  if (config_.tie_word_embeddings) {
    binder.drop("lm_head.weight");
    lm_head_ = embed_tokens_;
  } else {
    output = part("lm_head", config_.vocab_size, hidden, false);
    lm_head_ = LinearWeight<T, Device>(uploader, output);
  }
  if (!detail::any_nonzero(output.matrix)) throw FormatError("weights: the output projection holds zeros only");
  binder.finish();
  uploader.finish();
}

template <class T, DeviceTag Device>
std::int64_t Decoder<T, Device>::bytes_per_token() const noexcept {
  std::int64_t sum = lm_head_.bytes();
  for (const DecoderLayer<T, Device>& layer : layers_) {
    sum += layer.qkv_proj.bytes() + layer.o_proj.bytes() + layer.gate_up_proj.bytes() + layer.down_proj.bytes();
  }
  return sum;
}

template <class T, DeviceTag Device>
void Decoder<T, Device>::check_input(const Cache& cache, std::span<const std::int64_t> ids,
                                     const Sizes<2>& logits) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  if (tokens == 0) throw ValueError("forward: there are no tokens to read");
  if (!cache.fits(config_)) throw ShapeError("forward: the cache was made for a model of another shape");
  if (logits[0] < 0 || logits[0] > tokens || logits[1] != config_.vocab_size) {
    throw ShapeError("forward: logits has shape " + shape_string(logits) + ", expected at most " +
                     std::to_string(tokens) + " rows of " + std::to_string(config_.vocab_size));
  }
  if (tokens > cache.capacity() - cache.length()) {
    throw ValueError("forward: " + std::to_string(tokens) + " tokens do not fit a context of " +
                     std::to_string(cache.capacity()) + " that holds " + std::to_string(cache.length()));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    detail::check_index("forward", "ids", static_cast<std::int64_t>(i), ids[i], config_.vocab_size);
  }
}

template <class T, DeviceTag Device>
void Decoder<T, Device>::forward(Context<Device>& ctx, Cache& cache, std::span<const std::int64_t> ids,
                                 View<float, 2, Device> logits, const HiddenStateObserver<T, Device>& observer) const {
  check_input(cache, ids, logits.sizes());
  const std::int64_t before = cache.length();
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t first_row = tokens - logits.size(0);  // the token that the first row of logits belongs to
  const std::int64_t piece = observer ? tokens : max_tokens_at_once;
  try {
    for (std::int64_t begin = 0; begin < tokens; begin += piece) {
      const std::int64_t end = std::min(begin + piece, tokens);
      const auto rows =
          logits.slice(0, std::max<std::int64_t>(begin - first_row, 0), std::max<std::int64_t>(end - first_row, 0));
      forward_piece(ctx, cache, ids.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
                    rows, observer);
    }
  } catch (...) {
    cache.truncate(before);
    throw;
  }
}

template <class T, DeviceTag Device>
void Decoder<T, Device>::forward_piece(Context<Device>& ctx, Cache& cache, std::span<const std::int64_t> ids,
                                       View<float, 2, Device> logits,
                                       const HiddenStateObserver<T, Device>& observer) const {
  const auto tokens = static_cast<std::int64_t>(ids.size());
  const std::int64_t first = cache.length();
  const std::int64_t last = first + tokens;
  const std::int64_t dim = config_.head_dim;
  const std::int64_t heads = config_.num_attention_heads;
  const std::int64_t kv_heads = config_.num_key_value_heads;

  auto scope = ctx.workspace().scope();
  const auto matrix = [&]<class U>(std::type_identity<U>, std::int64_t rows, std::int64_t columns) {
    return View<U, 2, Device>(scope.template allocate<U>(rows * columns), Sizes<2>{rows, columns});
  };
  const auto activation = [&](std::int64_t columns) { return matrix(std::type_identity<T>{}, tokens, columns); };
  const auto by_head = [&](View<T, 2, Device> x, std::int64_t count) { return x.view({tokens, count, dim}); };

  std::vector<std::int64_t> rows(ids.begin(), ids.end());
  rows.resize(static_cast<std::size_t>(2 * tokens));
  std::iota(rows.begin() + tokens, rows.end(), first);
  const View<std::int64_t, 2, Device> numbers = matrix(std::type_identity<std::int64_t>{}, 2, tokens);
  copy(ctx, numbers, View<const std::int64_t, 2, Cpu>(rows.data(), numbers.sizes()));
  const auto index = numbers.select(0, 0);
  const auto positions = numbers.select(0, 1);
  const auto cos = matrix(std::type_identity<float>{}, tokens, dim / 2);
  const auto sin = matrix(std::type_identity<float>{}, tokens, dim / 2);
  rope_table(ctx, cos, sin, positions, config_.rope_theta);

  const std::int64_t q_size = config_.query_size();
  const std::int64_t kv_size = config_.key_value_size();
  const std::int64_t intermediate = config_.intermediate_size;
  const auto x = activation(config_.hidden_size);       // the residual stream
  const auto normed = activation(config_.hidden_size);  // its norm, which projections read
  const auto delta = activation(config_.hidden_size);   // what a block adds to it
  const auto qkv = activation(q_size + 2 * kv_size);
  const auto q = by_head(qkv.slice(1, 0, q_size), heads);
  const auto k = by_head(qkv.slice(1, q_size, q_size + kv_size), kv_heads);
  const auto v = by_head(qkv.slice(1, q_size + kv_size, q_size + 2 * kv_size), kv_heads);
  const auto attended = activation(q_size);
  const auto gate_up = activation(2 * intermediate);
  const auto gate = gate_up.slice(1, 0, intermediate);
  const auto up = gate_up.slice(1, intermediate, 2 * intermediate);
  const auto activated = activation(intermediate);
  const double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  const double eps = config_.rms_norm_eps;

  embed_tokens_.look_up(ctx, x, index);
  if (observer) observer(0, x);
  rms_norm(ctx, normed, x, layers_.front().input_norm, eps);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const DecoderLayer<T, Device>& layer = layers_[static_cast<std::size_t>(i)];
    const bool is_last = i + 1 == config_.num_hidden_layers;
    const auto& next_norm = is_last ? norm_ : layers_[static_cast<std::size_t>(i) + 1].input_norm;

    layer.qkv_proj.multiply(ctx, qkv, normed);
    rope_append(ctx, q, cache.keys(i, first, last), cache.values(i, first, last), q, k, v, cos, sin);
    self_attention(ctx, by_head(attended, heads), q, cache.keys(i, 0, last), cache.values(i, 0, last), scale,
                   config_.window_of_layer(i).value_or(0));
    layer.o_proj.multiply(ctx, delta, attended);
    add_rms_norm(ctx, x, normed, x, delta, layer.post_attention_norm, eps);

    layer.gate_up_proj.multiply(ctx, gate_up, normed);
    swiglu(ctx, activated, gate, up);
    layer.down_proj.multiply(ctx, delta, activated);
    add_rms_norm(ctx, x, normed, x, delta, next_norm, eps);
    if (observer) observer(i + 1, is_last ? normed : x);
  }

  if (logits.size(0) > 0) {
    const auto tail = normed.slice(0, tokens - logits.size(0), tokens);
    if constexpr (std::same_as<T, float>) {
      lm_head_.multiply(ctx, logits, tail);
    } else {
      const auto rounded = matrix(std::type_identity<T>{}, logits.size(0), config_.vocab_size);
      lm_head_.multiply(ctx, rounded, tail);
      copy(ctx, logits, rounded);
    }
  }
  cache.commit(tokens);
}

TENON_NAMESPACE_END
