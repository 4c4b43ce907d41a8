// Where a model comes from: a folder, or random weights in a known shape.
#pragma once

#include <filesystem>

#include <tenon/io/load.hpp>
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

/// Writes the random weights of a shape as a folder that tenon::load_model takes. Throws FileError.
void write_model(const Options& options, const std::filesystem::path& folder);

}  // namespace llm
