#pragma once

#include <torch/csrc/jit/ir/irparser.h>

#include <memory>

namespace tracehost::test {

/// A graph of one input that adds 1 to it in place, without end.
inline std::shared_ptr<torch::jit::Graph> endless() {
  auto graph = std::make_shared<torch::jit::Graph>();
  torch::jit::parseIR(R"IR(graph(%x : Tensor):
  %turns : int = prim::Constant[value=9000000000000000000]()
  %on : bool = prim::Constant[value=1]()
  %one : int = prim::Constant[value=1]()
  prim::Loop(%turns, %on)
    block0(%i : int):
      %y : Tensor = aten::add_(%x, %one, %one)
      -> (%on)
  return (%x))IR",
                      graph.get());
  return graph;
}

} // namespace tracehost::test
