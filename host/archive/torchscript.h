#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

/// The TorchScript that stands in an archive beside its graphs: `torch.jit.load` opens it,
/// tracehost never reads it.
///
///     one method for each graph; `forward` is the first one
///     attributes: captures are parameters and buffers; a graph's constants are plain attributes
///
/// What TorchScript's text lacks is replaced (torchscript_ops.cpp):
///
///     tracehost::array_write(...)     a few nodes on a list, where a tensor on the device `meta`
///                                     stands for an element that is not written
///     tracehost::keep(t)              a branch on t.dim() < 0: `t` is computed
///     tracehost::raise_error(...)     prim::RaiseException with the class
///     mul(x, 0-dim number 0.5)        mul(x, 0.5): a number stored as a tensor is read again as a
///                                     tensor, which weighs more in type promotion
///
/// A graph that can't be printed, or whose text does not compile, has no method.

namespace tracehost::archive {

/// Replaces what TorchScript lacks. Throws Error, which says what it can't have.
void lower_to_torchscript(torch::jit::Graph &graph);

class TorchScriptCopy {
public:
  enum class Role : std::uint8_t { parameter, buffer, constant };

  TorchScriptCopy();

  /// In the order in which the file's table has them.
  void add_tensor(const std::string &name, const at::Tensor &tensor, Role role);

  /// A method for the graph, whose inputs are arguments, and behind them tensors of these names.
  /// `name_of`: of a constant that is an attribute; empty: it is none. Returns why there is no
  /// method; empty: there is one.
  std::string add_method(const std::string &name, torch::jit::Graph &graph,
                         const std::vector<std::string> &arguments,
                         const std::vector<std::string> &tensors,
                         const std::function<std::string(const at::Tensor &)> &name_of);
  /// What plain PyTorch calls: the method, if it is there.
  void add_forward(const std::string &method);

  const torch::jit::Module &module() const { return module_; }

private:
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;
};

} // namespace tracehost::archive
