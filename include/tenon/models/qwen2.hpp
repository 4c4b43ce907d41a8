// Qwen2: the decoder with biases on q, k and v. Also what Qwen2.5 and the DeepSeek-R1 distillations of it are.
#pragma once

#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/models/decoder.hpp>

TENON_NAMESPACE_BEGIN

/// Qwen2 (Yang et al. 2024) with computations in T. Const after construction; see Decoder.
template <class T, DeviceTag Device = Cpu>
class Qwen2 : public Decoder<T, Device> {
 public:
  static constexpr std::string_view model_type = "qwen2";

  /// Throws FormatError where the configuration is of another model type; otherwise as Decoder.
  Qwen2(Context<Device>& ctx, ModelConfig config, WeightMap weights, const LoadProgress& progress = {})
      : Decoder<T, Device>(ctx, detail::expect_model_type(std::move(config), model_type), std::move(weights),
                           progress) {}
};

TENON_NAMESPACE_END
