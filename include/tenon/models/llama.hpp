// Llama: the decoder without biases, as LLaMA and LLaMA 2 are.
#pragma once

#include <string_view>
#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/models/decoder.hpp>

TENON_NAMESPACE_BEGIN

/// LLaMA 2 (Touvron et al. 2023) with computations in T. Const after construction; see Decoder.
template <class T, DeviceTag Device = Cpu>
class Llama : public Decoder<T, Device> {
 public:
  static constexpr std::string_view model_type = "llama";

  /// Throws FormatError where the configuration is of another model type; otherwise as Decoder.
  Llama(Context<Device>& ctx, ModelConfig config, WeightMap weights, const LoadProgress& progress = {})
      : Decoder<T, Device>(ctx, detail::expect_model_type(std::move(config), model_type), std::move(weights),
                           progress) {}
};

TENON_NAMESPACE_END
