#pragma once

#include "base/object.h"

#include <Python.h>

#include <string>
#include <unordered_map>
#include <utility>

namespace tracehost::python {

/// What earlier traces of a Function have found out about its body: numbers that the body first
/// found in slots that it reads and stores, by path. Requires: GIL held.
class TraceHistory {
public:
  /// The body has read `before` in the slot, and stored another value. A number is noted; of a
  /// tuple its numbers, as `path[0]` ...
  void note(const std::string &path, PyObject *before);
  /// A side of an `if` stores to the slot: as an input, the slot would be joined.
  void note_side(const std::string &path) {
    first_.insert_or_assign(path, Owned(Py_NewRef(Py_None)));
  }
  /// Whether a trace that finds `value` there takes it as an input.
  bool varies(const std::string &path, PyObject *value) const;
  bool has_numbers() const { return !first_.empty(); }

private:
  std::unordered_map<std::string, Owned> first_;
};

} // namespace tracehost::python
