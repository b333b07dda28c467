#pragma once

#include "program/nodes.h"
#include "program/program.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// A Program's graph in ops that plain PyTorch has, and that survive being printed as TorchScript.
///
///     tracehost::array_write(...)     a few nodes on a list, where a tensor on the device `meta`
///                                     stands for an element that is not written
///     tracehost::keep(t)              a branch on t.dim() < 0: `t` is computed
///     tracehost::raise_error(...)     prim::RaiseException with the class
///     mul(x, 0-dim number 0.5)        mul(x, 0.5): a number stored as a tensor is read again as a
///                                     tensor, which weighs more in type promotion
///
/// Rejected, with name and line: calls of Python, the autograd engine, modes that no op switches.

namespace tracehost::archive {

struct Lowered {
  std::shared_ptr<torch::jit::Graph> graph;
  /// Constants that can't be stored as such: further inputs, behind the captures.
  std::vector<at::Tensor> constants;
  std::vector<std::string> libraries; ///< whose ops it has besides PyTorch's: `torchvision`
  bool sets_modes = false;            ///< it switches grad mode
  c10::Device device = at::kCPU;      ///< of its device constants: the first that is not the CPU
};

/// `outputs`: how many of the graph's outputs are the function's. `autocast`: it was traced under
/// autocast. `places`: whether nodes keep the user's lines. Throws Error; its text starts with
/// `what`.
Lowered lower(const Program &program, std::size_t outputs, bool autocast, bool places,
              const std::string &what);

/// Of lower(), in lower_check.cpp. Throws Error for nodes that no op of TorchScript can stand for,
/// with name and line. `autocast`: the graph was traced under it.
void check(torch::jit::Graph &graph, bool autocast, const std::string &what);
/// Throws Error: `what` can't be saved, because of `name` at the node's line.
[[noreturn]] void reject(const std::string &what, const torch::jit::Node &node,
                         std::string_view name, std::string_view reason);
/// Whether the node switches autocast.
bool is_autocast(const torch::jit::Node &node);

/// Undoes lower() for a graph that was read: restores the ops of tracehost that lower() replaced,
/// and the user's lines. `place` maps a range of the stored source to the user's line, `net.py:12`;
/// empty: unknown.
void raise(torch::jit::Graph &graph,
           const std::function<std::string(const torch::jit::SourceRange &)> &place);

} // namespace tracehost::archive
