// What the programs have in common: a sum on the device, checked; and what they say without one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <exception>
#include <tenon/cuda.hpp>

/// Adds two matrices, transposes the result on the way back, and looks at every element.
inline bool sum_is_right() {
  tenon::Context<tenon::Cuda> ctx;
  const auto a = tenon::from_list<float>(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto b = tenon::full<float>(ctx, {2, 3}, 0.5f);
  const auto sum = tenon::empty<float>(ctx, {2, 3});
  tenon::add(ctx, sum, a, b);
  const auto result = sum.transpose(0, 1).cpu(ctx);
  bool right = true;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 2; ++j) right = right && result(i, j) == static_cast<float>(3 * j + i) + 1.5f;
  }
  return right;
}

/// The main function of a program whose work is `body`, which returns whether it went well.
template <class Body>
int run(Body body) {
  try {
    if (tenon::Runtime<tenon::Cuda>::device_count() == 0) {
      std::puts("there is no CUDA device");
      return 0;
    }
    const bool right = body();
    std::puts(right ? "right" : "wrong");
    return right ? 0 : 1;
  } catch (const std::exception& error) {
    std::puts(error.what());
    return 1;
  }
}
