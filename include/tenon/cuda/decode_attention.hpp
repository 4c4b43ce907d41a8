// decode_attention: what attention does in a decoding step, for steps that are captured in a CUDA graph.
#pragma once

#include <algorithm>
#include <cstdint>

#include <tenon/core/config.hpp>
#include <tenon/core/device.hpp>
#include <tenon/core/math.hpp>
#include <tenon/cuda/context.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

struct DecodeAttentionShape {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t dim = 0;       ///< of a head: even, at most 256
  std::int64_t capacity = 0;  ///< rows of keys and values
  std::int64_t window = 0;    ///< keys that a token sees at most, itself included; 0 for all
  double scale = 1.0;
};

/// Device memory that calls of one stream may share; see decode_attention_partials and decode_attention_tickets.
struct DecodeAttentionScratch {
  float* partial = nullptr;     ///< at a multiple of 16 bytes
  unsigned* tickets = nullptr;  ///< zero before the first call, and again after each
};

/// Heads of one kv head that a block takes together, and ranges of keys for them at most.
inline constexpr std::int64_t decode_attention_rows = 8;
inline constexpr std::int64_t decode_attention_most_splits = 256;

/// Groups of heads that join their results among themselves.
[[nodiscard]] inline std::int64_t decode_attention_units(const DecodeAttentionShape& shape) {
  return shape.kv_heads == 0 ? 0 : shape.kv_heads * ceil_div(shape.heads / shape.kv_heads, decode_attention_rows);
}
/// Ranges that the keys of a full cache are split into: two blocks for each multiprocessor.
[[nodiscard]] inline std::int64_t decode_attention_splits(const DeviceProperties& device,
                                                          const DecodeAttentionShape& shape) {
  const std::int64_t blocks = 2 * std::int64_t{device.multiprocessors};
  return std::clamp<std::int64_t>(blocks / std::max<std::int64_t>(decode_attention_units(shape), 1), 1,
                                  decode_attention_most_splits);
}
/// Floats of DecodeAttentionScratch::partial, for any element type.
[[nodiscard]] inline std::int64_t decode_attention_partials(const DeviceProperties& device,
                                                            const DecodeAttentionShape& shape) {
  return 2 * decode_attention_units(shape) * decode_attention_splits(device, shape) * decode_attention_rows *
         (align_up(shape.dim, std::int64_t{4}) + 4);
}
[[nodiscard]] inline std::int64_t decode_attention_tickets(const DeviceProperties&, const DecodeAttentionShape& shape) {
  return decode_attention_units(shape);
}

/// One token's attention: rotates its queries and its key as `rope` does, appends key and value to the cache at row
/// *position, and lets the queries attend to rows [max(0, *position + 1 - window), *position]. qkv has the heads of q, then
/// those of k, then those of v, dim elements each; out (heads * dim); keys and values (capacity, kv_heads, dim) without
/// gaps; cos and sin (dim / 2) of the position.
///
/// One kernel. *position is device memory and is read when the kernel runs, so a captured call may be replayed with
/// others; a position outside the cache does nothing. The results do not depend on what the cache holds elsewhere.
/// Throws ShapeError for a shape that is not as described.
template <class T>
void decode_attention(Context<Cuda>& ctx, T* out, const T* qkv, T* keys, T* values, const float* cos, const float* sin,
                      const std::int64_t* position, const DecodeAttentionShape& shape,
                      const DecodeAttentionScratch& scratch);

}  // namespace detail
TENON_NAMESPACE_END
