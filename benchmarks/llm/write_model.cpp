// Random weights as a model folder.
#include <filesystem>
#include <map>
#include <string>
#include <system_error>

#include <nlohmann/json.hpp>

#include <tenon/core/error.hpp>
#include <tenon/io/atomic_file.hpp>
#include <tenon/io/save_safetensors.hpp>

#include <llm/source.hpp>

namespace llm {
namespace {

/// What read_model_config reads.
nlohmann::ordered_json config_json(const tenon::ModelConfig& config, tenon::DType dtype) {
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

}  // namespace

void write_model(const Options& options, const std::filesystem::path& folder) {
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
