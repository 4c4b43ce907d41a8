// Decoder: the LLaMA-family transformer that Qwen2 and LLaMA 2 configure. `forward` reads top to bottom as the paper does.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
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
#include <tenon/ops/add.hpp>
#include <tenon/ops/rms_norm.hpp>
#include <tenon/ops/rope.hpp>
#include <tenon/ops/self_attention.hpp>
#include <tenon/ops/swiglu.hpp>
#include <tenon/runtime/context.hpp>

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

/// A causal language model with computations in T. Const after construction: any number of threads may call it at once,
/// each with its own context and cache.
template <class T, DeviceTag Device>
class Decoder {
 public:
  using value_type = T;
  using device_type = Device;
  using Cache = KvCache<T, Device>;

  /// Binds every parameter to exactly one weight. Weights that need no conversion are shared with the map, not copied.
  /// Throws FormatError or DTypeError that names the tensor: missing, superfluous, of another shape, or an output
  /// projection of zeros only.
  Decoder(Context<Device>& ctx, ModelConfig config, WeightMap weights);

  [[nodiscard]] const ModelConfig& config() const noexcept { return config_; }

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
  static constexpr std::int64_t max_tokens_at_once = 1024;

 private:
  struct Layer {
    Tensor<const T, 1, Device> input_norm;           // (hidden)
    LinearWeight<T, Device> q_proj;                  // (heads * head_dim, hidden)
    LinearWeight<T, Device> k_proj;                  // (kv heads * head_dim, hidden)
    LinearWeight<T, Device> v_proj;                  // (kv heads * head_dim, hidden)
    LinearWeight<T, Device> o_proj;                  // (hidden, heads * head_dim)
    Tensor<const T, 1, Device> post_attention_norm;  // (hidden)
    LinearWeight<T, Device> gate_proj;               // (intermediate, hidden)
    LinearWeight<T, Device> up_proj;                 // (intermediate, hidden)
    LinearWeight<T, Device> down_proj;               // (hidden, intermediate)
  };

  void check_input(const Cache& cache, std::span<const std::int64_t> ids, const Sizes<2>& logits) const;
  void forward_piece(Context<Device>& ctx, Cache& cache, std::span<const std::int64_t> ids,
                     View<float, 2, Device> logits, const HiddenStateObserver<T, Device>& observer) const;
  void attend(Context<Device>& ctx, const Cache& cache, std::int64_t layer, View<T, 3, Device> out,
              View<const T, 3, Device> q) const;

  ModelConfig config_;
  LinearWeight<T, Device> embed_tokens_;  // (vocab, hidden)
  std::vector<Layer> layers_;
  Tensor<const T, 1, Device> norm_;  // (hidden)
  LinearWeight<T, Device> lm_head_;  // (vocab, hidden); shares embed_tokens_ where tied
};

template <class T, DeviceTag Device>
Decoder<T, Device>::Decoder(Context<Device>& ctx, ModelConfig config, WeightMap weights) : config_(std::move(config)) {
  config_.validate();
  detail::WeightBinder binder(std::move(weights));
  const std::int64_t hidden = config_.hidden_size;
  const auto projection = [&](const std::string& name, std::int64_t rows, std::int64_t columns, bool has_bias) {
    const AnyTensor weight = binder.take(name + ".weight", {rows, columns});
    if (!has_bias) return LinearWeight<T, Device>(ctx, weight);
    const AnyTensor bias = binder.take(name + ".bias", {rows});
    return LinearWeight<T, Device>(ctx, weight, &bias);
  };
  const auto norm = [&](const std::string& name) {
    return binder.take(name + ".weight", {hidden}).cast(ctx, dtype_of<T>).template as<const T, 1, Device>();
  };

  AnyTensor embedding_table = binder.take("model.embed_tokens.weight", {config_.vocab_size, hidden});
  embed_tokens_ = LinearWeight<T, Device>(ctx, embedding_table);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const std::string prefix = "model.layers." + std::to_string(i) + ".";
    const std::string attention = prefix + "self_attn.";
    const std::string mlp = prefix + "mlp.";
    Layer layer;
    layer.input_norm = norm(prefix + "input_layernorm");
    layer.q_proj = projection(attention + "q_proj", config_.query_size(), hidden, config_.attention_bias);
    layer.k_proj = projection(attention + "k_proj", config_.key_value_size(), hidden, config_.attention_bias);
    layer.v_proj = projection(attention + "v_proj", config_.key_value_size(), hidden, config_.attention_bias);
    layer.o_proj = projection(attention + "o_proj", hidden, config_.query_size(), config_.attention_output_bias);
    layer.post_attention_norm = norm(prefix + "post_attention_layernorm");
    layer.gate_proj = projection(mlp + "gate_proj", config_.intermediate_size, hidden, config_.mlp_bias);
    layer.up_proj = projection(mlp + "up_proj", config_.intermediate_size, hidden, config_.mlp_bias);
    layer.down_proj = projection(mlp + "down_proj", hidden, config_.intermediate_size, config_.mlp_bias);
    layers_.push_back(std::move(layer));
  }
  norm_ = norm("model.norm");

  // A tied model shares the embedding, also where the file holds a copy under the name of the output projection.
  AnyTensor output = embedding_table;
  if (config_.tie_word_embeddings) {
    binder.drop("lm_head.weight");
    lm_head_ = embed_tokens_;
  } else {
    output = binder.take("lm_head.weight", {config_.vocab_size, hidden});
    lm_head_ = LinearWeight<T, Device>(ctx, output);
  }
  if (!detail::any_nonzero(ctx, output)) throw FormatError("weights: the output projection holds zeros only");
  binder.finish();
}

template <class T, DeviceTag Device>
std::int64_t Decoder<T, Device>::bytes_per_token() const noexcept {
  std::int64_t sum = lm_head_.bytes();
  for (const Layer& layer : layers_) {
    for (const auto* weight : {&layer.q_proj, &layer.k_proj, &layer.v_proj, &layer.o_proj, &layer.gate_proj,
                               &layer.up_proj, &layer.down_proj}) {
      sum += weight->bytes();
    }
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

  const View<std::int64_t, 1, Device> index(scope.template allocate<std::int64_t>(tokens), Sizes<1>{tokens});
  const View<std::int64_t, 1, Device> positions(scope.template allocate<std::int64_t>(tokens), Sizes<1>{tokens});
  for (std::int64_t t = 0; t < tokens; ++t) {
    index(t) = ids[static_cast<std::size_t>(t)];
    positions(t) = first + t;
  }
  const auto cos = matrix(std::type_identity<float>{}, tokens, dim / 2);
  const auto sin = matrix(std::type_identity<float>{}, tokens, dim / 2);
  rope_table(ctx, cos, sin, positions, config_.rope_theta);

  const auto x = activation(config_.hidden_size);       // the residual stream
  const auto normed = activation(config_.hidden_size);  // and what norms and projections make of it
  const auto q = activation(config_.query_size());
  const auto attended = activation(config_.query_size());
  const auto gate = activation(config_.intermediate_size);
  const auto up = activation(config_.intermediate_size);

  embed_tokens_.look_up(ctx, x, index);
  if (observer) observer(0, x);
  for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
    const Layer& layer = layers_[static_cast<std::size_t>(i)];
    const auto k = cache.keys(i, first, last).view({tokens, kv_heads * dim});  // written in place
    const auto v = cache.values(i, first, last).view({tokens, kv_heads * dim});

    rms_norm(ctx, normed, x, layer.input_norm, config_.rms_norm_eps);
    layer.q_proj.multiply(ctx, q, normed);
    layer.k_proj.multiply(ctx, k, normed);
    layer.v_proj.multiply(ctx, v, normed);
    rope(ctx, by_head(q, heads), by_head(q, heads), cos, sin);
    rope(ctx, by_head(k, kv_heads), by_head(k, kv_heads), cos, sin);
    attend(ctx, cache, i, by_head(attended, heads), by_head(q, heads));
    layer.o_proj.multiply(ctx, normed, attended);
    add(ctx, x, x, normed);

    rms_norm(ctx, normed, x, layer.post_attention_norm, config_.rms_norm_eps);
    layer.gate_proj.multiply(ctx, gate, normed);
    layer.up_proj.multiply(ctx, up, normed);
    swiglu(ctx, gate, gate, up);
    layer.down_proj.multiply(ctx, normed, gate);
    add(ctx, x, x, normed);
    if (observer && i + 1 < config_.num_hidden_layers) observer(i + 1, x);
  }

  const std::int64_t rows = observer ? tokens : logits.size(0);
  if (rows > 0) {
    const auto tail = normed.slice(0, tokens - rows, tokens);
    rms_norm(ctx, tail, x.slice(0, tokens - rows, tokens), norm_, config_.rms_norm_eps);
    if (observer) observer(config_.num_hidden_layers, normed);
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

template <class T, DeviceTag Device>
void Decoder<T, Device>::attend(Context<Device>& ctx, const Cache& cache, std::int64_t layer, View<T, 3, Device> out,
                                View<const T, 3, Device> q) const {
  const std::int64_t tokens = q.size(0);
  const std::int64_t first = cache.length();
  const double scale = 1.0 / std::sqrt(static_cast<double>(config_.head_dim));
  const std::optional<std::int64_t> window = config_.window_of_layer(layer);
  if (!window || first + tokens <= *window) {
    self_attention(ctx, out, q, cache.keys(layer, 0, first + tokens), cache.values(layer, 0, first + tokens), scale);
    return;
  }
  // A window of W holds the query itself and the W - 1 positions before it: another range of keys for each query.
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int64_t end = first + t + 1;
    const std::int64_t begin = std::max<std::int64_t>(0, end - *window);
    self_attention(ctx, out.slice(0, t, t + 1), q.slice(0, t, t + 1), cache.keys(layer, begin, end),
                   cache.values(layer, begin, end), scale);
  }
}

TENON_NAMESPACE_END
