#pragma once

#include "guards/gil.h"
#include "signature/signature.h"
#include "signature/tensor_spec.h"

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <unordered_map>
#include <utility>
#include <vector>

namespace tracehost::python {

/// The tensors of a trace that runs nothing: a request made of specs.
///
/// Problem: the body must run, as only it knows the ops, but must change no tensor, and a spec has
/// none. Answer: torch's FakeTensorMode, around the body: tensors with a dtype, sizes and a device,
/// but no data. A TensorSpec among the arguments is replaced by one of them, with a size in place
/// of None. Real tensors (arguments, captures) stay what the body sees; the op hook puts a *twin*
/// without data in place of each before an op runs, so that no op writes to the real one, nor to
/// its version or its gradient's history.
///
///     f(TensorSpec([None, 3]))     body:  w.add_(x.sum())   # x: FakeTensor [127, 3], w: a capture
///                                  op:    add_(twin of w, FakeTensor [])
///
/// Requires for every member: GIL held.
class StandIns {
public:
  /// `maker`: a `tracehost._stand_ins.Maker`; kept. `mode()` gives its FakeTensorMode, asked for
  /// when one is needed first (torch imports much for it), `tensor(spec)` a stand-in.
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

  /// The twin of a tensor with data.
  at::Tensor twin(const at::Tensor &tensor);

  /// Whether objects of this class only stand for tensors.
  static bool is_class(PyTypeObject *type);
  /// Whether the frame belongs to the code by which torch runs ops without data.
  static bool is_code_of_ops(PyFrameObject *frame);

  /// While one lives, Python code that runs on this thread makes stand-ins: it is not the body's.
  class AtWork {
  public:
    AtWork();
    ~AtWork();
    AtWork(const AtWork &) = delete;
    AtWork &operator=(const AtWork &) = delete;
    static bool any();

  private:
    bool before_;
  };

  /// The mode is on for a block. A Python error that is set there stays set.
  class Entered {
  public:
    explicit Entered(StandIns *stand_ins); ///< null: none
    ~Entered();
    Entered(const Entered &) = delete;
    Entered &operator=(const Entered &) = delete;

  private:
    PyObject *mode_ = nullptr;
  };

private:
  PyObject *mode();

  PyObject *maker_;
  PyObject *mode_ = nullptr;
  bool open_ = false;
  struct Argument {
    at::Tensor fake;
    TensorMeta meta; ///< of what it stands for
    std::string name;
  };
  const Argument *argument(PyObject *tensor) const;
  std::unordered_map<const c10::TensorImpl *, Argument> arguments_;
  std::unordered_map<const c10::TensorImpl *, std::pair<at::Tensor, at::Tensor>> twins_;
};

} // namespace tracehost::python
