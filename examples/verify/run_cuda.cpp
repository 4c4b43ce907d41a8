// The comparison on a GPU.
#include <string>

#include <tenon/cuda.hpp>

#include "verify/run.hpp"

namespace verify {

bool run_on_cuda(const Options& options) {
  tenon::Context<tenon::Cuda> ctx(options.device.ordinal);
  return run_model(ctx, ctx.properties().name + " (cuda:" + std::to_string(ctx.ordinal()) + ")", options);
}

}  // namespace verify
