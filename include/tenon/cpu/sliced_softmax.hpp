// sliced_softmax on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <tenon/ops/sliced_softmax.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T>
void sliced_softmax(Context<Cpu>&, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> in,
                    View<const std::int64_t, 1, Cpu> prefix) {
  detail::check_sliced_softmax(out.sizes(), in.sizes(), prefix.sizes());
  detail::check_output("sliced_softmax", "out", out.layout());
  const std::int64_t n = prefix(0);
  detail::check_sliced_softmax_prefix(n, in.size(2));
  using A = accumulator_t<T>;
  for (std::int64_t i = 0; i < out.size(0); ++i) {
    for (std::int64_t j = 0; j < out.size(1); ++j) {
      A largest = -std::numeric_limits<A>::infinity();
      for (std::int64_t k = 0; k < n; ++k) {
        const A x = static_cast<A>(in(i, j, k));
        if (!(x <= largest)) largest = x;
      }
      A sum{};
      for (std::int64_t k = 0; k < n; ++k) sum += std::exp(static_cast<A>(in(i, j, k)) - largest);
      for (std::int64_t k = 0; k < n; ++k) out(i, j, k) = T(std::exp(static_cast<A>(in(i, j, k)) - largest) / sum);
      for (std::int64_t k = n; k < out.size(2); ++k) out(i, j, k) = in(i, j, k);
    }
  }
}

TENON_NAMESPACE_END
