#pragma once

#include <Python.h>

namespace tracehost::python {

/// While one lives, `isinstance(n, torch.Tensor)` is False for a traced number, as it is for the
/// number that eager has there.
///
/// Problem: a traced number is a tensor to torch's C code, which asks PyObject_IsInstance, and must
/// be none to Python code. Answer: an `__instancecheck__` of torch.Tensor's class that says no
/// while the builtin isinstance is called, and what `type` says otherwise. It is there only while a
/// trace is under way: it costs each isinstance of another tensor class some 50 ns.
///
/// Requires for all: GIL held.
class InstanceCheck {
public:
  InstanceCheck();
  ~InstanceCheck();
  InstanceCheck(const InstanceCheck &) = delete;
  InstanceCheck &operator=(const InstanceCheck &) = delete;

  /// This thread calls a C function, or is back from one.
  static void calls(PyObject *function);
  static void returns();
  /// An instruction comes. `matches`: a class pattern of `match`, which asks as isinstance does.
  static void comes(bool matches);
};

} // namespace tracehost::python
