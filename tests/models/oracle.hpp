// A decoder written a second time, without caches, tiles or threads, in double: what the fast one is compared with where
// no reference file exists. It shares nothing with include/tenon/models but the configuration and the weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <tenon/models/config.hpp>
#include <tenon/models/weights.hpp>
#include <tenon/tensor/any_tensor.hpp>

namespace support {

using Row = std::vector<double>;
using Rows = std::vector<Row>;

class OracleDecoder {
 public:
  OracleDecoder(tenon::ModelConfig config, const tenon::WeightMap& weights) : config_(std::move(config)) {
    for (const auto& [name, tensor] : weights) {
      weights_[name] = tensor.visit([](const auto& typed) {
        Row values;
        for (std::int64_t i = 0; i < typed.numel(); ++i) values.push_back(static_cast<double>(typed.data()[i]));
        return values;
      });
    }
  }

  /// Logits after every id.
  [[nodiscard]] Rows logits(std::span<const std::int64_t> ids) const {
    const auto hidden = static_cast<std::size_t>(config_.hidden_size);
    Rows x;
    const Row& table = weights_.at("model.embed_tokens.weight");
    for (const std::int64_t id : ids) {
      const auto start = table.begin() + id * config_.hidden_size;
      x.emplace_back(start, start + config_.hidden_size);
    }
    for (std::int64_t layer = 0; layer < config_.num_hidden_layers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      const Rows normed = norm(x, prefix + "input_layernorm");
      Rows q = multiply(normed, prefix + "self_attn.q_proj");
      Rows k = multiply(normed, prefix + "self_attn.k_proj");
      const Rows v = multiply(normed, prefix + "self_attn.v_proj");
      rotate(q);
      rotate(k);
      const Rows attended = multiply(attend(layer, q, k, v), prefix + "self_attn.o_proj");
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < hidden; ++i) x[t][i] += attended[t][i];
      }
      const Rows again = norm(x, prefix + "post_attention_layernorm");
      Rows gate = multiply(again, prefix + "mlp.gate_proj");
      const Rows up = multiply(again, prefix + "mlp.up_proj");
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < gate[t].size(); ++i) gate[t][i] *= up[t][i] / (1.0 + std::exp(-gate[t][i]));
      }
      const Rows down = multiply(gate, prefix + "mlp.down_proj");
      for (std::size_t t = 0; t < x.size(); ++t) {
        for (std::size_t i = 0; i < hidden; ++i) x[t][i] += down[t][i];
      }
    }
    return multiply(norm(x, "model.norm"), config_.tie_word_embeddings ? "model.embed_tokens" : "lm_head");
  }

 private:
  [[nodiscard]] Rows norm(const Rows& x, const std::string& name) const {
    const Row& weight = weights_.at(name + ".weight");
    Rows result = x;
    for (Row& row : result) {
      double squares = 0;
      for (const double value : row) squares += value * value;
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(row.size()) + config_.rms_norm_eps);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
    }
    return result;
  }

  [[nodiscard]] Rows multiply(const Rows& x, const std::string& name) const {
    const Row& weight = weights_.at(name + ".weight");
    const auto bias = weights_.find(name + ".bias");
    const std::size_t columns = x.front().size();
    const std::size_t rows = weight.size() / columns;
    Rows result;
    for (const Row& in : x) {
      Row out(rows, 0.0);
      for (std::size_t r = 0; r < rows; ++r) {
        for (std::size_t c = 0; c < columns; ++c) out[r] += weight[r * columns + c] * in[c];
        if (bias != weights_.end()) out[r] += bias->second[r];
      }
      result.push_back(std::move(out));
    }
    return result;
  }

  /// Element i of a head turns with element i + dim / 2, by position / theta^(2 i / dim).
  void rotate(Rows& x) const {
    const auto dim = static_cast<std::size_t>(config_.head_dim);
    for (std::size_t position = 0; position < x.size(); ++position) {
      for (std::size_t head = 0; head < x[position].size(); head += dim) {
        for (std::size_t i = 0; i < dim / 2; ++i) {
          const double angle = static_cast<double>(position) *
                               std::pow(config_.rope_theta, -2.0 * static_cast<double>(i) / static_cast<double>(dim));
          double& a = x[position][head + i];
          double& b = x[position][head + i + dim / 2];
          const double turned = a * std::cos(angle) - b * std::sin(angle);
          b = b * std::cos(angle) + a * std::sin(angle);
          a = turned;
        }
      }
    }
  }

  /// Query t sees key s where s <= t and, in a layer with a window W, s > t - W.
  [[nodiscard]] Rows attend(std::int64_t layer, const Rows& q, const Rows& k, const Rows& v) const {
    const auto dim = static_cast<std::size_t>(config_.head_dim);
    const auto group = static_cast<std::size_t>(config_.num_attention_heads / config_.num_key_value_heads);
    const bool sliding = !config_.sliding_layers.empty() && config_.sliding_layers[static_cast<std::size_t>(layer)];
    Rows result(q.size(), Row(q.front().size(), 0.0));
    for (std::size_t t = 0; t < q.size(); ++t) {
      for (std::size_t head = 0; head < static_cast<std::size_t>(config_.num_attention_heads); ++head) {
        const std::size_t q_at = head * dim;
        const std::size_t k_at = head / group * dim;
        std::vector<double> scores;
        std::vector<std::size_t> seen;
        for (std::size_t s = 0; s <= t; ++s) {
          if (sliding && static_cast<std::int64_t>(s) <= static_cast<std::int64_t>(t) - *config_.sliding_window)
            continue;
          double dot = 0;
          for (std::size_t i = 0; i < dim; ++i) dot += q[t][q_at + i] * k[s][k_at + i];
          scores.push_back(dot / std::sqrt(static_cast<double>(dim)));
          seen.push_back(s);
        }
        const double largest = *std::max_element(scores.begin(), scores.end());
        double sum = 0;
        for (double& score : scores) sum += score = std::exp(score - largest);
        for (std::size_t n = 0; n < seen.size(); ++n) {
          for (std::size_t i = 0; i < dim; ++i) result[t][q_at + i] += scores[n] / sum * v[seen[n]][k_at + i];
        }
      }
    }
    return result;
  }

  tenon::ModelConfig config_;
  std::map<std::string, Row> weights_;
};

}  // namespace support
