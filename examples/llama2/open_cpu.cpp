// Models on the CPU.
#include <memory>

#include <tenon/runtime/context.hpp>

#include "llama2/open.hpp"

namespace llama2 {

std::unique_ptr<Model> open_on_cpu(const Options& options) {
  return open_model(std::make_unique<tenon::Context<tenon::Cpu>>(options.threads), options);
}

}  // namespace llama2
