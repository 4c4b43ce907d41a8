// The header of a llama2.c checkpoint and the places of its tensors, proven consistent before a tensor is touched.
//
// Legacy files (version 0) begin with 7 int32: dim, hidden_dim, n_layers, n_heads, n_kv_heads, vocab_size, seq_len. Later
// ones begin with the magic "ak42" and the version, have the byte shared_classifier behind the 7 fields, and in version 2
// the int32 group_size behind that byte; zeros fill them up to 256 bytes. Tensors follow without gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/dtype.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/math.hpp>
#include <tenon/io/file_map.hpp>
#include <tenon/models/config.hpp>
#include <tenon/tensor/shape.hpp>

TENON_NAMESPACE_BEGIN

namespace detail {

/// `what` completes "'file' is not a valid llama2.c checkpoint:".
[[noreturn]] inline void throw_llama2c(const std::filesystem::path& path, const std::string& what) {
  throw FormatError(quoted(path) + " is not a valid llama2.c checkpoint: " + what);
}

/// What the first bytes say, checked.
struct Llama2cHeader {
  ModelConfig config;
  int version = 0;
  std::int64_t group_size = 0;   // version 2 alone
  std::uint64_t data_begin = 0;  // of the first tensor
};

/// Where a tensor lies. A quantised one has its scales behind its values, layer by layer.
struct Llama2cPart {
  std::string_view name;
  std::vector<std::int64_t> sizes;
  bool quantized = false;
  std::uint64_t begin = 0;
  std::uint64_t layer_bytes = 0;  // of one matrix, scales included
};

/// The int32 at `offset`, which need not be aligned: that of group_size is 37.
inline std::int64_t llama2c_int(std::span<const std::byte> bytes, std::size_t offset) {
  std::int32_t value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

inline Llama2cHeader parse_llama2c_header(const FileMap& file) {
  constexpr std::size_t fields_bytes = 7 * sizeof(std::int32_t);
  constexpr std::size_t padded_bytes = 256;
  constexpr std::int64_t magic = 0x616b3432;  // "ak42"; as the legacy file's first field it is wider than any model
  const std::filesystem::path& path = file.path();
  const std::span<const std::byte> bytes = file.bytes();
  const auto expect_header = [&](std::size_t size) {
    if (bytes.size() >= size) return;
    throw_llama2c(path, "the file has " + std::to_string(bytes.size()) + " bytes, and its header alone takes " +
                            std::to_string(size));
  };
  const auto fail_field = [&](std::string_view field, std::int64_t value, const std::string& what) {
    throw_llama2c(path, "field '" + std::string(field) + "' is " + std::to_string(value) + ", " + what);
  };

  Llama2cHeader header;
  expect_header(fields_bytes);
  std::size_t at = 0;
  header.data_begin = fields_bytes;
  if (llama2c_int(bytes, 0) == magic) {
    expect_header(padded_bytes);
    const std::int64_t version = llama2c_int(bytes, 4);
    if (version != 1 && version != 2) fail_field("version", version, "and the known ones are 1 and 2");
    header.version = static_cast<int>(version);
    header.data_begin = padded_bytes;
    at = 8;
  }
  const auto next = [&](std::string_view field, std::int64_t largest) {
    const std::int64_t value = llama2c_int(bytes, at);
    at += sizeof(std::int32_t);
    // A legacy file says with the sign of vocab_size that the classifier is no copy of the embedding.
    const bool sign_is_flag = header.version == 0 && field == "vocab_size";
    const std::int64_t size = sign_is_flag && value < 0 ? -value : value;
    const std::int64_t smallest = field == "vocab_size" ? 3 : 1;  // ids 0 to 2 have a meaning
    if (size < smallest || size > largest) {
      fail_field(field, value, "which is not within " + std::to_string(smallest) + " and " + std::to_string(largest));
    }
    if (sign_is_flag) header.config.tie_word_embeddings = value > 0;
    return size;
  };
  ModelConfig& config = header.config;
  config.model_type = "llama";
  config.hidden_size = next("dim", ModelConfig::max_width);
  config.intermediate_size = next("hidden_dim", ModelConfig::max_width);
  config.num_hidden_layers = next("n_layers", ModelConfig::max_layers);
  config.num_attention_heads = next("n_heads", ModelConfig::max_width);
  config.num_key_value_heads = next("n_kv_heads", ModelConfig::max_width);
  config.vocab_size = next("vocab_size", ModelConfig::max_vocabulary);
  config.max_position_embeddings = next("seq_len", ModelConfig::max_positions);
  if (config.hidden_size % config.num_attention_heads != 0) {
    fail_field("n_heads", config.num_attention_heads,
               "which does not divide dim " + std::to_string(config.hidden_size));
  }
  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fail_field("n_kv_heads", config.num_key_value_heads,
               "which does not divide n_heads " + std::to_string(config.num_attention_heads));
  }
  config.head_dim = config.hidden_size / config.num_attention_heads;
  if (config.head_dim % 2 != 0) {
    fail_field(
        "dim", config.hidden_size,
        "so a head has " + std::to_string(config.head_dim) + " elements, and rotating pairs needs an even number");
  }
  if (header.version != 0) {
    const auto shared = std::to_integer<std::int64_t>(bytes[at]);
    if (shared > 1) fail_field("shared_classifier", shared, "which is neither 0 nor 1");
    config.tie_word_embeddings = shared == 1;
  }
  if (header.version == 2) {
    header.group_size = llama2c_int(bytes, at + 1);
    const std::int64_t group = header.group_size;
    if (group < 1) fail_field("group_size", group, "which is not positive");
    if (config.hidden_size % group != 0) {
      fail_field("group_size", group, "which does not divide dim " + std::to_string(config.hidden_size));
    }
    if (config.intermediate_size % group != 0) {
      fail_field("group_size", group, "which does not divide hidden_dim " + std::to_string(config.intermediate_size));
    }
  }
  // What llama2.c has written into its program instead of the file.
  config.rms_norm_eps = 1e-5;
  config.rope_theta = 10000.0;
  config.bos_token_id = 1;
  config.eos_token_ids = {2};
  config.dtype = DType::float32;
  config.validate(quoted(path));
  return header;
}

/// The tensors in the order of the file, which must end with the last of them.
inline std::vector<Llama2cPart> llama2c_parts(const FileMap& file, const Llama2cHeader& header) {
  const ModelConfig& config = header.config;
  const std::int64_t layers = config.num_hidden_layers;
  const std::int64_t dim = config.hidden_size;
  const std::int64_t kv_dim = config.key_value_size();
  const std::int64_t hidden = config.intermediate_size;
  const std::int64_t vocabulary = config.vocab_size;

  std::vector<Llama2cPart> parts;
  auto end = static_cast<std::int64_t>(header.data_begin);
  const auto add = [&](std::string_view name, std::vector<std::int64_t> sizes) {
    const bool quantized = header.version == 2 && !name.starts_with("rms_");
    // Sizes are at most 2^28, 2^24 and 2^12: no product of two of them leaves 64 bits, those of three might.
    const std::size_t per_layer = sizes.size() == 3 || (sizes.size() == 2 && name.starts_with("rms_")) ? 1 : 0;
    std::optional<std::int64_t> layer_bytes = 1;
    for (std::size_t i = per_layer; i < sizes.size(); ++i) layer_bytes = checked_mul(*layer_bytes, sizes[i]);
    const std::int64_t elements = *layer_bytes;
    layer_bytes = checked_mul(quantized ? elements / header.group_size : elements, std::int64_t{sizeof(float)});
    if (layer_bytes && quantized) layer_bytes = checked_add(*layer_bytes, elements);
    const auto bytes = layer_bytes ? checked_mul(*layer_bytes, per_layer == 1 ? sizes[0] : 1) : std::nullopt;
    const auto next = bytes ? checked_add(end, *bytes) : std::nullopt;
    if (!next || static_cast<std::uint64_t>(*next) > file.size()) {
      throw_llama2c(file.path(), "the file has " + std::to_string(file.size()) +
                                     " bytes, but its header puts tensor '" + std::string(name) + "' " +
                                     shape_string(sizes) + " at byte " + std::to_string(end) +
                                     ", where it does not fit");
    }
    parts.push_back(
        {name, std::move(sizes), quantized, static_cast<std::uint64_t>(end), static_cast<std::uint64_t>(*layer_bytes)});
    end = *next;
  };
  const auto attention = [&] {
    add("wq", {layers, dim, dim});
    add("wk", {layers, kv_dim, dim});
    add("wv", {layers, kv_dim, dim});
    add("wo", {layers, dim, dim});
  };
  const auto feed_forward = [&] {
    add("w1", {layers, hidden, dim});
    add("w2", {layers, dim, hidden});
    add("w3", {layers, hidden, dim});
  };
  if (header.version == 0) {
    add("token_embedding_table", {vocabulary, dim});
    add("rms_att_weight", {layers, dim});
    attention();
    add("rms_ffn_weight", {layers, dim});
    feed_forward();
    add("rms_final_weight", {dim});
    // Angles of the rotary embedding, which llama2.c too computes anew.
    add("freq_cis_real", {config.max_position_embeddings, config.head_dim / 2});
    add("freq_cis_imag", {config.max_position_embeddings, config.head_dim / 2});
  } else {
    add("rms_att_weight", {layers, dim});
    add("rms_ffn_weight", {layers, dim});
    add("rms_final_weight", {dim});
    add("token_embedding_table", {vocabulary, dim});
    attention();
    feed_forward();
  }
  if (!config.tie_word_embeddings) add("wcls", {vocabulary, dim});
  if (static_cast<std::uint64_t>(end) != file.size()) {
    throw_llama2c(file.path(), "the file has " + std::to_string(file.size()) + " bytes, but its header asks for " +
                                   std::to_string(end));
  }
  return parts;
}

}  // namespace detail

TENON_NAMESPACE_END
