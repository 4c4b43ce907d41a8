// KvCache: keys and values of the tokens that one sequence has seen.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/models/config.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN

/// Memory of one sequence. Many caches may share one model; a cache belongs to one sequence and one thread at a time.
///
/// Keys are kept after rotation, so a cache can be cut short (`truncate`) but not shifted. Memory is allocated for the
/// whole capacity. On the CPU it is touched token by token, so what is never reached costs address space only; on a GPU all
/// of it is taken: 2 * layers * kv heads * head_dim elements a token.
template <class T, DeviceTag Device>
class KvCache {
 public:
  /// Room for `capacity` tokens. Throws ValueError for a capacity below 1 or above max_position_embeddings.
  KvCache(Context<Device>& ctx, const ModelConfig& config, std::int64_t capacity) {
    if (capacity < 1 || capacity > config.max_position_embeddings) {
      throw ValueError("context length " + std::to_string(capacity) + " is not between 1 and the model's " +
                       std::to_string(config.max_position_embeddings) + " positions");
    }
    const Sizes<3> sizes{capacity, config.num_key_value_heads, config.head_dim};
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      keys_.push_back(empty<T>(ctx, sizes));
      values_.push_back(empty<T>(ctx, sizes));
    }
  }

  KvCache(const KvCache&) = delete;  // two caches on one memory would overwrite each other: see clone
  KvCache& operator=(const KvCache&) = delete;
  KvCache(KvCache&&) noexcept = default;
  KvCache& operator=(KvCache&&) noexcept = default;
  ~KvCache() = default;

  /// A second sequence that begins as this one, with memory of its own.
  [[nodiscard]] KvCache clone(Context<Device>& ctx) const {
    KvCache result;
    result.length_ = length_;
    for (const auto* from : {&keys_, &values_}) {
      auto& to = from == &keys_ ? result.keys_ : result.values_;
      for (const auto& tensor : *from) {
        to.push_back(empty<T>(ctx, tensor.sizes()));
        copy(ctx, to.back().slice(0, 0, length_), tensor.slice(0, 0, length_));
      }
    }
    return result;
  }

  /// Tokens held, and tokens that fit.
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }
  [[nodiscard]] std::int64_t capacity() const noexcept { return keys_.front().size(0); }

  /// Whether keys and values have the number of layers, heads and elements that the configuration has.
  [[nodiscard]] bool fits(const ModelConfig& config) const noexcept {
    return static_cast<std::int64_t>(keys_.size()) == config.num_hidden_layers &&
           keys_.front().size(1) == config.num_key_value_heads && keys_.front().size(2) == config.head_dim;
  }

  /// Forgets every token from `length` on. Throws ValueError for a length that is negative or above length().
  void truncate(std::int64_t length) {
    if (length < 0 || length > length_) {
      throw ValueError("truncate: length " + std::to_string(length) + " is not between 0 and " +
                       std::to_string(length_));
    }
    length_ = length;
  }

  /// Keys or values of tokens [begin, end) of a layer: (end - begin, kv heads, head_dim). Not owning.
  [[nodiscard]] View<T, 3, Device> keys(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
    return static_cast<const View<T, 3, Device>&>(keys_[static_cast<std::size_t>(layer)]).slice(0, begin, end);
  }
  [[nodiscard]] View<T, 3, Device> values(std::int64_t layer, std::int64_t begin, std::int64_t end) const {
    return static_cast<const View<T, 3, Device>&>(values_[static_cast<std::size_t>(layer)]).slice(0, begin, end);
  }

  /// Counts tokens whose keys and values the model has written behind length(). Models call this last, so that a call
  /// that throws leaves the cache as it was.
  void commit(std::int64_t tokens) noexcept { length_ += tokens; }

 private:
  KvCache() = default;

  std::vector<Tensor<T, 3, Device>> keys_;    // one per layer: (capacity, kv heads, head_dim)
  std::vector<Tensor<T, 3, Device>> values_;  // likewise
  std::int64_t length_ = 0;
};

TENON_NAMESPACE_END
