// CudaGraph: work of a stream, recorded once and replayed.
#pragma once

#include <utility>

#include <tenon/core/config.hpp>
#include <tenon/cuda/context.hpp>
#include <tenon/cuda/error.hpp>
#include <tenon/cuda/toolkit.hpp>

TENON_NAMESPACE_BEGIN
namespace detail {

/// Everything that the recorded work points to must live as long as the graph, and nothing may be allocated in it.
/// One thread at a time, like the context.
class CudaGraph {
 public:
  /// Records what `work` puts into the context's stream; nothing runs. What `work` throws passes through, and the stream
  /// is as before.
  template <class Work>
  CudaGraph(Context<Cuda>& ctx, Work&& work) {
    const auto device = ctx.activate();
    check_cuda(cudaStreamBeginCapture(ctx.stream(), cudaStreamCaptureModeThreadLocal), "recording a graph");
    cudaGraph_t graph = nullptr;
    try {
      work();
    } catch (...) {
      static_cast<void>(cudaStreamEndCapture(ctx.stream(), &graph));
      if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
      static_cast<void>(cudaGetLastError());
      throw;
    }
    check_cuda(cudaStreamEndCapture(ctx.stream(), &graph), "recording a graph");
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check_cuda(status, "preparing a graph");
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() { static_cast<void>(cudaGraphExecDestroy(graph_)); }

  /// Puts the recorded work into the context's stream. Does not wait.
  void launch(Context<Cuda>& ctx) {
    const auto device = ctx.activate();
    check_cuda(cudaGraphLaunch(graph_, ctx.stream()), "replaying a graph");
  }

 private:
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace detail
TENON_NAMESPACE_END
