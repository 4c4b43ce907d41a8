// Models on the CPU.
#include <tenon/runtime/context.hpp>

#include "chat/typed_model.hpp"

namespace chat {

template <>
struct DeviceTraits<tenon::Cpu> {
  static std::string processor(const tenon::Context<tenon::Cpu>& ctx) {
    return std::to_string(ctx.threads()) + (ctx.threads() == 1 ? " thread" : " threads");
  }
  static constexpr std::size_t piece = 256;
};

std::unique_ptr<Model> load_on_cpu(int threads, const LoadRequest& request) {
  return make_model<tenon::Cpu>(threads, request);
}

}  // namespace chat
