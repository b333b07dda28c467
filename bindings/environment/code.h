#pragma once

#include "event/event.h"

#include <Python.h>

#include <span>
#include <string>
#include <vector>

/// What a code object can name, and where it stores.

namespace tracehost::python {

/// Names in one code object of the user's. Borrowed from the code object.
struct CodeNames {
  std::vector<PyObject *> globals;    ///< read or written as globals
  std::vector<PyObject *> attributes; ///< constants that getattr, match ... use as attribute names
  std::vector<PyObject *> imports;    ///< modules imported in the body
  bool any_attribute = false;         ///< getattr with a variable name, vars(), `__dict__`
};
CodeNames names_of(PyCodeObject *code);

/// Code of the standard library that reads fields of its argument by computed names: dataclasses,
/// copy.
bool reads_any_attribute(PyCodeObject *code);

/// Globals of torch that say what every nn.Module's call does (`_global_forward_hooks` ...): those
/// that such a call reads. Borrowed from the code object.
std::vector<PyObject *> module_hooks_of(PyCodeObject *code);

/// What kind of place a store goes to.
enum class Store { attribute, global, cell, element, other };

/// Finds code that can store to a place, among the code that ran. Cold: disassembles.
/// `key`: the attribute's, global's or cell's name; of an element, its key or null.
/// Returns false if no code can; `where` is the best guess of the line, a user's if there is one.
bool find_store(std::span<PyCodeObject *const> ran, Store kind, PyObject *key, Site &where);

} // namespace tracehost::python
