#include <cstdio>
#include <tenon/tenon.hpp>

#ifdef CONSUMER_TEXT
int count_text_headers();
#endif

int main() {
  tenon::Context<tenon::Cpu> ctx;
  const auto a = tenon::full<float>(ctx, {2, 3}, 1.0f);
  const auto sum = tenon::zeros<float>(ctx, {2, 3});
  tenon::add(ctx, sum, a, a);
  std::printf("%g\n", static_cast<double>(sum(1, 2)));
#ifdef CONSUMER_TEXT
  std::printf("%d\n", count_text_headers());
#endif
  return sum(1, 2) == 2.0f ? 0 : 1;
}
