#pragma once

#include "environment/recorder.h"

#include <Python.h>

namespace tracehost::python {

/// A C profile function for the current thread and one trace: tells the Recorder which code runs,
/// and refuses backward() and optimizers' code at the call. The user's profiler, if any, is called
/// as well. Requires: GIL held.
class Profile {
public:
  explicit Profile(Recorder &recorder);
  ~Profile();
  Profile(const Profile &) = delete;
  Profile &operator=(const Profile &) = delete;

private:
  static int on_event(PyObject *self, PyFrameObject *frame, int what, PyObject *arg);
  void on_call(PyFrameObject *frame);
  void check_python_call(PyFrameObject *frame);
  void check_c_call(PyObject *function);

  Recorder &recorder_;
  PyFrameObject *importing_ = nullptr; ///< the module body under way, borrowed: what it runs fills
                                       ///< new modules, and is not what the traced body depends on
  Py_tracefunc previous_;
  PyObject *previous_object_; ///< strong, or null
};

} // namespace tracehost::python
