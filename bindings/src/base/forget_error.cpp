#include "base/forget_error.h"

#include "base/frame.h"
#include "base/object.h"

#include <csignal>
#include <utility>

namespace tracehost::python {
namespace {

bool is_signal(PyObject *value) {
  if (!PyLong_Check(value))
    return false;
  int overflow = 0;
  const long number = PyLong_AsLongAndOverflow(value, &overflow);
  return overflow == 0 && number > 0 && number < NSIG;
}

/// Whether the frame is a call of a signal's handler: `def handler(number, frame)`, a method, or
/// `def handler(*args)`. Its f_locals are not asked for: they would keep what the variables hold.
bool is_handler(PyFrameObject *object) {
  const Owned caller(reinterpret_cast<PyObject *>(PyFrame_GetBack(object)));
  const Frame &frame = *frame_of(object);
  const PyCodeObject *code = frame.code;
  if (!caller)
    return false;
  bool has_number = false, has_frame = false;
  const auto look = [&](PyObject *value) {
    if (value && PyCell_Check(value))
      value = PyCell_GET(value);
    has_frame |= value == caller.get();
    has_number |= value && is_signal(value);
  };
  for (int i = 0; i < code->co_argcount; ++i)
    look(frame.variables[i]);
  if (code->co_flags & CO_VARARGS) {
    PyObject *rest = frame.variables[code->co_argcount + code->co_kwonlyargcount];
    for (Py_ssize_t i = 0; rest && PyTuple_Check(rest) && i < PyTuple_GET_SIZE(rest); ++i)
      look(PyTuple_GET_ITEM(rest, i));
  }
  return has_number && has_frame;
}

// Guarded by the GIL.
int later = 0;            ///< how many SignalsLater live
PyObject *held = nullptr; ///< the first error that waits for their end; strong

/// Called by Python between two instructions of the main thread.
int raise_again(void *given) {
  Owned error(static_cast<PyObject *>(given));
  if (later) {
    if (!held)
      held = error.release();
    return 0;
  }
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.get())), error.get());
  return -1;
}

/// Takes the reference.
void raise_later(PyObject *error) {
  if (Py_AddPendingCall(&raise_again, error) == 0)
    return;
  Py_DECREF(error); // too many wait
  PyErr_SetInterrupt();
}

} // namespace

bool is_of_signal(PyObject *error) {
  const Owned first(PyException_GetTraceback(error));
  return passes_handler(first.get());
}

bool passes_handler(PyObject *traceback) {
  for (auto *at = reinterpret_cast<PyTracebackObject *>(traceback); at; at = at->tb_next)
    if (is_handler(at->tb_frame))
      return true;
  return false;
}

void forget_set_error() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const bool interrupt = PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt) != 0;
  if (!traceback && !interrupt) { // of C code
    Py_XDECREF(type);
    Py_XDECREF(value);
    return;
  }
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value && traceback)
    PyException_SetTraceback(value, traceback);
  const Owned kept_type(type), kept(value), kept_traceback(traceback);
  if (!value || !(interrupt || is_of_signal(value)))
    return;
  raise_later(Py_NewRef(value));
}

SignalsLater::SignalsLater() { ++later; }
PyObject *SignalsLater::take() { return std::exchange(held, nullptr); }
SignalsLater::~SignalsLater() {
  if (--later == 0 && held)
    raise_later(std::exchange(held, nullptr));
}

} // namespace tracehost::python
