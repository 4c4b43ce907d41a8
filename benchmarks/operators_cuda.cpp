#include "operators_cuda.hpp"

#include <memory>

#include "operators_device.hpp"

namespace bench {

std::shared_ptr<void> register_on_cuda(int ordinal) {
  const auto card = std::make_shared<Card>(ordinal);
  register_cuda_linear(*card);
  register_cuda_attention(*card);
  register_cuda_rows(*card);
  register_cuda_graph(*card);
  return card;
}

}  // namespace bench
