// Executable: a compiled graph that can be evaluated again and again.
#pragma once

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <tenon/core/config.hpp>
#include <tenon/core/error.hpp>
#include <tenon/core/format.hpp>
#include <tenon/graph/execution.hpp>
#include <tenon/graph/index_limits.hpp>
#include <tenon/graph/lower.hpp>
#include <tenon/graph/passes.hpp>
#include <tenon/graph/plan.hpp>
#include <tenon/graph/subgraph.hpp>
#include <tenon/tensor/any_tensor.hpp>
#include <tenon/tensor/create.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {

/// Tensors by name.
using TensorMap = std::map<std::string, AnyTensor, std::less<>>;

template <DeviceTag Device = Cpu>
struct CompileOptions {
  PassOptions passes{};
  /// Most bytes that the executable may allocate; 0 is no limit. Constants that are used where they are do not count.
  std::size_t memory_budget = 0;
  /// Runs parts of the graph, for example with cuDNN; null: tenon's operators run everything.
  std::shared_ptr<SubgraphBackend<Device>> backend{};
};

/// A graph with its memory and its list of operator calls on one device. All memory is allocated by the constructor, in one
/// arena; evaluating allocates nothing. On a GPU the calls are captured in a CUDA graph and replayed.
///
/// One evaluation at a time: a second thread that begins one meanwhile gets a ValueError and changes nothing. Different
/// executables are independent, also where they share constants. The context of an evaluation may be another one than that
/// of the constructor, on the same device.
template <DeviceTag Device>
class Executable {
 public:
  /// Compiles `source`. `constants`: for each ConstantTensor a tensor of its dtype and shape. Those that the device can read
  /// where they are (row-major, in its memory: on the CPU a mapped file too, on a GPU at multiples of 16 bytes) are shared
  /// and must not change; others are copied into the arena.
  ///
  /// Throws ValueError for a constant that is missing or that the graph does not have, DTypeError or ShapeError for one of
  /// another type, DeviceError for one on a device that cannot be read, and Error where the arena exceeds the budget, before
  /// anything is allocated, or where memory is short.
  Executable(Context<Device>& ctx, const Graph& source, const TensorMap& constants,
             const CompileOptions<Device>& options = {});
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  /// What runs: the graph after all passes.
  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const MemoryPlan& plan() const noexcept { return plan_; }
  /// Calls of operators or of the backend in one evaluation.
  [[nodiscard]] std::size_t steps() const noexcept { return steps_.size(); }
  /// Bytes that were allocated.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// Where an input of the next `run` is to be written: row-major CPU memory, as Tensor of its dtype and rank. Throws
  /// ValueError for a name that is no input. Do not touch it during a run. It keeps its elements, unless the graph writes
  /// into it: then they must be set again.
  [[nodiscard]] const AnyTensor& input(std::string_view name) const { return inputs_[find_input(name)].host; }
  /// Evaluates with what the inputs hold. Returns when the result is there. Throws ValueError, before anything is
  /// written, for a prefix out of range that is an input of size 1, or a begin and end that both are; on the CPU, during
  /// the run, also for others, while on a GPU a prefix then counts as 0 or all, and nothing is written.
  void run(Context<Device>& ctx);
  /// What the last run left, in the device's memory, which the next run overwrites.
  [[nodiscard]] const AnyTensor& result() const noexcept { return result_; }

  /// `run` with these inputs, one for each InputTensor, on the CPU or on the executable's device. Throws ValueError for one
  /// that is missing or that the graph does not have or that lies in the memory of another input, as a result may that is
  /// a view of one; DTypeError, ShapeError or DeviceError for one that does not fit.
  /// A tensor on a GPU is for this evaluation only, unless it is an int64 of size 1: `input` does not see it, and a later
  /// `run` does not use it.
  const AnyTensor& evaluate(Context<Device>& ctx, const TensorMap& inputs);

  /// The elements of a BufferTensor, in the device's memory. Throws ValueError where the compiled graph has none of that
  /// name: one that nothing needs is removed.
  [[nodiscard]] AnyTensor buffer(std::string_view name) const;
  /// Sets all buffers to zero, as compiling leaves them.
  void reset_buffers(Context<Device>& ctx);

 private:
  struct Input {
    std::string name;
    TensorType type;
    AnyTensor host;
  };
  /// Memory of an input, in the arena or where the host sets it.
  struct InputMemory {
    const std::byte* begin;
    const std::byte* end;
    std::size_t input;
  };

  /// Marks the executable as in use.
  class Use {
   public:
    explicit Use(std::atomic<bool>& busy) : busy_(busy) {
      if (busy_.exchange(true, std::memory_order_acquire)) {
        throw ValueError("graph: this executable is being evaluated by another thread; compile one for each thread");
      }
    }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() { busy_.store(false, std::memory_order_release); }

   private:
    std::atomic<bool>& busy_;
  };

  [[nodiscard]] std::size_t find_input(std::string_view name) const {
    const auto found = input_places_.find(name);
    if (found == input_places_.end()) {
      throw ValueError("graph: there is no input " + tenon::detail::quoted_text(name));
    }
    return found->second;
  }
  void check_apart(std::size_t input, const AnyTensor& tensor) const;
  static void check_tensor(const char* what, const std::string& name, const AnyTensor& tensor, const TensorType& type);
  void run_locked(Context<Device>& ctx) {
    limits_->check();
    execution_.run(ctx, steps_);
  }

  Graph graph_;
  MemoryPlan plan_;
  detail::Execution<Device> execution_;
  std::vector<AnyTensor> shared_;  // constants that are used where they are
  std::vector<Input> inputs_;
  std::map<std::string, std::size_t, std::less<>> input_places_;
  std::vector<InputMemory> input_memory_;  // by address; no two overlap
  std::optional<detail::IndexLimits> limits_;
  std::vector<Step<Device>> steps_;
  AnyTensor result_;
  std::size_t bytes_ = 0;
  std::atomic<bool> busy_{false};
  std::vector<std::byte*> memory_;  // by node
};

template <DeviceTag Device>
void Executable<Device>::check_tensor(const char* what, const std::string& name, const AnyTensor& tensor,
                                      const TensorType& type) {
  if (tensor.dtype() == type.dtype && tensor.sizes() == type.shape) return;
  const std::string text = std::string(what) + " " + tenon::detail::quoted_text(name) + " is " +
                           type_text({tensor.dtype(), tensor.sizes()}) + ", but the graph has " + type_text(type);
  if (tensor.dtype() != type.dtype) throw DTypeError(text);
  throw ShapeError(text);
}

template <DeviceTag Device>
Executable<Device>::Executable(Context<Device>& ctx, const Graph& source, const TensorMap& constants,
                               const CompileOptions<Device>& options)
    : graph_(run_passes(source, options.passes)), execution_(ctx) {
  for (const auto& [name, tensor] : constants) {
    const Node* node = source.find(name);
    if (node == nullptr || node->kind != NodeKind::constant_tensor) {
      throw ValueError("compile: the graph has no constant " + tenon::detail::quoted_text(name));
    }
    check_tensor("compile: constant", name, tensor, node->type);
  }
  for (const Node& node : source.nodes()) {
    if (node.kind == NodeKind::constant_tensor && !constants.contains(node.name)) {
      throw ValueError("compile: constant " + tenon::detail::quoted_text(node.name) + " is missing");
    }
  }

  std::vector<Subgraph<Device>> subgraphs;
  if (options.backend) subgraphs = options.backend->claim(ctx, graph_);
  std::vector<NodeId> runs_at(graph_.size());  // the node at whose place another one runs
  for (NodeId id = 0; id < graph_.size(); ++id) runs_at[id] = id;
  std::vector<bool> external(graph_.size(), false);
  std::size_t workspace_bytes = 0;
  for (const Subgraph<Device>& subgraph : subgraphs) {
    workspace_bytes = std::max(workspace_bytes, align_up(subgraph.workspace, MemoryPlan::alignment));
    for (const NodeId id : subgraph.nodes) {
      runs_at[id] = subgraph.output();
      external[id] = id != subgraph.output();
    }
  }

  memory_.assign(graph_.size(), nullptr);
  std::size_t literals = 0;
  for (NodeId id = 0; id < graph_.size(); ++id) {
    const Node& node = graph_[id];
    if (Lowering<Device>::has_literal(node)) ++literals;
    if (node.kind != NodeKind::constant_tensor) continue;
    const AnyTensor& tensor = constants.find(node.name)->second;
    if (detail::Execution<Device>::reads(ctx, tensor)) {
      external[id] = true;
      memory_[id] = const_cast<std::byte*>(tensor.data());  // no step writes a constant
      shared_.push_back(tensor);
    }
  }

  plan_ = plan_memory(graph_, external, runs_at);
  const std::size_t literal_bytes = align_up(literals * sizeof(std::int64_t), MemoryPlan::alignment);
  bytes_ = plan_.bytes + literal_bytes + workspace_bytes;
  if (options.memory_budget != 0 && bytes_ > options.memory_budget) {
    throw Error("compile: the graph needs " + std::to_string(bytes_) + " bytes, " +
                std::to_string(plan_.persistent_bytes) + " of them for constants and buffers, and the budget is " +
                std::to_string(options.memory_budget));
  }
  std::byte* const arena = execution_.allocate(bytes_);
  for (const Slot& slot : plan_.slots) {
    memory_[slot.node] = arena + slot.offset;
    const Node& node = graph_[slot.node];
    if (node.kind == NodeKind::constant_tensor)
      execution_.upload(memory_[slot.node], constants.find(node.name)->second);
    if (node.kind == NodeKind::input_tensor) {
      input_places_.emplace(node.name, inputs_.size());
      inputs_.push_back({node.name, node.type, execution_.host_input(memory_[slot.node], node.type)});
      const std::byte* const host = inputs_.back().host.data();
      for (const std::byte* const begin : {host, static_cast<const std::byte*>(memory_[slot.node])}) {
        input_memory_.push_back({begin, begin + node.type.bytes(), inputs_.size() - 1});
        if (host == memory_[slot.node]) break;
      }
    }
  }

  std::sort(input_memory_.begin(), input_memory_.end(),
            [](const InputMemory& a, const InputMemory& b) { return std::less<>{}(a.begin, b.begin); });

  auto* const literal_data = reinterpret_cast<std::int64_t*>(arena + plan_.bytes);
  std::vector<std::int64_t> literal_values;
  for (const Node& node : graph_.nodes()) {
    if (Lowering<Device>::has_literal(node)) literal_values.push_back(node.numbers[0]);
  }
  if (!literal_values.empty()) {
    Context<Cpu> host(1);
    const auto values = tenon::empty<std::int64_t>(host, {static_cast<std::int64_t>(literal_values.size())});
    values.load(host, literal_values);
    execution_.upload(arena + plan_.bytes, values);
  }
  execution_.upload_done();

  Lowering<Device> lowering(graph_, memory_, literal_data);
  std::byte* const workspace = arena + plan_.bytes + literal_bytes;
  auto next = subgraphs.begin();
  for (NodeId id = 0; id < graph_.size(); ++id) {
    if (next != subgraphs.end() && next->output() == id) {
      std::vector<std::byte*> data;
      for (const NodeId input : next->inputs) data.push_back(lowering.data(input));
      data.push_back(lowering.data(id));
      lowering.add([run = std::move(next->run), data = std::move(data), workspace](Context<Device>& run_ctx) {
        run(run_ctx, data, workspace);
      });
      ++next;
    } else if (runs_at[id] == id) {
      detail::lower(lowering, id);
    }
  }
  steps_ = lowering.take_steps();
  limits_.emplace(graph_, [&](const std::string& name) { return input(name).data(); });
  const NodeId last = graph_.result();
  const Place& place = lowering.place(last);
  const TensorType& type = graph_[last].type;
  result_ = detail::tensor_at<Device>(execution_.storage(), lowering.data(last), type.dtype, type.shape, place.strides);
}

/// Inputs are written one after the other: a tensor in the memory of another one could be overwritten before it is read.
template <DeviceTag Device>
void Executable<Device>::check_apart(std::size_t input, const AnyTensor& tensor) const {
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t i = 0; i < tensor.sizes().size(); ++i) {
    const std::int64_t reach = (tensor.sizes()[i] - 1) * tensor.strides()[i];
    (reach < 0 ? low : high) += reach;
  }
  const auto size = static_cast<std::int64_t>(dtype_size(tensor.dtype()));
  const auto* const begin = tensor.data() + low * size;
  const auto* const end = tensor.data() + (high + 1) * size;
  constexpr std::less<> before;
  auto at = std::upper_bound(
      input_memory_.begin(), input_memory_.end(), begin,
      [&](const std::byte* address, const InputMemory& memory) { return before(address, memory.end); });
  for (; at != input_memory_.end() && before(at->begin, end); ++at) {
    if (at->input == input && tensor.data() == at->begin && tensor.is_contiguous()) continue;  // the input itself
    throw ValueError("evaluate: input " + tenon::detail::quoted_text(inputs_[input].name) +
                     " is given a tensor in the memory of input " +
                     tenon::detail::quoted_text(inputs_[at->input].name) + "; give it a copy");
  }
}

template <DeviceTag Device>
void Executable<Device>::run(Context<Device>& ctx) {
  const Use use(busy_);
  run_locked(ctx);
}

template <DeviceTag Device>
const AnyTensor& Executable<Device>::evaluate(Context<Device>& ctx, const TensorMap& inputs) {
  const Use use(busy_);
  for (const auto& [name, tensor] : inputs) {
    const std::size_t i = find_input(name);
    check_tensor("evaluate: input", name, tensor, inputs_[i].type);
    if (tensor.device() == DeviceKind::cuda && std::same_as<Device, Cpu>) {
      throw DeviceError("evaluate: input " + tenon::detail::quoted_text(name) +
                        " is on cuda, and the graph runs on cpu");
    }
    check_apart(i, tensor);
  }
  for (const Input& input : inputs_) {
    if (!inputs.contains(input.name))
      throw ValueError("evaluate: input " + tenon::detail::quoted_text(input.name) + " is missing");
  }
  try {
    for (const auto& [name, tensor] : inputs) {
      const std::size_t i = find_input(name);
      execution_.set_input(ctx, i, inputs_[i].host, tensor);
    }
    run_locked(ctx);
  } catch (...) {
    execution_.forget_inputs();
    throw;
  }
  return result_;
}

template <DeviceTag Device>
AnyTensor Executable<Device>::buffer(std::string_view name) const {
  const Node* node = graph_.find(name);
  if (node == nullptr || node->kind != NodeKind::buffer_tensor) {
    throw ValueError("graph: there is no buffer " + tenon::detail::quoted_text(name));
  }
  const auto id = static_cast<NodeId>(node - graph_.nodes().data());
  const Place place = detail::own_place(id, node->type);
  return detail::tensor_at<Device>(execution_.storage(), memory_[id], node->type.dtype, node->type.shape,
                                   place.strides);
}

template <DeviceTag Device>
void Executable<Device>::reset_buffers(Context<Device>& ctx) {
  const Use use(busy_);
  ctx.synchronize();
  for (const Slot& slot : plan_.slots) {
    if (graph_[slot.node].kind == NodeKind::buffer_tensor) execution_.clear(memory_[slot.node], slot.bytes);
  }
}

}  // namespace graph
TENON_NAMESPACE_END
