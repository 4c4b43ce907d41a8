// CudnnBackend: runs products with the point-wise steps around them, and point-wise steps alone, with cuDNN. Needs cuDNN:
// link tenon::cudnn.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/cudnn.hpp>
#include <tenon/graph/cudnn/plan.hpp>
#include <tenon/graph/memory.hpp>
#include <tenon/graph/partition.hpp>
#include <tenon/graph/region_form.hpp>
#include <tenon/graph/subgraph.hpp>

TENON_NAMESPACE_BEGIN
TENON_HIDDEN_BEGIN
namespace graph {

/// Of all compilations that an object served.
struct CudnnStatistics {
  std::size_t subgraphs = 0;          ///< run by cuDNN
  std::size_t plans = 0;              ///< compiled for them
  std::size_t hits = 0;               ///< subgraphs whose plan was there already
  std::size_t without_prologue = 0;   ///< subgraphs that cuDNN took only without the steps before the product
  std::size_t fallbacks = 0;          ///< subgraphs that cuDNN refused, left to tenon's kernels
  std::size_t not_expressible = 0;    ///< point-wise nodes for which cuDNN has no operation: complex, int64, copies
  std::size_t largest_workspace = 0;  ///< bytes of scratch memory
};

/// What became of the subgraphs of one trace.
struct CudnnRecord {
  std::string trace;  ///< operations, dtypes, sizes, strides, alignment
  bool is_supported = false;
  std::int64_t engine = 0;  ///< cuDNN's number of the engine that was chosen
  std::size_t workspace = 0;
  std::string reason;  ///< of a refusal: what the last engine lacked
};

/// Give it to CompileOptions::backend. Claims the regions that find_regions finds; a region that cuDNN refuses is tried
/// without its prologue, and then left to tenon. Plans are kept by the trace of the region, so that the equal layers of a
/// model compile once, also in different graphs.
///
/// Results: products are summed in float, and no engine is taken that rounds factors (see CudnnOptions::allow_tf32) or
/// partial sums, or that is not deterministic. For products of float32 cuDNN has few such engines, or none; then they stay
/// with tenon. The order of sums is cuDNN's, so that results differ from tenon's in the last bits. ReLU may give 0 for NaN.
///
/// One compilation at a time. Executables keep what they need of it, so it may go before them; those that share it may run
/// in different threads, which take turns in putting their work into streams.
class CudnnBackend : public SubgraphBackend<Cuda> {
 public:
  /// Throws DeviceError where cuDNN cannot be started.
  explicit CudnnBackend(Context<Cuda>& ctx, const CudnnOptions& options = {})
      : options_(options), handle_(std::make_shared<tenon::detail::CudnnHandle>(ctx.ordinal())) {}

  /// Throws DeviceError for a context on another device.
  std::vector<Subgraph<Cuda>> claim(Context<Cuda>& ctx, const Graph& graph) override;

  [[nodiscard]] const CudnnStatistics& statistics() const noexcept { return statistics_; }
  /// Of the plans that were compiled.
  [[nodiscard]] std::vector<std::string> traces() const;
  /// Of all traces that were seen, also those that were refused.
  [[nodiscard]] std::vector<CudnnRecord> records() const;

 private:
  struct Known {
    std::shared_ptr<const detail::CudnnPlan> plan;  // null: refused
    std::string reason;
  };

  /// The region as a subgraph, appended, or false where cuDNN refuses.
  bool add(std::vector<Subgraph<Cuda>>& subgraphs, const Graph& graph, const std::vector<Place>& places,
           const Region& region);

  CudnnOptions options_;
  std::shared_ptr<tenon::detail::CudnnHandle> handle_;
  std::map<std::string, Known> known_;  // by trace
  CudnnStatistics statistics_;
};

inline std::vector<Subgraph<Cuda>> CudnnBackend::claim(Context<Cuda>& ctx, const Graph& graph) {
  if (ctx.ordinal() != handle_->ordinal()) {
    throw DeviceError("cudnn: the backend is for CUDA device " + std::to_string(handle_->ordinal()) +
                      ", but the context is on device " + std::to_string(ctx.ordinal()));
  }
  const auto device = ctx.activate();
  const auto lock = handle_->lock();
  const std::vector<Place> places = memory_places(graph);
  std::vector<Subgraph<Cuda>> subgraphs;
  for (const Region& region : find_regions(graph)) {
    if (add(subgraphs, graph, places, region)) continue;
    if (region.prologue.empty()) {
      ++statistics_.fallbacks;
      continue;
    }
    const auto [prologue, rest] = split_prologue(graph, region);
    const bool is_taken = add(subgraphs, graph, places, rest);
    if (is_taken) ++statistics_.without_prologue;
    const bool prologue_is_taken = add(subgraphs, graph, places, prologue);
    statistics_.fallbacks += (is_taken ? 0u : 1u) + (prologue_is_taken ? 0u : 1u);
  }
  for (const Node& node : graph.nodes()) {
    const bool is_pointwise = rule_of(node.kind).is_pointwise || node.kind == NodeKind::pointwise;
    if (is_pointwise && !detail::has_region_steps(node)) ++statistics_.not_expressible;
  }
  std::sort(subgraphs.begin(), subgraphs.end(), [](const auto& a, const auto& b) { return a.output() < b.output(); });
  return subgraphs;
}

inline bool CudnnBackend::add(std::vector<Subgraph<Cuda>>& subgraphs, const Graph& graph,
                              const std::vector<Place>& places, const Region& region) {
  const RegionForm form = region_form(graph, places, region);
  std::string trace = form.trace();
  auto found = known_.find(trace);
  const bool is_new = found == known_.end();
  if (is_new) {
    Known made;  // before it is kept: what throws is no refusal
    made.plan = detail::CudnnPlan::make(handle_, form, options_, made.reason);
    found = known_.emplace(std::move(trace), std::move(made)).first;
  }
  const Known& known = found->second;
  if (!known.plan) return false;
  ++(is_new ? statistics_.plans : statistics_.hits);
  ++statistics_.subgraphs;
  statistics_.largest_workspace = std::max(statistics_.largest_workspace, known.plan->workspace_bytes());
  Subgraph<Cuda> subgraph;
  subgraph.nodes = region.nodes;
  subgraph.inputs = region.inputs;
  subgraph.workspace = known.plan->workspace_bytes();
  subgraph.run = [plan = known.plan](Context<Cuda>& ctx, std::span<std::byte* const> data, std::byte* workspace) {
    plan->run(ctx, data, workspace);
  };
  subgraphs.push_back(std::move(subgraph));
  return true;
}

inline std::vector<std::string> CudnnBackend::traces() const {
  std::vector<std::string> result;
  for (const auto& [trace, known] : known_) {
    if (known.plan) result.push_back(trace);
  }
  return result;
}

inline std::vector<CudnnRecord> CudnnBackend::records() const {
  std::vector<CudnnRecord> result;
  for (const auto& [trace, known] : known_) {
    CudnnRecord record{trace, known.plan != nullptr, 0, 0, known.reason};
    if (known.plan) {
      record.engine = known.plan->engine();
      record.workspace = known.plan->workspace_bytes();
      record.reason.clear();
    }
    result.push_back(std::move(record));
  }
  return result;
}

}  // namespace graph
TENON_HIDDEN_END
TENON_NAMESPACE_END
