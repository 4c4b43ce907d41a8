// The reference file: what another implementation computed for some ids.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>

#include <tenon/io/safetensors.hpp>
#include <tenon/models/config.hpp>
#include <tenon/tensor/tensor.hpp>

namespace verify {

struct Reference {
  using Matrix = tenon::Tensor<const float, 2>;
  using Ids = tenon::Tensor<const std::int64_t, 1>;

  Ids input_ids;
  Matrix logits;                          ///< of the last logits.size(0) ids
  std::optional<Matrix> bfloat16_logits;  ///< the same, computed in bfloat16
  std::map<std::int64_t, Matrix> hidden;  ///< states by number
  std::optional<Ids> greedy;              ///< ids that follow input_ids
};

/// Reads the file and checks it against the model. Throws tenon::Error with one sentence.
inline Reference read_reference(const std::filesystem::path& path, const tenon::ModelConfig& config) {
  const tenon::SafetensorsFile file(path);
  const auto fail = [&](const std::string& name, const std::string& what) {
    throw tenon::FormatError("'" + path.string() + "': tensor '" + name + "' " + what);
  };
  const auto has = [&](const std::string& name) { return file.find(name) != nullptr; };
  const auto ids = [&](const std::string& name) {
    const tenon::AnyTensor tensor = file.tensor(name);
    if (tensor.dtype() != tenon::DType::int64 || tensor.rank() != 1 || tensor.numel() == 0) {
      fail(name, "is not a list of int64 ids");
    }
    auto list = tensor.as<const std::int64_t, 1>();
    for (std::int64_t i = 0; i < list.size(0); ++i) {
      if (list(i) < 0 || list(i) >= config.vocab_size) {
        fail(name, "has the id " + std::to_string(list(i)) + ", but the vocabulary of the model ends at " +
                       std::to_string(config.vocab_size - 1));
      }
    }
    return list;
  };
  const auto matrix = [&](const std::string& name, std::int64_t columns) {
    const tenon::AnyTensor tensor = file.tensor(name);
    if (tensor.dtype() != tenon::DType::float32 || tensor.rank() != 2 || tensor.sizes()[1] != columns) {
      fail(name, "has dtype " + std::string(tenon::dtype_name(tensor.dtype())) + " and shape " +
                     tenon::shape_string(tensor.sizes()) + ", expected float32 (rows, " + std::to_string(columns) +
                     ")");
    }
    return tensor.as<const float, 2>();
  };

  Reference reference;
  reference.input_ids = ids("input_ids");
  const std::int64_t tokens = reference.input_ids.size(0);
  reference.logits = matrix("logits_f32", config.vocab_size);
  if (reference.logits.size(0) < 1 || reference.logits.size(0) > tokens) {
    fail("logits_f32",
         "has " + std::to_string(reference.logits.size(0)) + " rows for " + std::to_string(tokens) + " ids");
  }
  if (has("logits_bf16")) {
    reference.bfloat16_logits = matrix("logits_bf16", config.vocab_size);
    if (reference.bfloat16_logits->sizes() != reference.logits.sizes())
      fail("logits_bf16", "differs in shape from 'logits_f32'");
  }
  for (std::int64_t i = 0; i <= config.num_hidden_layers; ++i) {
    const std::string name = "hidden_" + std::to_string(i) + "_f32";
    if (!has(name)) continue;
    reference.hidden[i] = matrix(name, config.hidden_size);
    if (reference.hidden[i].size(0) != tokens) {
      fail(name, "has " + std::to_string(reference.hidden[i].size(0)) + " rows for " + std::to_string(tokens) + " ids");
    }
  }
  const std::string beyond = "hidden_" + std::to_string(config.num_hidden_layers + 1) + "_f32";
  if (has(beyond)) {
    fail(beyond, "belongs to a model with more than " + std::to_string(config.num_hidden_layers) + " layers");
  }
  if (has("greedy_f32")) reference.greedy = ids("greedy_f32");
  return reference;
}

}  // namespace verify
