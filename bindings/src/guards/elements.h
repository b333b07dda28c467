#pragma once

#include "base/object.h"

#include <Python.h>

#include <vector>

/// What hits do to the elements of lists and deques. Requires for all: GIL held.

namespace tracehost::python {

/// Puts `elements`, a list, in place of those that a list, deque, set or dict has. False with an
/// error set.
bool refill(PyObject *container, PyObject *elements);
/// To the end of a list or deque. False with an error set.
bool append(PyObject *container, PyObject *value);
/// The elements that a list has afterwards: from[i] says where the i-th was in `before`, a list; -1
/// takes the next of `values`, a tuple. Null with an error set.
Owned rearranged(const std::vector<int> &from, PyObject *before, PyObject *values);
/// The same for the elements of a list or deque, in place. False with an error set: also where
/// elements are missing, which another thread has taken away.
bool rewrite(PyObject *container, const std::vector<int> &from, PyObject *values);

/// Which keys of a dict stay where they are, if the others are taken away and put in again. Those
/// that are asked for come in the order of afterwards.
class OrderKept {
public:
  /// `before`: borrowed for the object's life.
  explicit OrderKept(PyObject *before);
  /// False from the first key on that is new, or that comes before one that it followed.
  bool keeps(PyObject *key);

private:
  Owned places_;
  Py_ssize_t last_ = -1;
  bool kept_ = true;
};

} // namespace tracehost::python
