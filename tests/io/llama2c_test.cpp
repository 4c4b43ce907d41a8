#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <tenon/core/error.hpp>
#include <tenon/io/llama2c.hpp>
#include <tenon/models/llama.hpp>

#include <support/temporary_folder.hpp>

namespace {

using Catch::Matchers::ContainsSubstring;
using tenon::Context;
using tenon::Cpu;
using tenon::FormatError;
using tenon::Llama2cCheckpoint;
using tenon_test::slurp;
using tenon_test::TemporaryFolder;

const std::filesystem::path data = std::filesystem::path(TENON_TEST_DATA) / "llama2c";

template <class T>
std::string bytes_of(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

template <class T>
void put(std::string& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// The sizes of a small model, in the order of the file's header.
struct Fields {
  std::int32_t dim = 12;
  std::int32_t hidden_dim = 18;
  std::int32_t n_layers = 2;
  std::int32_t n_heads = 6;
  std::int32_t n_kv_heads = 3;
  std::int32_t vocab_size = 7;
  std::int32_t seq_len = 5;
};

struct Written {
  std::string bytes;
  std::map<std::string, std::vector<float>> values;           // what each tensor means, layer after layer
  std::map<std::string, std::vector<std::int8_t>> quantized;  // version 2
  std::map<std::string, std::vector<float>> scales;           // version 2
  [[nodiscard]] std::filesystem::path save(const TemporaryFolder& folder) const {
    return folder.write("model.bin", bytes);
  }
};

/// A file as export.py writes it, tensor by tensor, with random content.
Written write(int version, bool shared, std::int32_t group_size = 0, Fields f = {}) {
  Written file;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
  if (version > 0) file.bytes += bytes_of(std::uint32_t{0x616b3432}) + bytes_of(std::int32_t{version});
  for (const std::int32_t field : {f.dim, f.hidden_dim, f.n_layers, f.n_heads, f.n_kv_heads,
                                   version == 0 && !shared ? -f.vocab_size : f.vocab_size, f.seq_len}) {
    file.bytes += bytes_of(field);
  }
  if (version > 0) file.bytes += static_cast<char>(shared ? 1 : 0);
  if (version == 2) file.bytes += bytes_of(group_size);
  if (version > 0) file.bytes.resize(256, '\0');

  const auto plain = [&](const std::string& name, int elements) {
    for (int i = 0; i < elements; ++i) {
      const float value = uniform(random);
      file.bytes += bytes_of(value);
      file.values[name].push_back(value);
    }
  };
  const auto matrices = [&](const std::string& name, int layers, int elements) {
    if (version != 2) return plain(name, layers * elements);
    for (int layer = 0; layer < layers; ++layer) {
      std::vector<std::int8_t> values;
      for (int i = 0; i < elements; ++i) {
        values.push_back(static_cast<std::int8_t>(static_cast<int>(random() % 255) - 127));
        file.bytes += static_cast<char>(values.back());
      }
      for (int i = 0; i < elements / group_size; ++i) {
        const float scale = uniform(random);
        file.bytes += bytes_of(scale);
        file.scales[name].push_back(scale);
        for (int k = 0; k < group_size; ++k) {
          file.values[name].push_back(static_cast<float>(values[static_cast<std::size_t>(i * group_size + k)]) * scale);
        }
      }
      file.quantized[name].insert(file.quantized[name].end(), values.begin(), values.end());
    }
  };
  const int layers = f.n_layers;
  const int kv_dim = f.dim / f.n_heads * f.n_kv_heads;
  const auto attention = [&] {
    matrices("wq", layers, f.dim * f.dim);
    matrices("wk", layers, kv_dim * f.dim);
    matrices("wv", layers, kv_dim * f.dim);
    matrices("wo", layers, f.dim * f.dim);
  };
  const auto feed_forward = [&] {
    matrices("w1", layers, f.hidden_dim * f.dim);
    matrices("w2", layers, f.dim * f.hidden_dim);
    matrices("w3", layers, f.hidden_dim * f.dim);
  };
  if (version == 0) {
    plain("token_embedding_table", f.vocab_size * f.dim);
    plain("rms_att_weight", layers * f.dim);
    attention();
    plain("rms_ffn_weight", layers * f.dim);
    feed_forward();
    plain("rms_final_weight", f.dim);
    plain("freq_cis", f.seq_len * (f.dim / f.n_heads));
  } else {
    plain("rms_att_weight", layers * f.dim);
    plain("rms_ffn_weight", layers * f.dim);
    plain("rms_final_weight", f.dim);
    matrices("token_embedding_table", 1, f.vocab_size * f.dim);
    attention();
    feed_forward();
  }
  if (!shared) matrices("wcls", 1, f.vocab_size * f.dim);
  return file;
}

std::vector<float> elements(const tenon::AnyTensor& tensor) {
  REQUIRE(tensor.dtype() == tenon::DType::float32);
  REQUIRE(tensor.is_contiguous());
  const auto* first = reinterpret_cast<const float*>(tensor.data());
  return {first, first + tensor.numel()};
}

const std::map<std::string, std::vector<std::int64_t>> shapes{{"token_embedding_table", {7, 12}},
                                                              {"rms_att_weight", {2, 12}},
                                                              {"wq", {2, 12, 12}},
                                                              {"wk", {2, 6, 12}},
                                                              {"wv", {2, 6, 12}},
                                                              {"wo", {2, 12, 12}},
                                                              {"w1", {2, 18, 12}},
                                                              {"w2", {2, 12, 18}},
                                                              {"w3", {2, 18, 12}},
                                                              {"rms_ffn_weight", {2, 12}},
                                                              {"rms_final_weight", {12}},
                                                              {"wcls", {7, 12}}};

/// The sentence about bytes that are no checkpoint; it must name the file.
std::string refusal(const std::string& bytes) {
  const TemporaryFolder folder;
  const auto path = folder.write("hostile.bin", bytes);
  try {
    const Llama2cCheckpoint checkpoint(path);
  } catch (const FormatError& error) {
    CHECK_THAT(error.what(), ContainsSubstring("hostile.bin"));
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("llama2c: every version gives its tensors by name", "[llama2c]") {
  const int version = GENERATE(0, 1, 2);
  const bool shared = GENERATE(true, false);
  CAPTURE(version, shared);
  const TemporaryFolder folder;
  const Written file = write(version, shared, 6);
  const auto path = file.save(folder);
  const Llama2cCheckpoint checkpoint(path);
  CHECK(checkpoint.path() == path);
  CHECK(checkpoint.version() == version);
  CHECK(checkpoint.group_size() == (version == 2 ? 6 : 0));
  const tenon::ModelConfig& config = checkpoint.config();
  CHECK(config.model_type == "llama");
  CHECK(config.hidden_size == 12);
  CHECK(config.intermediate_size == 18);
  CHECK(config.num_hidden_layers == 2);
  CHECK(config.num_attention_heads == 6);
  CHECK(config.num_key_value_heads == 3);
  CHECK(config.head_dim == 2);
  CHECK(config.vocab_size == 7);
  CHECK(config.max_position_embeddings == 5);
  CHECK(config.rms_norm_eps == 1e-5);
  CHECK(config.rope_theta == 10000.0);
  CHECK(config.tie_word_embeddings == shared);
  CHECK(config.bos_token_id == 1);
  CHECK(config.eos_token_ids == std::vector<std::int64_t>{2});

  for (const auto& [name, sizes] : shapes) {
    CAPTURE(name);
    const std::string stored = name == "wcls" && shared ? "token_embedding_table" : name;
    const tenon::AnyTensor whole = checkpoint.dequantized(name);
    CHECK(whole.sizes() == sizes);
    CHECK(elements(whole) == file.values.at(stored));
    const bool quantized = version == 2 && !name.starts_with("rms_");
    CHECK(checkpoint.is_quantized(name) == quantized);
    if (!quantized) {
      CHECK(elements(checkpoint.tensor(name)) == file.values.at(stored));
      CHECK(checkpoint.tensor(name).read_only());
      CHECK_THROWS_AS(checkpoint.quantized(name), tenon::DTypeError);
      continue;
    }
    CHECK_THROWS_AS(checkpoint.tensor(name), tenon::DTypeError);
    std::vector<std::int8_t> values;
    std::vector<float> scales;
    const std::int64_t layers = sizes.size() == 3 ? sizes[0] : 1;
    for (std::int64_t layer = 0; layer < layers; ++layer) {
      const tenon::Llama2cQuantized matrix = checkpoint.quantized(name, layer);
      CHECK(matrix.group_size == 6);
      CHECK(matrix.values.sizes() == std::vector<std::int64_t>(sizes.end() - 2, sizes.end()));
      CHECK(matrix.scales.sizes() == std::vector<std::int64_t>{sizes[sizes.size() - 2], sizes.back() / 6});
      const auto* first = matrix.values.as<const std::int8_t, 2>().data();
      values.insert(values.end(), first, first + matrix.values.numel());
      const auto more = elements(matrix.scales);
      scales.insert(scales.end(), more.begin(), more.end());
    }
    CHECK(values == file.quantized.at(stored));
    CHECK(scales == file.scales.at(stored));
    CHECK_THROWS_AS(checkpoint.quantized(name, layers), tenon::IndexError);
    CHECK_THROWS_AS(checkpoint.quantized(name, -1), tenon::IndexError);
  }
  CHECK_THROWS_WITH(checkpoint.tensor("w4"), ContainsSubstring("'w4'") && ContainsSubstring("model.bin"));
  CHECK_THROWS_AS(checkpoint.dequantized(""), FormatError);
}

TEST_CASE("llama2c: scales that are not aligned in the file are read all the same", "[llama2c]") {
  const TemporaryFolder folder;
  Fields fields;
  fields.dim = 6;
  fields.hidden_dim = 9;
  fields.n_heads = 3;
  fields.n_kv_heads = 1;
  const Written file = write(2, false, 3, fields);
  const Llama2cCheckpoint checkpoint(file.save(folder));
  // 7 x 6 values put what follows at 2 bytes off a multiple of 4.
  for (const auto& [name, values] : file.values) CHECK(elements(checkpoint.dequantized(name)) == values);
}

TEST_CASE("llama2c: tensors share the mapping and outlive the checkpoint", "[llama2c]") {
  tenon::AnyTensor embedding;
  tenon::AnyTensor classifier;
  {
    const Llama2cCheckpoint checkpoint(data / "stories260K.bin");
    embedding = checkpoint.tensor("token_embedding_table");
    classifier = Llama2cCheckpoint(checkpoint).tensor("wcls");
    const tenon::WeightMap weights = tenon::read_llama2c_weights(checkpoint);
    CHECK(weights.at("model.embed_tokens.weight").data() == embedding.data());
    CHECK(weights.at("model.layers.3.mlp.down_proj.weight").data() == checkpoint.tensor("w2").select(0, 3).data());
    CHECK(weights.at("model.layers.1.self_attn.v_proj.weight").data() == checkpoint.tensor("wv").select(0, 1).data());
  }
  CHECK(embedding.data() == classifier.data());
  const std::string bytes = slurp(data / "stories260K.bin");
  CHECK(std::memcmp(embedding.data(), bytes.data() + 28, embedding.nbytes()) == 0);
}

TEST_CASE("llama2c: a model that does not share its classifier has the same logits from every version", "[llama2c]") {
  const TemporaryFolder folder;
  Context<Cpu> ctx(1);
  const std::vector<std::int64_t> ids{1, 5, 0, 6};
  const auto logits = [&](const Written& file, const std::string& name) {
    const auto model = tenon::load_llama2c<tenon::Llama<float>>(ctx, folder.write(name, file.bytes));
    auto cache = model.make_cache(ctx);
    const auto row = model.forward(ctx, cache, ids);
    return std::vector<float>(row.data(), row.data() + row.numel());
  };
  // The content of version 0 in the order of version 1.
  const Written legacy = write(0, false);
  Written later = write(1, false);
  std::size_t at = 256;
  for (const char* name : {"rms_att_weight", "rms_ffn_weight", "rms_final_weight", "token_embedding_table", "wq", "wk",
                           "wv", "wo", "w1", "w2", "w3", "wcls"}) {
    for (const float value : legacy.values.at(name)) {
      put(later.bytes, at, value);
      at += sizeof value;
    }
  }
  REQUIRE(at == later.bytes.size());
  CHECK(logits(legacy, "v0.bin") == logits(later, "v1.bin"));
  CHECK(logits(legacy, "v0.bin") != logits(write(0, true), "tied.bin"));
  CHECK(logits(write(2, false, 6), "v2.bin").size() == 7);
}

TEST_CASE("llama2c: files of any other length are refused", "[llama2c]") {
  for (const int version : {0, 1, 2}) {
    for (const bool shared : {true, false}) {
      const std::string sound = write(version, shared, 6).bytes;
      CHECK(refusal(sound).empty());
      CAPTURE(version, shared, sound.size());
      // Every length up to the first tensors, then every class: each residue of the length, at places all over the file.
      std::size_t refused = 0;
      std::size_t tried = 0;
      for (std::size_t size = 0; size < sound.size(); size += size < 400 ? 1 : 97) {
        ++tried;
        if (!refusal(sound.substr(0, size)).empty()) ++refused;
      }
      CHECK(refused == tried);
      for (std::size_t cut = 1; cut <= 9; ++cut) CHECK_FALSE(refusal(sound.substr(0, sound.size() - cut)).empty());
      CHECK_THAT(refusal(sound + "x"), ContainsSubstring("its header asks for " + std::to_string(sound.size())));
      CHECK_THAT(refusal(sound.substr(0, 20)), ContainsSubstring("its header alone takes 28"));
      CHECK_THAT(refusal(sound.substr(0, 300)), ContainsSubstring("puts tensor '"));
    }
  }
  CHECK_THAT(refusal(write(1, true).bytes.substr(0, 255)), ContainsSubstring("its header alone takes 256"));
  const std::string legacy = write(0, true).bytes;
  CHECK_THAT(refusal(legacy.substr(0, legacy.size() - 1)), ContainsSubstring("'freq_cis_imag' (5, 1)"));
  CHECK_THROWS_AS(Llama2cCheckpoint(data / "missing.bin"), tenon::FileError);
  CHECK_THROWS_AS(Llama2cCheckpoint(data), tenon::FileError);
}

TEST_CASE("llama2c: fields that cannot be are refused by name", "[llama2c]") {
  constexpr std::array<const char*, 7> names{"dim",        "hidden_dim", "n_layers", "n_heads",
                                             "n_kv_heads", "vocab_size", "seq_len"};
  for (const int version : {0, 1, 2}) {
    const std::string sound = write(version, true, 6).bytes;
    const std::size_t first = version == 0 ? 0 : 8;
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (const std::int32_t value :
           {0, -1, -7, std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()}) {
        if (version == 0 && names[i] == std::string("vocab_size") && value == -7) continue;
        std::string bytes = sound;
        put(bytes, first + 4 * i, value);
        CAPTURE(version, names[i], value);
        CHECK_THAT(refusal(bytes),
                   ContainsSubstring("field '" + std::string(names[i]) + "' is " + std::to_string(value)));
      }
      // Allowed by itself, but then the sizes leave the file or do not divide each other.
      for (const std::int32_t value : {1, 2, 3, 4, 1 << 10, 1 << 12, 1 << 24}) {
        std::string bytes = sound;
        put(bytes, first + 4 * i, value);
        const bool free = version != 0 && i == 6;  // nothing in a later file depends on seq_len
        if (bytes != sound && !free) {
          CAPTURE(version, names[i], value);
          CHECK_FALSE(refusal(bytes).empty());
        }
      }
    }
    const auto with = [&](std::size_t field, std::int32_t value) {
      std::string bytes = sound;
      put(bytes, first + 4 * field, value);
      return refusal(bytes);
    };
    CHECK_THAT(with(3, 5), ContainsSubstring("field 'n_heads' is 5, which does not divide dim 12"));
    CHECK_THAT(with(4, 4), ContainsSubstring("field 'n_kv_heads' is 4, which does not divide n_heads 6"));
    CHECK_THAT(with(3, 12), ContainsSubstring("even number"));
    CHECK_THAT(with(5, 2), ContainsSubstring("field 'vocab_size' is 2"));
    // The largest of everything: no product may wrap around.
    std::string bytes = sound;
    for (const auto& [field, value] : {std::pair<std::size_t, std::int32_t>{0, 1 << 24},
                                       {1, 1 << 24},
                                       {2, 1 << 12},
                                       {3, 1},
                                       {4, 1},
                                       {5, 1 << 28},
                                       {6, 1 << 30}}) {
      put(bytes, first + 4 * field, value);
    }
    if (version == 2) put(bytes, 37, std::int32_t{1});
    CHECK_THAT(refusal(bytes), ContainsSubstring("does not fit"));
  }
}

TEST_CASE("llama2c: what only later versions have is checked too", "[llama2c]") {
  std::string bytes = write(1, true).bytes;
  for (const std::int32_t version : {0, 3, -1}) {
    put(bytes, 4, version);
    CHECK_THAT(refusal(bytes), ContainsSubstring("field 'version' is " + std::to_string(version)));
  }
  put(bytes, 4, std::int32_t{1});
  bytes[36] = 2;
  CHECK_THAT(refusal(bytes), ContainsSubstring("field 'shared_classifier' is 2"));
  bytes[36] = 0;  // then a classifier must follow
  CHECK_THAT(refusal(bytes), ContainsSubstring("'wcls'"));
  bytes = write(1, true).bytes;
  bytes[0] = 'x';  // no magic: a legacy file with a monstrous dim
  CHECK_THAT(refusal(bytes), ContainsSubstring("field 'dim'"));

  bytes = write(2, true, 6).bytes;
  for (const std::int32_t group : {0, -6, std::numeric_limits<std::int32_t>::min()}) {
    put(bytes, 37, group);
    CHECK_THAT(refusal(bytes), ContainsSubstring("field 'group_size' is " + std::to_string(group)));
  }
  put(bytes, 37, std::int32_t{5});
  CHECK_THAT(refusal(bytes), ContainsSubstring("which does not divide dim 12"));
  put(bytes, 37, std::int32_t{4});
  CHECK_THAT(refusal(bytes), ContainsSubstring("which does not divide hidden_dim 18"));
  put(bytes, 37, std::int32_t{3});
  CHECK_FALSE(refusal(bytes).empty());
}

TEST_CASE("llama2c: a model without any output projection names the file", "[llama2c]") {
  const TemporaryFolder folder;
  Context<Cpu> ctx(1);
  std::string bytes = write(0, false).bytes;
  std::fill(bytes.end() - 7 * 12 * 4, bytes.end(), '\0');
  const auto path = folder.write("zero.bin", bytes);
  CHECK_THROWS_WITH(tenon::load_llama2c<tenon::Llama<float>>(ctx, path),
                    ContainsSubstring("zero.bin") && ContainsSubstring("zeros only"));
}
