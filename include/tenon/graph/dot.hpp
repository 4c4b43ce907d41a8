// to_dot: a graph as Graphviz text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <tenon/core/config.hpp>
#include <tenon/graph/graph.hpp>
#include <tenon/graph/print.hpp>

TENON_NAMESPACE_BEGIN
namespace graph {
namespace detail {

/// A string of the DOT language, in quotes. Line ends become `\n`, the break between centred lines.
[[nodiscard]] inline std::string dot_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

[[nodiscard]] inline std::string_view dot_shape(NodeKind kind) {
  switch (kind) {
    case NodeKind::input_tensor: return "invhouse";
    case NodeKind::constant_tensor: return "note";
    case NodeKind::buffer_tensor: return "cylinder";
    case NodeKind::replace_slice: return "cds";
    case NodeKind::pointwise:
    case NodeKind::matmul_pointwise: return "component";
    default: break;
  }
  return rule_of(kind).is_view ? "parallelogram" : rule_of(kind).is_pointwise ? "ellipse" : "box";
}

/// What the label says beside kind and type: the name, the program, the numbers.
[[nodiscard]] inline std::string dot_details(const Node& node) {
  if (!node.name.empty()) return " " + node.name;
  if (!node.program.empty()) return " " + program_text(node.program);
  return node.numbers.empty() ? "" : " " + shape_text(node.numbers);
}

}  // namespace detail

/// A digraph in the DOT language, to be drawn by `dot -Tsvg`: every node with its number, kind, name or numbers, and type.
/// Edges go from an operand to the nodes that use it, in the order of operands, numbered from 0 where there are several.
/// The result has a double outline.
[[nodiscard]] inline std::string to_dot(const Graph& graph) {
  std::string text = "digraph tenon {\n  ordering=in;\n";
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    const bool is_result = graph.has_result() && graph.result() == id;
    const std::string label = detail::reference_text(id) + " " + std::string(rule_of(node.kind).name) +
                              detail::dot_details(node) + "\n" + type_text(node.type);
    text += "  n" + std::to_string(id + 1) + " [label=" + detail::dot_string(label) +
            ", shape=" + std::string(detail::dot_shape(node.kind)) + (is_result ? ", peripheries=2" : "") + "];\n";
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      text += "  n" + std::to_string(node.operands[i] + 1) + " -> n" + std::to_string(id + 1);
      if (node.operands.size() > 1) text += " [headlabel=\"" + std::to_string(i) + "\"]";
      text += ";\n";
    }
  }
  return text + "}\n";
}

}  // namespace graph
TENON_NAMESPACE_END
