#pragma once

#include <Python.h>

#include <cstdint>

/// What we read of CPython beside its documented interface. Where 3.11, 3.12 and 3.13 differ in it,
/// the difference is here. Requires for all: GIL held.

#if PY_VERSION_HEX >= 0x030E0000
#error "Python 3.14 has no version tags of dicts, by which tracehost finds changes"
#endif
#ifdef Py_GIL_DISABLED
#error "tracehost counts on the GIL: a Python without it is not supported"
#endif

namespace tracehost::python {

/// The dict of an object's attributes, made if the object has its values in itself; null if it has
/// none. Borrowed.
PyObject *instance_dict(PyObject *object);

/// From now on version() of the dict changes with each store to it, also where it is an object's
/// `__dict__`. False if there is no memory for that; no error is left set.
bool keep_version(PyObject *dict);

/// Changes with the dict, once keep_version() has been called. No two dicts ever have the same one.
inline std::uint64_t version(PyObject *dict) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" // 3.12 says that it will go
  return reinterpret_cast<PyDictObject *>(dict)->ma_version_tag;
#pragma GCC diagnostic pop
}

} // namespace tracehost::python
