// Where a model comes from: a folder, or random weights in a known shape. And the way from the latter to the former.
#pragma once

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include <tenon/core/error.hpp>
#include <tenon/io/atomic_file.hpp>
#include <tenon/io/load.hpp>
#include <tenon/io/save_safetensors.hpp>
#include <tenon/runtime/context.hpp>

#include <llm/options.hpp>
#include <llm/random_weights.hpp>
#include <llm/shapes.hpp>

namespace llm {

struct Source {
  tenon::ModelConfig config;
  tenon::WeightMap weights;
};

/// On the threads of `ctx`; `prefault` as for tenon::load_model.
inline Source read_source(tenon::Context<tenon::Cpu>& ctx, const Options& options, bool prefault) {
  Source source;
  if (options.shape.empty()) {
    source.config = tenon::read_model_config(options.model / "config.json");
    source.weights = tenon::read_weights(tenon::open_checkpoint(options.model), {.prefault = prefault, .progress = {}});
  } else {
    source.config = shape_config(options.shape);
    source.weights = RandomWeights(ctx, source.config, options.dtype).take();
  }
  return source;
}

/// What read_model_config reads.
inline nlohmann::ordered_json config_json(const tenon::ModelConfig& config, tenon::DType dtype) {
  const bool is_qwen2 = config.model_type == "qwen2";
  return {{"architectures", {is_qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
          {"model_type", config.model_type},
          {"vocab_size", config.vocab_size},
          {"hidden_size", config.hidden_size},
          {"intermediate_size", config.intermediate_size},
          {"num_hidden_layers", config.num_hidden_layers},
          {"num_attention_heads", config.num_attention_heads},
          {"num_key_value_heads", config.num_key_value_heads},
          {"head_dim", config.head_dim},
          {"max_position_embeddings", config.max_position_embeddings},
          {"rms_norm_eps", config.rms_norm_eps},
          {"rope_theta", config.rope_theta},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", config.tie_word_embeddings},
          {"torch_dtype", tenon::dtype_name(dtype)}};
}

/// Writes the random weights of a shape as a folder that tenon::load_model takes. Throws FileError.
inline void write_model(const Options& options, const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw tenon::FileError("cannot make the folder '" + folder.string() + "': " + error.message());
  tenon::Context<tenon::Cpu> ctx(options.threads);
  const Source source = read_source(ctx, options, false);
  const std::map<std::string, tenon::AnyTensor> tensors(source.weights.begin(), source.weights.end());
  tenon::save_safetensors(folder / "model.safetensors", tensors, {{"format", "pt"}});
  tenon::write_file_atomically(folder / "config.json", config_json(source.config, options.dtype).dump(2) + "\n");
}

}  // namespace llm
