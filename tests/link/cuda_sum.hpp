// A sum on the device, for the programs of several .cu files.
#pragma once

#include <cstdint>
#include <tenon/cuda.hpp>

bool second_sum_is_right(tenon::Context<tenon::Cuda>& ctx);

template <class T>
bool sum_is_right(tenon::Context<tenon::Cuda>& ctx) {
  const auto a = tenon::full<T>(ctx, {5, 9}, 1.5);
  const auto sum = tenon::empty<T>(ctx, {5, 9});
  tenon::add(ctx, sum, a, a.slice(0, 4, 5).expand({5, 9}));
  const auto result = sum.transpose(0, 1).cpu(ctx);
  for (std::int64_t i = 0; i < 9; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      if (static_cast<float>(result(i, j)) != 3.0f) return false;
    }
  }
  return true;
}
