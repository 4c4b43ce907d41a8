// DecodeStep: one token through a decoder on CUDA, with five kernels a layer, captured in a CUDA graph and replayed.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/copy.hpp>
#include <tenon/cuda/decode_attention.hpp>
#include <tenon/cuda/decode_embedding.hpp>
#include <tenon/cuda/decode_linear.hpp>
#include <tenon/cuda/graph.hpp>
#include <tenon/models/decoder.hpp>
#include <tenon/models/kv_cache.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN

/// What `Decoder::forward` does for a single token, with everything that changes from token to token in device memory:
/// the id, its position, and what a continuation puts behind the logits (choosing the next id). So the same work can be
/// put into the stream again and again without the host knowing any of it.
///
/// The values are those of forward, rounded at the same points; sums may be formed in another order. Model, cache and
/// context must outlive the step; the cache's memory must stay where it is. Every call takes the context of the
/// constructor. One thread at a time.
template <class T>
class DecodeStep {
 public:
  /// Put into the stream behind the logits of every step: `run` captures it too, so it must follow the rules of graphs.
  using Continuation = std::function<void(Context<Cuda>&)>;

  DecodeStep(Context<Cuda>& ctx, const Decoder<T, Cuda>& model, const KvCache<T, Cuda>& cache,
             Continuation continuation = {})
      : model_(checked(model, cache)),
        cache_(cache),
        continuation_(std::move(continuation)),
        config_(model.config()),
        x_(empty<T>(ctx, {config_.hidden_size})),
        qkv_(empty<T>(ctx, {config_.query_size() + 2 * config_.key_value_size()})),
        attended_(empty<T>(ctx, {config_.query_size()})),
        activated_(empty<T>(ctx, {config_.intermediate_size})),
        logits_(empty<float>(ctx, {1, config_.vocab_size})),
        cos_(empty<float>(ctx, {config_.head_dim / 2})),
        sin_(empty<float>(ctx, {config_.head_dim / 2})),
        numbers_(zeros<std::int64_t>(ctx, {2})),
        partial_(empty<float>(ctx, {detail::decode_attention_partials(ctx.properties(), shape(0))})),
        tickets_(zeros<std::int32_t>(ctx, {detail::decode_attention_tickets(ctx.properties(), shape(0))})) {}

  DecodeStep(const DecodeStep&) = delete;
  DecodeStep& operator=(const DecodeStep&) = delete;

  /// Device memory of the id that the next step reads, and of its position in the cache. Whoever sets the id outside of
  /// the continuation takes care that both are in range.
  [[nodiscard]] std::int64_t* id() const noexcept { return numbers_.data(); }
  [[nodiscard]] std::int64_t* position() const noexcept { return numbers_.data() + 1; }
  /// Where each step leaves the logits: (1, vocab_size). Others may write them too, such as forward for a prompt.
  [[nodiscard]] const Tensor<float, 2, Cuda>& logits() const noexcept { return logits_; }

  /// Sets the position of the next step. Waits for the context.
  void set_position(Context<Cuda>& ctx, std::int64_t position) const {
    copy(ctx, View<std::int64_t, 1, Cuda>(numbers_).slice(0, 1, 2),
         View<const std::int64_t, 1, Cpu>(&position, Sizes<1>{1}));
  }

  /// Puts a step into the stream: reads the id, writes keys and values at the position, forms the logits, and runs the
  /// continuation, which is to advance the position. Does not wait. The first step runs as it is, so that every kernel is
  /// loaded; the second is captured, if the context uses graphs.
  void run(Context<Cuda>& ctx) {
    const bool dependent = ctx.dependent_launch();
    if (!ctx.graphs() || !warm_ || dependent != dependent_) {
      graph_.reset();
      enqueue(ctx);
      warm_ = true;
      dependent_ = dependent;
      return;
    }
    if (!graph_) graph_.emplace(ctx, [&] { enqueue(ctx); });
    graph_->launch(ctx);
  }

 private:
  static constexpr std::int64_t most_head_dim = 256;

  static const Decoder<T, Cuda>& checked(const Decoder<T, Cuda>& model, const KvCache<T, Cuda>& cache) {
    if (!cache.fits(model.config())) throw ShapeError("decode step: the cache was made for a model of another shape");
    if (model.config().head_dim > most_head_dim) {
      throw ShapeError("decode step: head_dim is " + std::to_string(model.config().head_dim) + ", and at most " +
                       std::to_string(most_head_dim) + " is taken on CUDA");
    }
    return model;
  }

  [[nodiscard]] detail::DecodeAttentionShape shape(std::int64_t layer) const {
    return {config_.num_attention_heads,
            config_.num_key_value_heads,
            config_.head_dim,
            cache_.capacity(),
            config_.window_of_layer(layer).value_or(0),
            1.0 / std::sqrt(static_cast<double>(config_.head_dim))};
  }

  /// The forward pass, as Decoder::forward_piece has it for any number of tokens.
  void enqueue(Context<Cuda>& ctx) const {
    const double eps = config_.rms_norm_eps;
    const detail::DecodeAttentionScratch scratch{partial_.data(), reinterpret_cast<unsigned*>(tickets_.data())};
    model_.embed_tokens().visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto&) {
      detail::decode_embedding<T, W>(ctx, x_.data(), cos_.data(), sin_.data(), id(), position(), weight,
                                     config_.head_dim, config_.rope_theta);
    });
    for (std::int64_t i = 0; i < config_.num_hidden_layers; ++i) {
      const DecoderLayer<T, Cuda>& layer = model_.layers()[static_cast<std::size_t>(i)];
      const LinearWeight<T, Cuda>& qkv_proj = layer.qkv_proj.matrices().front();
      const LinearWeight<T, Cuda>& gate_up_proj = layer.gate_up_proj.matrices().front();

      qkv_proj.visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto& bias) {
        detail::decode_norm_linear<T, W>(ctx, qkv_.data(), x_.data(), layer.input_norm.data(), eps, weight,
                                         pointer(bias));
      });
      detail::decode_attention<T>(ctx, attended_.data(), qkv_.data(), cache_.keys(i, 0, cache_.capacity()).data(),
                                  cache_.values(i, 0, cache_.capacity()).data(), cos_.data(), sin_.data(), position(),
                                  shape(i), scratch);
      layer.o_proj.visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto& bias) {
        detail::decode_add_linear<T, W>(ctx, x_.data(), attended_.data(), weight, pointer(bias));
      });
      gate_up_proj.visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto& bias) {
        detail::decode_norm_swiglu<T, W>(ctx, activated_.data(), x_.data(), layer.post_attention_norm.data(), eps,
                                         weight, pointer(bias));
      });
      layer.down_proj.visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto& bias) {
        detail::decode_add_linear<T, W>(ctx, x_.data(), activated_.data(), weight, pointer(bias));
      });
    }
    model_.lm_head().visit([&]<class W>(const View<const W, 2, Cuda>& weight, const auto&) {
      detail::decode_logits<T, W>(ctx, logits_.data(), x_.data(), model_.norm().data(), eps, weight);
    });
    if (continuation_) continuation_(ctx);
  }

  template <class W>
  static const W* pointer(const std::optional<View<const W, 1, Cuda>>& bias) noexcept {
    return bias ? bias->data() : nullptr;
  }

  const Decoder<T, Cuda>& model_;
  const KvCache<T, Cuda>& cache_;
  Continuation continuation_;
  const ModelConfig& config_;
  // Static buffers: captured work points to them.
  Tensor<T, 1, Cuda> x_;
  Tensor<T, 1, Cuda> qkv_;
  Tensor<T, 1, Cuda> attended_;
  Tensor<T, 1, Cuda> activated_;
  Tensor<float, 2, Cuda> logits_;
  Tensor<float, 1, Cuda> cos_;
  Tensor<float, 1, Cuda> sin_;
  Tensor<std::int64_t, 1, Cuda> numbers_;  // id, position
  Tensor<float, 1, Cuda> partial_;
  Tensor<std::int32_t, 1, Cuda> tickets_;
  std::optional<detail::CudaGraph> graph_;
  bool warm_ = false;
  bool dependent_ = false;
};

TENON_NAMESPACE_END
