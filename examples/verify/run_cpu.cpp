// The comparison on the CPU.
#include <string>

#include <tenon/runtime/context.hpp>

#include "verify/run.hpp"

namespace verify {

bool run_on_cpu(const Options& options) {
  tenon::Context<tenon::Cpu> ctx(options.threads);
  const std::string level(tenon::simd_level_name(ctx.simd_level()));
  return run_model(ctx, std::to_string(ctx.threads()) + " threads, " + level, options);
}

}  // namespace verify
