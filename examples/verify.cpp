// verify: compares a model with what another implementation computed: hidden states layer by layer, logits, greedy ids.
#include <filesystem>
#include <limits>
#include <string>

#include <CLI/CLI.hpp>

#include <tenon/io/load.hpp>
#include <tenon/io/model_config.hpp>

#include "common/command_line.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"
#include "verify/options.hpp"

namespace {

constexpr const char* description =
    R"(Compares a model with a reference: what another implementation computed for the same ids. Prints a table of hidden
states layer by layer, names the first that is off, compares logits and greedy ids, and exits 0 if everything is within
the tolerance, 1 if not, 2 for wrong use.)";

constexpr const char* details =
    R"(Tolerance
  f32: every logit within 2e-4, every hidden state within 2e-4 times its largest element (at least 2e-4), and all greedy
  ids equal. --tolerance X replaces 2e-4.
  f16, bf16: with u the largest relative error of one rounding (2^-11, 2^-8), the difference of the state behind n layers
  is at most u * sqrt(1 + 14 n) of the state's length, since a layer rounds about 14 times. Logits: on average 1.5 times,
  at most twice what the reference lost in bfloat16 (logits_bf16 against logits_f32), for f16 an eighth of that. The first
  greedy id that differs must be a near tie: the two logits no further apart than twice the limit of one. --tolerance X
  replaces these limits by X as for f32.

Columns
  max abs    largest difference
  max rel    largest difference over the larger of the reference element and the root mean square of the state
  cosine     of the angle between the two states

The reference is a safetensors file with
  input_ids      int64 (n)               the ids that are read
  hidden_i_f32   float32 (n, hidden)     optional: state 0 is the embedding, i the output of layer i, and the last one is
                                         after the final norm, as transformers numbers hidden_states
  logits_f32     float32 (m, vocabulary) logits of the last m ids, m <= n, weights and arithmetic in float32
  logits_bf16    float32 (m, vocabulary) optional: the same with weights and arithmetic in bfloat16, on a CPU
  greedy_f32     int64 (k)               optional: the k ids that greedy decoding appends in float32
examples/write_reference.py writes one with transformers:
  python3 examples/write_reference.py MODEL_DIR REFERENCE.safetensors --text "Once upon a time"
In short, for one sequence `ids` of shape (1, n):
  model = AutoModelForCausalLM.from_pretrained(MODEL_DIR, dtype=torch.float32, attn_implementation="eager")
  out = model(ids, output_hidden_states=True, use_cache=False)
  tensors = {"input_ids": ids[0], "logits_f32": out.logits[0]}
  tensors |= {f"hidden_{i}_f32": h[0] for i, h in enumerate(out.hidden_states)}
  tensors["greedy_f32"] = model.generate(ids, do_sample=False, min_new_tokens=32, max_new_tokens=32)[0, ids.shape[1]:]
  save_file({k: v.contiguous() for k, v in tensors.items()}, "reference.safetensors")
)";

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("verify");
  verify::Options options;
  std::string dtype = "f32";
  program::CommandLine app(description, "verify");
  app.footer(details);
  app.add_option("MODEL_DIR", options.model, "Folder with config.json and *.safetensors")->required();
  app.add_option("REFERENCE", options.reference, "Reference file (.safetensors), see below")->required();
  app.add_device(options.device);
  app.add_option("--dtype", dtype, "Compute in f32 (default), f16, bf16, or auto: the type of the checkpoint")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}).name(""));
  app.add_option("--tolerance", options.tolerance, "Largest difference of a logit; default: see below")
      ->type_name("X")
      ->check(program::number_within(0, std::numeric_limits<double>::infinity(), "a finite number above 0", true));
  app.add_threads(options.threads);
  if (const auto exit_code = app.read(argc, argv)) return *exit_code;

  return program::run("verify", [&] {
    const tenon::ModelConfig config = tenon::read_model_config(options.model / "config.json");
    const auto named = program::named_dtype(dtype);
    options.dtype = named ? *named : tenon::checkpoint_dtype(config, tenon::open_checkpoint(options.model));
    options.model_type = config.model_type;
#ifdef TENON_PROGRAM_CUDA
    if (options.device.is_cuda()) return verify::run_on_cuda(options) ? 0 : 1;
#endif
    return verify::run_on_cpu(options) ? 0 : 1;
  });
}
