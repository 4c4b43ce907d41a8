// matmul on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <tenon/cpu/pointwise.hpp>
#include <tenon/ops/matmul.hpp>

TENON_NAMESPACE_BEGIN

template <FloatElement T>
void matmul(Context<Cpu>&, View<T, 3, Cpu> out, std::type_identity_t<View<const T, 3, Cpu>> a,
            std::type_identity_t<View<const T, 3, Cpu>> b, const MatmulEpilogue<T, Cpu>& epilogue) {
  detail::check_matmul<T, Cpu>(out, a, b, epilogue);
  using A = accumulator_t<T>;
  for (std::int64_t i = 0; i < out.size(0); ++i)
    for (std::int64_t j = 0; j < out.size(1); ++j)
      for (std::int64_t k = 0; k < out.size(2); ++k) {
        A sum{};
        for (std::int64_t p = 0; p < a.size(2); ++p) sum += static_cast<A>(a(i, j, p)) * static_cast<A>(b(i, p, k));
        T x[PointwiseProgram::max_operands] = {T(sum)};
        if (epilogue.program != nullptr) {
          for (std::size_t o = 1; o < static_cast<std::size_t>(epilogue.program->operands()); ++o)
            x[o] = epilogue.operands[o - 1](i, j, k);
          x[0] = detail::pointwise_scalar<T>(*epilogue.program, x);
        }
        out(i, j, k) = x[0];
      }
}

TENON_NAMESPACE_END
