// SubgraphBackend: what a library that runs several nodes as one, such as cuDNN, provides.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/runtime/context.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Nodes that run as one. Only the last one's result is in memory; nothing outside uses the others.
template <DeviceTag Device>
struct Subgraph {
  std::vector<NodeId> nodes;   ///< in order; what writes memory in between must not change what they read
  std::vector<NodeId> inputs;  ///< nodes outside whose memory is read
  std::size_t workspace = 0;   ///< bytes of scratch memory
  /// Puts the work into the context's stream. `data`: the inputs in order, then the result. Follows the rules of captured
  /// graphs.
  std::function<void(Context<Device>& ctx, std::span<std::byte* const> data, std::byte* workspace)> run;

  [[nodiscard]] NodeId output() const { return nodes.back(); }
};

/// One object may serve several compilations, one at a time.
template <DeviceTag Device>
class SubgraphBackend {
 public:
  SubgraphBackend() = default;
  SubgraphBackend(const SubgraphBackend&) = delete;
  SubgraphBackend& operator=(const SubgraphBackend&) = delete;
  virtual ~SubgraphBackend() = default;

  /// The subgraphs that this backend runs, ready to run; what it refuses stays with tenon's operators. Disjoint, in the
  /// order of their outputs.
  virtual std::vector<Subgraph<Device>> claim(Context<Device>& ctx, const Graph& graph) = 0;
};

}  // namespace graph
TENON_NAMESPACE_END
