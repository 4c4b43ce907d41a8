// verify: compares a model with what another implementation computed: hidden states layer by layer, logits, greedy ids.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <tenon/generate/sequence.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/llama.hpp>
#include <tenon/models/qwen2.hpp>
#include <tenon/runtime/context.hpp>

#include "common/command_line.hpp"
#include "common/program.hpp"
#include "common/signals.hpp"
#include "verify/compare.hpp"
#include "verify/reference.hpp"

namespace {

using tenon::Context;
using tenon::Cpu;
using tenon::DType;

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

struct Options {
  std::filesystem::path model;
  std::filesystem::path reference;
  DType dtype = DType::float32;
  double tolerance = 0;  ///< 0: the default of the dtype
  int threads = 0;
};

std::string state_name(std::int64_t index, std::int64_t layers) {
  if (index == 0) return "embedding";
  return index == layers ? "layer " + std::to_string(index) + ", final norm" : "layer " + std::to_string(index);
}

void print_row(const std::string& name, const verify::Difference& difference, bool good) {
  std::printf("%-22s %11.3g %11.3g %12.9f   %s\n", name.c_str(), difference.max_absolute, difference.max_relative,
              difference.cosine,
              !difference.finite ? "NOT FINITE"
              : good             ? "ok"
                                 : "OFF");
}

template <class T>
std::span<const T> elements(const tenon::View<const T, 1>& x) {
  return {x.data(), static_cast<std::size_t>(x.numel())};
}

/// Compares hidden states and logits. True if all are within their limits.
template <class Model>
bool compare_states(Context<Cpu>& ctx, const Model& model, const verify::Reference& reference, DType dtype,
                    double tolerance, const verify::Limit& logits_limit) {
  using T = typename Model::value_type;
  const std::int64_t layers = model.config().num_hidden_layers;
  std::string first_off;
  const auto row = [&](const std::string& name, const verify::Difference& difference, const verify::Limit& limit) {
    const bool good = limit.holds(difference);
    print_row(name, difference, good);
    if (!good && first_off.empty()) first_off = name;
  };

  auto cache = model.make_cache(ctx, reference.input_ids.size(0));
  const auto logits = tenon::empty<float>(ctx, reference.logits.sizes());
  std::printf("%-22s %11s %11s %12s\n", "state", "max abs", "max rel", "cosine");
  model.forward(ctx, cache, elements<std::int64_t>(reference.input_ids), logits,
                [&](std::int64_t index, tenon::View<const T, 2> hidden) {
                  const auto found = reference.hidden.find(index);
                  if (found == reference.hidden.end()) return;
                  const auto difference = verify::compare<T>(hidden, found->second);
                  row(state_name(index, layers), difference, verify::state_limit(dtype, tolerance, index, difference));
                });
  row("logits", verify::compare<float>(logits, reference.logits), logits_limit);
  if (!first_off.empty()) std::printf("first state that is off: %s\n", first_off.c_str());
  return first_off.empty();
}

/// Compares greedy ids; in narrow types a near tie ends the comparison without a fault.
template <class Model>
bool compare_greedy(Context<Cpu>& ctx, const Model& model, const verify::Reference& reference, double near_tie) {
  const auto prompt = elements<std::int64_t>(reference.input_ids);
  const auto expected = elements<std::int64_t>(*reference.greedy);
  const auto room = static_cast<std::int64_t>(prompt.size() + expected.size());
  tenon::Sequence<Model> sequence(ctx, model, room);
  tenon::GenerateOptions options;
  options.sampling.greedy = true;
  options.max_new_tokens = static_cast<std::int64_t>(expected.size());
  const std::vector<std::int64_t> ours = sequence.generate(prompt, options).ids;

  const auto equal = static_cast<std::size_t>(
      std::mismatch(ours.begin(), ours.end(), expected.begin(), expected.end()).first - ours.begin());
  std::printf("greedy ids: %zu of %zu equal\n", equal, expected.size());
  if (equal == expected.size()) return true;
  std::vector<std::int64_t> text(prompt.begin(), prompt.end());
  text.insert(text.end(), expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(equal));
  auto cache = model.make_cache(ctx, room);
  const auto logits = model.forward(ctx, cache, text);
  const std::int64_t theirs = expected[equal];
  const double gap = static_cast<double>(logits(ours[equal])) - static_cast<double>(logits(theirs));
  const bool tie = gap <= near_tie;
  std::printf("greedy id %zu is %lld, expected %lld; their logits are %.3g apart%s\n", equal,
              static_cast<long long>(ours[equal]), static_cast<long long>(theirs), gap, tie ? ", a near tie" : "");
  return tie;
}

template <class Model>
bool run(const Options& options) {
  Context<Cpu> ctx(options.threads);
  const Model model = tenon::load_model<Model>(ctx, options.model);
  const verify::Reference reference = verify::read_reference(options.reference, model.config());
  const DType dtype = tenon::dtype_of<typename Model::value_type>;
  const bool wide = dtype == DType::float32;
  const double tolerance = options.tolerance > 0 ? options.tolerance : wide ? verify::float32_tolerance : 0.0;
  std::optional<verify::Difference> loss;
  if (reference.bfloat16_logits) loss = verify::compare<float>(*reference.bfloat16_logits, reference.logits);
  const verify::Limit limit =
      verify::logits_limit(dtype, tolerance, model.config().num_hidden_layers, loss ? &*loss : nullptr);

  std::printf("model      %s, %lld layers\n", program::printable(options.model.string()).c_str(),
              static_cast<long long>(model.config().num_hidden_layers));
  std::printf("reference  %s, %lld ids\n", program::printable(options.reference.string()).c_str(),
              static_cast<long long>(reference.input_ids.size(0)));
  std::printf("compute    %s, %d threads, %s\n\n", std::string(tenon::dtype_name(dtype)).c_str(), ctx.threads(),
              std::string(tenon::simd_level_name(ctx.simd_level())).c_str());
  bool good = compare_states(ctx, model, reference, dtype, tolerance, limit);
  if (reference.greedy) {
    // Where only the length of the difference is bounded, a single logit is off by at most about four times its share.
    const double share =
        limit.relative_length * verify::compare<float>(reference.logits, reference.logits).reference_rms;
    const double allowed = std::isinf(limit.max_absolute) ? 4 * share : limit.max_absolute;
    good = compare_greedy(ctx, model, reference, wide ? 0.0 : 2 * allowed) && good;
  }
  std::printf("%s\n", good ? "equal within the tolerance" : "NOT equal within the tolerance");
  return good;
}

template <template <class, class> class Model>
bool run_in(const Options& options) {
  switch (options.dtype) {
    case DType::bfloat16: return run<Model<tenon::bfloat16, Cpu>>(options);
    case DType::float16: return run<Model<tenon::float16, Cpu>>(options);
    default: return run<Model<float, Cpu>>(options);
  }
}

template <class T, class D>
using Qwen2 = tenon::Qwen2<T, D>;
template <class T, class D>
using Llama = tenon::Llama<T, D>;

}  // namespace

int main(int argc, char** argv) {
  program::prepare_process("verify");
  Options options;
  std::string device = "cpu";
  std::string dtype = "f32";
  CLI::App app(description, "verify");
  app.footer(details);
  app.get_formatter()->column_width(28);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", program::version_text("verify"), "Print the version and exit");
  app.add_option("MODEL_DIR", options.model, "Folder with config.json and *.safetensors")->required();
  app.add_option("REFERENCE", options.reference, "Reference file (.safetensors), see below")->required();
  app.add_option("--device", device, "Where to compute: cpu (default)")->type_name("NAME");
  app.add_option("--dtype", dtype, "Compute in f32 (default), f16, bf16, or auto: the type of the checkpoint")
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "f32", "f16", "bf16"}).name(""));
  app.add_option("--tolerance", options.tolerance, "Largest difference of a logit; default: see below")
      ->type_name("X")
      ->check(program::number_within(0, std::numeric_limits<double>::infinity(), "a finite number above 0", true));
  app.add_option("--threads", options.threads, "Threads to compute with; default: one for each physical core")
      ->type_name("N")
      ->transform(program::count_within(1, Context<Cpu>::max_threads));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return program::run("verify", [&] { return app.exit(error); });
    return program::fail("verify", program::parse_problem(error) + " (--help lists the options)", 2);
  }
  if (const std::string problem = program::device_problem(device); !problem.empty()) {
    return program::fail("verify", problem, 2);
  }

  return program::run("verify", [&] {
    const tenon::ModelConfig config = tenon::read_model_config(options.model / "config.json");
    const auto named = program::named_dtype(dtype);
    options.dtype = named ? *named : tenon::checkpoint_dtype(config, tenon::open_checkpoint(options.model));
    const bool good = config.model_type == "qwen2" ? run_in<Qwen2>(options) : run_in<Llama>(options);
    return good ? 0 : 1;
  });
}
