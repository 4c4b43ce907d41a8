// Models on a GPU.
#include <memory>

#include <tenon/cuda.hpp>
#ifdef TENON_PROGRAM_CUDNN
#include <tenon/graph/cudnn.hpp>
#endif

#include "llama2/open.hpp"

namespace llama2 {

std::unique_ptr<Model> open_on_cuda(const Options& options) {
  auto ctx = std::make_unique<tenon::Context<tenon::Cuda>>(options.device.ordinal);
  tenon::graph::CompileOptions<tenon::Cuda> compile_options;
#ifdef TENON_PROGRAM_CUDNN
  if (options.cudnn) compile_options.backend = std::make_shared<tenon::graph::CudnnBackend>(*ctx);
#endif
  return open_model(std::move(ctx), options, compile_options);
}

}  // namespace llama2
