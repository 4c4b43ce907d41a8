// Random graphs that are sound, of every kind of node: the same for the same engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <tenon/core/error.hpp>
#include <tenon/graph/graph.hpp>

namespace tenon_test {

/// Draws nodes until `nodes` of them fit. Sizes are small, so that shapes often fit each other.
class RandomGraph {
 public:
  explicit RandomGraph(std::mt19937& engine) : engine_(engine) {}

  tenon::graph::Graph operator()(std::size_t nodes) {
    graph_ = {};
    for (int i = 0; i < 3; ++i) graph_.add(tensor());
    index_ = graph_.add({.kind = NodeKind::input_tensor, .type = {tenon::DType::int64, {1}}, .name = "index"});
    while (graph_.size() < nodes) {
      try {
        graph_.add(node());
      } catch (const tenon::Error&) {
        continue;  // it did not fit: another one
      }
    }
    graph_.set_result(id());
    return graph_;
  }

 private:
  using Node = tenon::graph::Node;
  using NodeId = tenon::graph::NodeId;
  using NodeKind = tenon::graph::NodeKind;

  std::int64_t number(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(engine_);
  }
  NodeId id() { return static_cast<NodeId>(number(0, static_cast<std::int64_t>(graph_.size()) - 1)); }

  Node tensor() {
    Node node{.kind = static_cast<NodeKind>(number(0, 2))};
    node.name = (number(0, 1) == 0 ? "t" : "_T") + std::to_string(graph_.size());
    constexpr tenon::DType types[]{tenon::DType::float32, tenon::DType::float32, tenon::DType::float16,
                                   tenon::DType::bfloat16, tenon::DType::int64};
    node.type.dtype = types[number(0, 4)];
    for (std::int64_t rank = number(1, 3); rank > 0; --rank) node.type.shape.push_back(number(1, 3));
    return node;
  }

  std::vector<tenon::PointwiseStep> program(std::size_t operands) {
    using tenon::PointwiseCode;
    std::vector<tenon::PointwiseStep> steps;
    for (std::size_t i = 0; i < operands; ++i) {
      steps.push_back({PointwiseCode::load, static_cast<std::uint8_t>(i)});
      if (i > 0) steps.push_back({static_cast<PointwiseCode>(number(1, 3))});
      if (number(0, 2) == 0) steps.push_back({static_cast<PointwiseCode>(number(4, 5))});
    }
    return steps;
  }

  Node node() {
    Node node{.kind = static_cast<NodeKind>(number(0, tenon::graph::node_kinds - 1))};
    if (tenon::graph::is_named_tensor(node.kind)) return tensor();
    const tenon::graph::NodeRule& rule = tenon::graph::rule_of(node.kind);
    auto count = static_cast<std::size_t>(rule.operands < 0 ? number(1, 4) : rule.operands);
    const NodeId first = id();
    const tenon::graph::Shape shape = graph_[first].type.shape;
    switch (node.kind) {
      case NodeKind::slice: node.numbers = {number(0, shape[0] - 1), number(1, shape[0])}; break;
      case NodeKind::reshape:
        node.numbers = {number(1, 4), graph_[first].type.numel() / number(1, 4)};
        if (number(0, 1) == 0) node.numbers.push_back(number(1, 3));
        break;
      case NodeKind::permute:
        for (std::size_t i = 0; i < shape.size(); ++i) node.numbers.push_back(number(0, 2));
        break;
      case NodeKind::sliced_softmax:
        if (number(0, 1) == 0) {
          node.numbers = {number(0, shape.back())};
          --count;
        }
        break;
      case NodeKind::pointwise: node.program = program(count); break;
      case NodeKind::matmul_pointwise: node.program = program(count > 1 ? count - 1 : 1); break;
      default: break;
    }
    node.operands.push_back(first);
    while (node.operands.size() < count) {
      const bool is_index = node.operands.size() >= 2 && node.kind == NodeKind::replace_slice;
      node.operands.push_back(is_index ? index_ : number(0, 2) == 0 ? first : id());
    }
    return node;
  }

  std::mt19937& engine_;
  tenon::graph::Graph graph_;
  NodeId index_ = 0;
};

}  // namespace tenon_test
