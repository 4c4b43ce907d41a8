// Compiling, evaluating and printing, for every device. run_cpu.cpp and run_cuda.cpp instantiate it.
#pragma once

#include <algorithm>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <tenon/graph/dot.hpp>
#include <tenon/graph/executable.hpp>
#include <tenon/graph/passes.hpp>
#include <tenon/graph/print.hpp>
#include <tenon/tensor/print.hpp>

#include "graph/options.hpp"
#include "graph/tensors.hpp"

namespace graph_program {

/// Scripts are printed with comments, so that they remain scripts.
inline void print_section(std::string_view title, const std::string& text) {
  std::printf("# %s\n%s\n", std::string(title).c_str(), text.c_str());
}

/// "12.3 ms".
inline std::string duration_text(double seconds) {
  const char* unit = seconds >= 1 ? "s" : seconds >= 1e-3 ? "ms" : "us";
  const double scaled = seconds >= 1 ? seconds : seconds >= 1e-3 ? seconds * 1e3 : seconds * 1e6;
  char text[32];
  std::snprintf(text, sizeof text, "%.4g %s", scaled, unit);
  return text;
}

template <class Body>
double seconds_of(Body&& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

template <tenon::DeviceTag Device>
std::string result_text(tenon::Context<Device>& ctx, const tenon::AnyTensor& result) {
  if constexpr (std::same_as<Device, tenon::Cpu>) {
    return to_string(result.contiguous(ctx));
  } else {
    return to_string(result.cpu(ctx));
  }
}

/// Says which int64 inputs are random, since a node that refuses its indices cannot know that.
inline std::string random_indices(const Options& options, const tenon::graph::Graph& graph) {
  std::string names;
  for (const Node& node : graph.nodes()) {
    if (node.kind != NodeKind::input_tensor || node.type.dtype != tenon::DType::int64) continue;
    if (given_for(options, node) != nullptr) continue;
    names += names.empty() ? "'" : ", '";
    names += node.name;
    names += '\'';
  }
  return names.empty() ? names : "; random, for lack of --input or --fill: " + names;
}

/// `processor` says what computes. What the backend has to say is printed after compiling.
template <tenon::DeviceTag Device, class Report>
void run(tenon::Context<Device>& ctx, const std::string& processor, const Options& options,
         const tenon::graph::Graph& graph, const tenon::graph::CompileOptions<Device>& compile_options,
         Report&& report) {
  if (options.dot) {
    std::printf("%s", to_dot(tenon::graph::run_passes(graph)).c_str());
    return;
  }
  if (options.print) print_section("the graph", print(graph));
  if (options.passes) {
    std::string before = print(graph);
    static_cast<void>(
        tenon::graph::run_passes(graph, {}, [&](std::string_view pass, const tenon::graph::Graph& changed) {
          std::string after = print(changed);
          const std::string title = "after the pass: " + std::string(pass);
          if (after == before) {
            std::printf("# %s, which changed nothing\n\n", title.c_str());
          } else {
            print_section(title, after);
          }
          before = std::move(after);
        }));
  }
  const auto constants = tensors(options, graph, NodeKind::constant_tensor);
  const auto inputs = tensors(options, graph, NodeKind::input_tensor);
  const auto start = std::chrono::steady_clock::now();
  tenon::graph::Executable<Device> executable(ctx, graph, constants, compile_options);
  const double compiling = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (options.plan) {
    print_section("the graph after all passes", print(executable.graph()));
    print_section("memory", executable.plan().text(executable.graph()));
  }
  report();
  try {
    std::printf("%s\n", result_text(ctx, executable.evaluate(ctx, inputs)).c_str());
  } catch (const tenon::ValueError& error) {
    throw tenon::ValueError(error.what() + random_indices(options, graph));
  }
  if (options.time == 0) return;
  std::vector<double> times;
  for (std::int64_t i = 0; i < options.time; ++i) times.push_back(seconds_of([&] { executable.run(ctx); }));
  std::sort(times.begin(), times.end());
  std::printf("\ncompute   %s\ncompile   %s, %zu steps, %zu bytes\nevaluate  %s (median of %zu, the fastest %s)\n",
              processor.c_str(), duration_text(compiling).c_str(), executable.steps(), executable.bytes(),
              duration_text(times[times.size() / 2]).c_str(), times.size(), duration_text(times.front()).c_str());
}

}  // namespace graph_program
