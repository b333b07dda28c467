#pragma once

#include "program/nodes.h"
#include "program/program.h"

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// A Program's graph as it is stored: without what needs this process.
///
///     tracehost::data(t) ...                  prim::data, and other ops that PyTorch has, too
///     tracehost::raise_error("m:Mine", ...)   prim::RaiseException, unless the class is Python's
///     own a Scalar that is an int                 aten::Int of it: a reader knows types by schemas
///     autocast regions                        nothing: their casts are in the graph
///
/// Rejected, with name and line: calls of Python, the autograd engine, modes that no file sets.
/// What plain TorchScript lacks besides: torchscript.h.

namespace tracehost::archive {

struct Lowered {
  std::shared_ptr<torch::jit::Graph> graph;
  /// Constants that can't be stored as such: further inputs, behind the captures.
  std::vector<at::Tensor> constants;
  std::vector<std::string> libraries; ///< whose ops it has besides PyTorch's: `torchvision`
  bool sets_modes = false;            ///< it switches grad mode
  c10::Device device = at::kCPU;      ///< of its device constants: the first that is not the CPU
};

/// `autocast`: it was traced under autocast. `places`: whether nodes keep the user's lines. Throws
/// Error; its text starts with `what`.
Lowered lower(const Program &program, bool autocast, bool places, const std::string &what);

/// Of lower(), in lower_check.cpp. Throws Error for nodes that no file has, with name and line.
/// `autocast`: the graph was traced under it.
void check(torch::jit::Graph &graph, bool autocast, const std::string &what);
/// Throws Error: `what` can't be saved, because of `name` at the node's line.
[[noreturn]] void reject(const std::string &what, const torch::jit::Node &node,
                         std::string_view name, std::string_view reason);
/// Whether the node switches autocast.
bool is_autocast(const torch::jit::Node &node);

/// Puts TorchScript's exception, with the class, in place of a tracehost::raise_error.
void raise_by_torchscript(torch::jit::Node *node);
/// Undefined unless the node is a constant that is a tensor.
at::Tensor constant_tensor(const torch::jit::Node &node);
/// Whether tracehost::raise_error may raise `builtins:ValueError`, say: nothing else of Python is
/// called because an archive names it.
bool is_exception(std::string_view name);

} // namespace tracehost::archive
