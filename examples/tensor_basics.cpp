#include <iostream>
#include <tenon/tenon.hpp>

int main() {
  tenon::Context<tenon::Cpu> ctx;  // threads, instruction set, scratch memory
  const auto x = tenon::from_list<float>(ctx, {2, 3}, {1, 2, 3, 4, 5, 6});
  const auto weight = tenon::from_list<float>(ctx, {2, 3}, {1, 0, -1, 0.5, 0.5, 0.5});
  const auto bias = tenon::from_list<float>(ctx, {2}, {10, 20});

  const auto y = tenon::empty<float>(ctx, {2, 2});
  const auto sum = tenon::empty<float>(ctx, {2, 2});
  tenon::linear(ctx, y, x, weight, bias);      // y = x · weightᵀ + bias
  tenon::add(ctx, sum, y, y.transpose(0, 1));  // any strides, no copies
  std::cout << sum << '\n' << x.permute({1, 0}).slice(0, 1, 3) << '\n';
}
