// G5: compiled by the host compiler; compares what both see.
#include <cstdio>

#include "link/layouts.hpp"

int main() {
  const LayoutTable host = layouts();
  const LayoutTable device = layouts_of_nvcc();
  bool good = host.size() == device.size();
  for (std::size_t i = 0; good && i < host.size(); ++i) {
    if (host[i] == device[i]) continue;
    std::printf("%s is %zu in a .cpp file, %s is %zu in a .cu file\n", host[i].first.c_str(), host[i].second,
                device[i].first.c_str(), device[i].second);
    good = false;
  }
  tenon::Context<tenon::Cpu> ctx(3);
  const auto tensor = tenon::full<float>(ctx, {4, 5, 6}, 2.0f).slice(1, 2, 4);
  good = reads_the_same(tensor, tenon::AnyTensor(tensor), ctx) && good;
  std::printf("%zu properties compared: %s\n", host.size(), good ? "the same" : "different");
  return good ? 0 : 1;
}
