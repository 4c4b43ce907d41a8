// lower: the steps of a node.
#pragma once

#include <tenon/core/config.hpp>
#include <tenon/graph/lowering.hpp>
#include <tenon/graph/nodes.hpp>

TENON_NAMESPACE_BEGIN
namespace graph::detail {

template <DeviceTag Device>
void lower(Lowering<Device>& lowering, NodeId id) {
  switch (lowering.graph()[id].kind) {
    case NodeKind::input_tensor:
    case NodeKind::constant_tensor:
    case NodeKind::buffer_tensor:
    case NodeKind::slice:
    case NodeKind::reshape:
    case NodeKind::permute: break;  // memory that is there
    case NodeKind::sum:
    case NodeKind::hadamard_product:
    case NodeKind::complex_hadamard_product:
    case NodeKind::relu:
    case NodeKind::silu:
    case NodeKind::pointwise: lower_pointwise(lowering, id); break;
    case NodeKind::matmul: lower_matmul(lowering, id); break;
    case NodeKind::matmul_pointwise: lower_matmul_pointwise(lowering, id); break;
    case NodeKind::replace_slice: lower_replace_slice(lowering, id); break;
    case NodeKind::rms_norm: lower_rms_norm(lowering, id); break;
    case NodeKind::sliced_softmax: lower_sliced_softmax(lowering, id); break;
  }
}

}  // namespace graph::detail
TENON_NAMESPACE_END
