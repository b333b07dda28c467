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
/// none. Answer: a TensorSpec among the arguments is replaced by a fake tensor
/// (shapes/fake_tensor.h), with a size in place of None, and the body runs without data. Real
/// tensors (arguments, captures) stay what the body sees. The op hook puts the twin of each in its
/// place before an op runs. So no op writes to the real one, nor to its version or its gradient's
/// history.
///
///     f(TensorSpec([None, 3]))     body:  w.add_(x.sum())   # x: fake tensor [127, 3], w: a
///     capture
///                                  op:    add_(twin of w, fake tensor [])
///
/// Requires for every member: GIL held.
class FakeTensors {
public:
  /// `maker`: a `tracehost._traced.fake_tensors.Maker`; kept. `tensor(spec)` gives a fake tensor.
  explicit FakeTensors(PyObject *maker);
  ~FakeTensors();
  FakeTensors(const FakeTensors &) = delete;
  FakeTensors &operator=(const FakeTensors &) = delete;

  /// A value of a call with a fake tensor in place of each TensorSpec in it.
  Owned replace(PyObject *value);
  /// Puts what they stand for in place of the slots that are fake tensors. `tensors`: by slot.
  void describe(Signature &signature, const std::vector<PyObject *> &tensors) const;
  /// The names of their specs, by slot; empty: it has none.
  std::vector<std::string> names(const std::vector<PyObject *> &tensors) const;
  /// Whether some size is any.
  bool open() const { return open_; }

private:
  /// torch's factories start the device that they are asked for. A trace without data needs none.
  class NoDeviceNeeded {
  public:
    NoDeviceNeeded();
    ~NoDeviceNeeded();
    NoDeviceNeeded(const NoDeviceNeeded &) = delete;
    NoDeviceNeeded &operator=(const NoDeviceNeeded &) = delete;

  private:
    const bool is_missing_; ///< where there is one, it is started
  };

  NoDeviceNeeded no_device_needed_;
  PyObject *maker_;
  bool open_ = false;
  struct Argument {
    at::Tensor fake_tensor;
    TensorMeta meta; ///< of what it stands for
    std::string name;
  };
  const Argument *argument(PyObject *tensor) const;
  std::unordered_map<const c10::TensorImpl *, Argument> arguments_;
};

void add_fake_tensors(pybind11::module_ &module);

} // namespace tracehost::python
