#pragma once

#include "base/forget_error.h"

#include <Python.h>

/// Releases Python objects in places that may not hold the GIL. Such places are destructors of
/// objects that the core shares. They run on the thread that drops the last reference.

namespace tracehost::python {

/// False before Py_Initialize and once finalisation has begun: objects are then leaked on purpose.
inline bool python_alive() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

/// Holds the GIL for a scope, on any thread. Cheap when the thread has it already.
class WithGil {
public:
  WithGil() : state_(PyGILState_Ensure()) {}
  ~WithGil() { PyGILState_Release(state_); }
  WithGil(const WithGil &) = delete;
  WithGil &operator=(const WithGil &) = delete;

private:
  PyGILState_STATE state_;
};

/// Keeps the error that is set, if any, over code that may set and clear its own.
class KeepError {
public:
  KeepError() { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~KeepError() {
    forget_error();
    PyErr_Restore(type_, value_, traceback_);
  }
  KeepError(const KeepError &) = delete;
  KeepError &operator=(const KeepError &) = delete;

private:
  PyObject *type_, *value_, *traceback_;
};

/// A strong reference that lets go at the end of a scope. Requires: GIL held.
class Owned {
public:
  explicit Owned(PyObject *stolen = nullptr) : object_(stolen) {}
  ~Owned() { Py_XDECREF(object_); }
  Owned(Owned &&other) noexcept : object_(other.object_) { other.object_ = nullptr; }
  Owned &operator=(Owned &&other) noexcept {
    PyObject *old = object_;
    object_ = other.object_;
    other.object_ = nullptr;
    Py_XDECREF(old);
    return *this;
  }
  PyObject *get() const { return object_; }
  PyObject *release() {
    PyObject *object = object_;
    object_ = nullptr;
    return object;
  }
  explicit operator bool() const { return object_ != nullptr; }

private:
  PyObject *object_;
};

/// The object of a weak reference, or null once it is gone. The field, because the accessor that
/// all versions share is deprecated in 3.13.
inline PyObject *referent(PyObject *weak) {
  PyObject *object = reinterpret_cast<PyWeakReference *>(weak)->wr_object;
  return object == Py_None ? nullptr : object;
}

/// The text of a str, `?` where it has none; lives as long as the str. Requires: GIL held.
inline const char *utf8(PyObject *unicode) {
  const char *text = unicode && PyUnicode_Check(unicode) ? PyUnicode_AsUTF8(unicode) : nullptr;
  if (text)
    return text;
  forget_error();
  return "?";
}

} // namespace tracehost::python
