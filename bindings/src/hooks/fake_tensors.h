#pragma once

#include "base/object.h"
#include "signature/signature.h"
#include "signature/tensor_spec.h"

#include <ATen/core/Tensor.h>
#include <Python.h>
#include <pybind11/pybind11.h>

#include <string>
#include <unordered_map>
#include <vector>

namespace tracehost::python {

/// The tensors of a trace that runs nothing: a request made of specs.
///
/// Problem: the body must run, as only it knows the ops, but must change no tensor, and a spec has
/// none. Answer: a TensorSpec among the arguments is replaced by a stand-in (shapes/stand_in.h),
/// with a size in place of None, and the body runs without data. Real tensors (arguments, captures)
/// stay what the body sees. The op hook puts the twin of each in its place before an op runs. So no
/// op writes to the real one, nor to its version or its gradient's history.
///
///     f(TensorSpec([None, 3]))     body:  w.add_(x.sum())   # x: stand-in [127, 3], w: a capture
///                                  op:    add_(twin of w, stand-in [])
///
/// Requires for every member: GIL held.
class StandIns {
public:
  /// `maker`: a `tracehost._traced.stand_ins.Maker`; kept. `tensor(spec)` gives a stand-in.
  explicit StandIns(PyObject *maker);
  ~StandIns();
  StandIns(const StandIns &) = delete;
  StandIns &operator=(const StandIns &) = delete;

  /// A value of a call with a stand-in in place of each TensorSpec in it.
  Owned replace(PyObject *value);
  /// Puts what they stand for in place of the slots that are stand-ins. `tensors`: by slot.
  void describe(Signature &signature, const std::vector<PyObject *> &tensors) const;
  /// The names of their specs, by slot; empty: it has none.
  std::vector<std::string> names(const std::vector<PyObject *> &tensors) const;
  /// Whether some size is any.
  bool open() const { return open_; }

private:
  PyObject *maker_;
  bool open_ = false;
  struct Argument {
    at::Tensor stand_in;
    TensorMeta meta; ///< of what it stands for
    std::string name;
  };
  const Argument *argument(PyObject *tensor) const;
  std::unordered_map<const c10::TensorImpl *, Argument> arguments_;
};

/// Whether a Python object is a stand-in.
bool is_stand_in(PyObject *object);

void add_stand_ins(pybind11::module_ &module);

} // namespace tracehost::python
