// PermuteNode: dimension i of the result is dimension order[i] of the operand, as NumPy's transpose, without a copy.
#pragma once

#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/rule.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

inline TensorType infer_permute(const Node& node, OperandTypes types) {
  const TensorType& x = *types[0];
  TensorType result{x.dtype, {}};
  std::vector<bool> seen(x.rank(), false);
  bool fits = node.numbers.size() == x.rank();
  for (std::size_t i = 0; fits && i < x.rank(); ++i) {
    const std::int64_t from = node.numbers[i];
    fits = from >= 0 && from < static_cast<std::int64_t>(x.rank()) && !seen[static_cast<std::size_t>(from)];
    if (!fits) break;
    seen[static_cast<std::size_t>(from)] = true;
    result.shape.push_back(x.shape[static_cast<std::size_t>(from)]);
  }
  if (!fits) {
    throw ValueError("PermuteNode: " + shape_text(node.numbers) +
                     " is no order of the dimensions of an operand of shape " + shape_text(x.shape));
  }
  return result;
}

inline constexpr NodeRule permute_rule{
    .name = "PermuteNode", .operands = 1, .numbers = NumbersForm::list, .is_view = true, .infer = infer_permute};

}  // namespace graph::detail
TENON_NAMESPACE_END
