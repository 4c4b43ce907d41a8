// What a report is made of, whatever the device: medians, operations, bytes, and the ids that were generated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tenon/io/atomic_file.hpp>
#include <tenon/models/config.hpp>
#include <tenon/models/weights.hpp>

#include <timing.hpp>

namespace llm {

using timing::median;

/// Operations of reading `tokens` tokens into an empty cache, the logits of the last included: two for each element of
/// a matrix and token, and two for each element of q kᵀ and of its product with v below the diagonal.
inline double prefill_operations(const tenon::ModelConfig& c, std::int64_t tokens) {
  const double matrices = static_cast<double>(c.hidden_size * (2 * c.query_size() + 2 * c.key_value_size()) +
                                              3 * c.hidden_size * c.intermediate_size);
  const double n = static_cast<double>(tokens);
  const double layers = static_cast<double>(c.num_hidden_layers);
  const double attention = 4.0 * static_cast<double>(c.query_size()) * n * (n + 1) / 2;
  return layers * (2 * n * matrices + attention) + 2.0 * static_cast<double>(c.vocab_size * c.hidden_size);
}

/// Bytes of keys and values that decoding reads for one token, on average over tokens [first, first + count).
inline double cache_bytes_per_token(const tenon::ModelConfig& c, std::int64_t first, std::int64_t count,
                                    std::size_t element) {
  const double context = static_cast<double>(first) + static_cast<double>(count + 1) / 2;
  return context * static_cast<double>(2 * c.num_hidden_layers * c.key_value_size()) * static_cast<double>(element);
}

/// Bytes of all weights that a model keeps.
inline std::int64_t weight_bytes(const tenon::WeightMap& weights, bool tied) {
  std::int64_t sum = 0;
  for (const auto& [name, tensor] : weights) {
    if (!tied || name != "lm_head.weight") sum += static_cast<std::int64_t>(tensor.nbytes());
  }
  return sum;
}

using Ids = std::vector<std::int64_t>;

/// The same random ids in every run.
inline Ids random_prompt(std::int64_t tokens, std::int64_t vocabulary) {
  std::mt19937 random(1);
  Ids prompt(static_cast<std::size_t>(tokens));
  for (auto& id : prompt) id = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(vocabulary));
  return prompt;
}

/// FNV-1a of the ids: runs with equal hashes generated the same.
inline std::string hash_text(const Ids& ids) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const std::int64_t id : ids) {
    for (unsigned shift = 0; shift < 64; shift += 8) {
      hash = (hash ^ ((static_cast<std::uint64_t>(id) >> shift) & 0xffu)) * 0x100000001b3u;
    }
  }
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// The entry "ids" of a report, from those of every repetition.
inline nlohmann::json ids_report(const std::vector<Ids>& repetitions) {
  const bool repeatable =
      std::adjacent_find(repetitions.begin(), repetitions.end(), std::not_equal_to<>()) == repetitions.end();
  return {{"count", repetitions.front().size()},
          {"hash", hash_text(repetitions.front())},
          {"equal_in_all_repetitions", repeatable}};
}

/// Writes the ids, one a line. Throws FileError.
inline void write_ids(const std::filesystem::path& file, const Ids& ids) {
  std::string text;
  for (const std::int64_t id : ids) text += std::to_string(id) + "\n";
  tenon::write_file_atomically(file, text);
}

}  // namespace llm
