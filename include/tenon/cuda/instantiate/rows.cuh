// The operators on rows, for tenon::cuda_kernels: embedding, argmax, norms and rotary embedding.
#pragma once

#include <cstdint>

#include <tenon/cuda/add_rms_norm.cuh>
#include <tenon/cuda/argmax.cuh>
#include <tenon/cuda/decode_embedding.cuh>
#include <tenon/cuda/embedding.cuh>
#include <tenon/cuda/rms_norm.cuh>
#include <tenon/cuda/rope.cuh>
#include <tenon/cuda/rope_append.cuh>

TENON_NAMESPACE_BEGIN

template void rope_table<Cuda>(Context<Cuda>&, View<float, 2, Cuda>, View<float, 2, Cuda>,
                               View<const std::int64_t, 1, Cuda>, double);

#define TENON_INSTANTIATE_ARGMAX(T, Rank)                                                            \
  template void argmax<T, Rank>(Context<Cuda>&, View<std::int64_t, Rank, Cuda>, View<T, Rank, Cuda>, \
                                View<const T, Rank, Cuda>);
#define TENON_INSTANTIATE(T)                                                                                           \
  TENON_INSTANTIATE_ARGMAX(T, 1)                                                                                       \
  TENON_INSTANTIATE_ARGMAX(T, 2)                                                                                       \
  TENON_INSTANTIATE_ARGMAX(T, 3)                                                                                       \
  template void rms_norm<T>(Context<Cuda>&, View<T, 2, Cuda>, View<const T, 2, Cuda>, View<const T, 1, Cuda>, double); \
  template void add_rms_norm<T>(Context<Cuda>&, View<T, 2, Cuda>, View<T, 2, Cuda>, View<const T, 2, Cuda>,            \
                                View<const T, 2, Cuda>, View<const T, 1, Cuda>, double);                               \
  template void rope<T>(Context<Cuda>&, View<T, 3, Cuda>, View<const T, 3, Cuda>, View<const float, 2, Cuda>,          \
                        View<const float, 2, Cuda>);                                                                   \
  template void rope<T>(Context<Cuda>&, View<T, 3, Cuda>, View<const T, 3, Cuda>, View<const std::int64_t, 1, Cuda>,   \
                        double);                                                                                       \
  template void rope_append<T>(Context<Cuda>&, View<T, 3, Cuda>, View<T, 3, Cuda>, View<T, 3, Cuda>,                   \
                               View<const T, 3, Cuda>, View<const T, 3, Cuda>, View<const T, 3, Cuda>,                 \
                               View<const float, 2, Cuda>, View<const float, 2, Cuda>);

TENON_INSTANTIATE(float)
TENON_INSTANTIATE(double)
TENON_INSTANTIATE(float16)
TENON_INSTANTIATE(bfloat16)

#undef TENON_INSTANTIATE
#undef TENON_INSTANTIATE_ARGMAX

// The table of embedding may be const or not.
#define TENON_INSTANTIATE(T, W)                                                                            \
  template void embedding<T, W>(Context<Cuda>&, View<T, 2, Cuda>, View<const std::int64_t, 1, Cuda>,       \
                                View<W, 2, Cuda>);                                                         \
  template void embedding<T, const W>(Context<Cuda>&, View<T, 2, Cuda>, View<const std::int64_t, 1, Cuda>, \
                                      View<const W, 2, Cuda>);                                             \
  template void detail::decode_embedding<T, W>(Context<Cuda>&, T*, float*, float*, const std::int64_t*,    \
                                               const std::int64_t*, View<const W, 2, Cuda>, std::int64_t, double);

TENON_INSTANTIATE(float, float)
TENON_INSTANTIATE(float, float16)
TENON_INSTANTIATE(float, bfloat16)
TENON_INSTANTIATE(double, double)
TENON_INSTANTIATE(float16, float16)
TENON_INSTANTIATE(bfloat16, bfloat16)

#undef TENON_INSTANTIATE

TENON_NAMESPACE_END
