// The model of the chat for one element type and one device. model_cpu.cpp and model_cuda.cpp make it, so that only the
// latter needs the CUDA toolkit.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <tenon/core/dtype.hpp>
#include <tenon/generate/sequence.hpp>
#include <tenon/io/load.hpp>
#include <tenon/models/qwen2.hpp>

#include "chat/model.hpp"

namespace chat {

/// What the devices do not have in common:
///   static std::string processor(const tenon::Context<Device>& ctx);
///   static constexpr std::size_t piece;  // tokens of a prompt that are read before it is asked whether to go on
template <class Device>
struct DeviceTraits;

template <class T, tenon::DeviceTag Device>
class TypedModel final : public Model {
 public:
  /// `context_argument`: threads, or the number of a GPU.
  TypedModel(int context_argument, const LoadRequest& request)
      : ctx_(context_argument),
        model_(tenon::load_model<tenon::Qwen2<T, Device>>(ctx_, request.folder, request.loading)),
        sequence_(ctx_, model_, request.context),
        processor_(DeviceTraits<Device>::processor(ctx_)) {
    ctx_.synchronize();
  }

  tenon::DType dtype() const override { return tenon::dtype_of<T>; }
  const std::string& processor() const override { return processor_; }
  std::int64_t context() const override { return sequence_.capacity(); }

  tenon::TextResult generate(const tenon::Tokenizer& tokenizer, std::span<const std::int64_t> prompt,
                             const tenon::TextOptions& options, const tenon::TextCallback& on_text,
                             const std::function<bool()>& go_on) override {
    const auto& held = sequence_.ids();
    const auto shared = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end()).first - held.begin();
    double seconds = 0;
    if (go_on) {
      // One token after each piece, which nobody sees: then the piece is in the cache.
      tenon::GenerateOptions reading;
      reading.sampling.greedy = true;
      reading.sampling.log_probabilities = false;
      reading.max_new_tokens = 1;
      constexpr std::size_t piece = DeviceTraits<Device>::piece;
      for (auto end = static_cast<std::size_t>(shared) + piece; end < prompt.size(); end += piece) {
        if (!go_on()) return cancelled();
        seconds += sequence_.generate(prompt.first(end), reading).prompt_seconds;
      }
      if (!go_on()) return cancelled();
    }
    auto result = tenon::generate_text(sequence_, tokenizer, prompt, options, on_text);
    result.prompt_seconds += seconds;
    result.reused_tokens = std::min<std::int64_t>(result.reused_tokens, shared);
    return result;
  }

 private:
  static tenon::TextResult cancelled() {
    tenon::TextResult result;
    result.finish_reason = tenon::FinishReason::cancelled;
    return result;
  }

  tenon::Context<Device> ctx_;
  tenon::Qwen2<T, Device> model_;
  tenon::Sequence<tenon::Qwen2<T, Device>> sequence_;
  std::string processor_;
};

template <tenon::DeviceTag Device>
std::unique_ptr<Model> make_model(int context_argument, const LoadRequest& request) {
  switch (request.dtype) {
    case tenon::DType::float16: return std::make_unique<TypedModel<tenon::float16, Device>>(context_argument, request);
    case tenon::DType::bfloat16:
      return std::make_unique<TypedModel<tenon::bfloat16, Device>>(context_argument, request);
    default: return std::make_unique<TypedModel<float, Device>>(context_argument, request);
  }
}

}  // namespace chat
