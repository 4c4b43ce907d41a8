// Models on a GPU.
#include <tenon/cuda.hpp>

#include "chat/typed_model.hpp"

namespace chat {

template <>
struct DeviceTraits<tenon::Cuda> {
  static std::string processor(const tenon::Context<tenon::Cuda>& ctx) { return ctx.properties().name; }
  static constexpr std::size_t piece = 2048;
};

std::unique_ptr<Model> load_on_cuda(int ordinal, const LoadRequest& request) {
  return make_model<tenon::Cuda>(ordinal, request);
}

}  // namespace chat
