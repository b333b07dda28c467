#pragma once

#include "base/object.h"

#include <Python.h>
#include <pybind11/pybind11.h>

#include <string>

/// What the calls and the tracer need of autograph (`tracehost.autograph`), which converts a body
/// before it runs. Requires for all: GIL held.

namespace tracehost::python {

/// Whether modules' forwards, too, are converted on this thread, for a block: the body of a
/// Function is under way.
class Converting {
public:
  explicit Converting(bool on);
  ~Converting();
  Converting(const Converting &) = delete;
  Converting &operator=(const Converting &) = delete;
  static bool now();
  bool is_outermost() const;

private:
  bool before_;
};

/// Whether an argument of print() or of a logger is computed now on this thread. A trace that ended
/// by an exception may have left one so: forget_shown().
bool is_shown();
void forget_shown();

/// What to call in place of a traced callable: a new reference, itself where there is nothing to
/// convert. Null with an error set.
Owned converted(PyObject *callable);

/// A body's result, with Python's lists and ranges in place of those of the graph. Null with an
/// error set. Requires: trace::recording().
Owned plain_result(PyObject *result);

/// The user's own, of a converted function or of a code object; borrowed. Itself if it is no such.
PyObject *original_function(PyObject *function);
/// A new reference.
Owned original_code(PyCodeObject *code);
/// Whether an operator runs it: a part of a converted function.
bool is_generated(PyCodeObject *code);

/// Takes autograph's frames out of the traceback of the error that is set.
void clean_traceback();
/// Why the code that runs now has its conditions run by Python, a sentence; empty if autograph has
/// converted it.
std::string why_not_converted();

/// What generated code asks of the module.
void add_conversion(pybind11::module_ &module);

} // namespace tracehost::python
