#pragma once

#include <Python.h>
#include <pybind11/pybind11.h>

#include <cstdint>

/// Whose code is this? One answer for frames, modules and classes: the file it is in says it, never
/// a name. So `statistics.py`, `queue.py` and a folder `torch/` of the user's are the user's, as
/// are an editable install, a zip and a cell of a notebook.
///
/// Requires for all: GIL held.

namespace tracehost::python {

enum class Origin : std::uint8_t {
  user,      ///< what no other answer claims
  package,   ///< installed: in one of this Python's folders for packages
  python,    ///< the standard library, what is built into the interpreter, and numpy
  torch,     ///< torch, functorch and torchgen
  tracehost, ///< this package
};

/// By a file's name, a str: `co_filename`, `__file__`. Anything else is the user's.
Origin origin_of_file(PyObject *file);
Origin origin_of(PyCodeObject *code);
/// The origin of a module, given the dict of its globals. `__file__` decides, or without one the
/// top-level package of `__name__`.
Origin origin_of_globals(PyObject *globals);
/// By its `__module__`. A class that C code has made without one is Python's.
Origin origin_of_type(PyTypeObject *type);

/// Code that no user can be asked to change, and whose own state is its own affair: Python, torch,
/// tracehost. Packages are not.
inline bool is_library(Origin origin) { return origin >= Origin::python; }

/// Finds the folders that the answers go by: at import, where no other thread can wait for them
/// with the GIL. Adds `origin(file) -> str` to the module.
void add_origin(pybind11::module_ &module);

} // namespace tracehost::python
