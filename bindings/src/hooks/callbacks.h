#pragma once

#include "program/callback.h"

#include <Python.h>
#include <pybind11/pybind11.h>
#include <torch/csrc/jit/ir/ir.h>

#include <vector>

/// Python code that a graph calls: what tracehost/_python_ops/py_function.py is made of.

namespace tracehost::python {

/// Calls a Python object with the list of the tensors, for a list of tensors.
class PythonCallback final : public Callback {
public:
  /// Requires: GIL held.
  PythonCallback(std::string name, std::vector<Result> results, PyObject *object);
  ~PythonCallback() override;
  std::vector<at::Tensor> call(std::vector<at::Tensor> inputs) override;

  /// For the garbage collector: the object, unless something other than its Program may call it,
  /// a copy of the graph or a run under way. Requires: GIL held.
  int traverse(visitproc visit, void *arg) const;

private:
  PyObject *object_; ///< strong
};

/// Those that nodes in `block` call, borrowed.
std::vector<const PythonCallback *> callbacks_of(const torch::jit::Block &block);

void add_callbacks(pybind11::module_ &module);

} // namespace tracehost::python
